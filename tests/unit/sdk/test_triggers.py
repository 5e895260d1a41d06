"""Event triggers and watchers, as far as a run needs them."""

from __future__ import annotations

import pytest

from milepost.sdk import AssetWatcher, BaseEventTrigger, BaseTrigger, DagDefinitionError, TriggerEvent


class Ticks(BaseEventTrigger):
    def __init__(self, every=1.0, **kwargs):
        super().__init__(**kwargs)
        self.every = every

    async def run(self):
        """Yield two events."""
        for number in range(2):
            yield TriggerEvent({"n": number})


async def test_trigger_yields_events():
    """A trigger is an asynchronous generator of events, which are equal if their payloads are."""
    assert [event async for event in Ticks().run()] == [TriggerEvent({"n": 0}), TriggerEvent(payload={"n": 1})]


def test_event_trigger_has_no_store_until_it_watches():
    """The asset stores of an event trigger are there under both names, empty until something watches."""
    trigger = Ticks(every=2.0, other="ignored")
    assert (trigger.asset_store, trigger.asset_state_store, trigger.every) == (None, None, 2.0)


def test_trigger_needs_run():
    """A trigger without `run` cannot be made."""
    with pytest.raises(TypeError, match="abstract"):
        BaseTrigger()


def test_watcher_keeps_name_and_trigger():
    """A watcher is made from a name and an event trigger, by place or by name."""
    trigger = Ticks()
    watcher = AssetWatcher(name="w", trigger=trigger)
    assert (watcher.name, watcher.trigger) == ("w", trigger)


@pytest.mark.parametrize(("name", "trigger"), [("", Ticks()), (3, Ticks()), ("w", object()), ("w", Ticks)])
def test_wrong_watcher_is_refused(name, trigger):
    """A watcher without a name, or with something that is no event trigger, fails at load."""
    with pytest.raises(DagDefinitionError):
        AssetWatcher(name, trigger)
