"""An event trigger on a folder: every file that arrives starts one run, also when the watch is killed in between.

``Arrivals`` looks into the folder INBOX. For each new file it yields an event first and stores second that it has seen the
file: killed in between, it yields the same event again, under the same id, and that starts no second run.
A file that is replaced is another event, because its id holds the time of its last change.

Watch: ``milepost watch examples/arriving_files.py``, and put files into ``build/inbox``. A file that is still being written
has a name that ends with ``.part``; its writer renames it when it is whole.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from milepost.sdk import Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, dag, task

INBOX = Path(os.environ.get("INBOX", "build/inbox"))


class Arrivals(BaseEventTrigger):
    """Tells of files in a folder that are new or were replaced."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def files(self) -> dict[str, int]:
        """Return the files that are whole, by name, with the time of their last change in nanoseconds."""
        found = [path for path in self.folder.glob("*") if path.is_file() and path.suffix != ".part"]
        return {path.name: path.stat().st_mtime_ns for path in sorted(found)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each file, then store that it has been seen."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            files = await asyncio.to_thread(self.files)
            seen = dict(await self.asset_store.aitems("seen/"))
            for name, changed in files.items():
                if seen.pop(f"seen/{name}", None) != changed:
                    yield TriggerEvent({"file": name}, id=f"{name} {changed}")
                    await self.asset_store.aset(f"seen/{name}", changed)
            for key in seen:  # the file is gone
                await self.asset_store.adelete(key)
            await asyncio.sleep(0.5)


FILES = Asset("inbox.files", uri="file:///inbox", watchers=[AssetWatcher("arrivals", Arrivals(INBOX))])
LINES = Asset("inbox.lines", uri="file:///inbox/lines")


@dag(schedule=[FILES])
def arriving_files():
    @task(outlets=[LINES])
    def count(params, asset_store=None):
        name = params["event"]["payload"]["file"]
        lines = len((INBOX / name).read_text().splitlines())
        asset_store.set(f"lines/{name}", lines)
        print(f"{name}: {lines} lines")

    count()


arriving_files()
