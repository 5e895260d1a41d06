"""What Airflow stores of a DAG, in the forms of its versions, and which assets are found in it. Airflow is not needed."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.airflow.compat import is_incarnation
from milepost.airflow.records import references
from milepost.scopes import AssetScope

OLD: dict[str, Any] = {
    "timetable": {
        "__type": "airflow.timetables.simple.DatasetTriggeredTimetable",
        "__var": {
            "dataset_condition": {
                "__type": "dataset_any",
                "objects": [
                    {"__type": "dataset", "uri": "s3://x/", "extra": None},
                    {"__type": "dataset_all", "objects": [{"__type": "dataset", "uri": "s3://y/", "extra": None}]},
                ],
            }
        },
    },
    "tasks": [
        {
            "__type": "operator",
            "__var": {
                "inlets": [
                    {"__var": {"uri": "s3://in/", "extra": None}, "__type": "dataset"},
                    {"__var": {"name": "al"}, "__type": "dataset_alias"},
                ],
                "op_args": [{"__var": {"uri": "s3://no/"}, "__type": "dataset"}],
            },
        },
        {"__var": {"partial_kwargs": {"outlets": [{"__var": {"uri": "s3://out/"}, "__type": "dataset"}]}}},
    ],
}
OLDEST: dict[str, Any] = {
    "timetable": {"__type": "airflow.timetables.simple.DatasetTriggeredTimetable", "__var": {}},
    "dataset_triggers": {
        "__type": "dataset_any",
        "__var": [
            {"__var": {"uri": "s3://x/", "extra": None}, "__type": "dataset"},
            {"__var": [{"__var": {"uri": "s3://y/", "extra": None}, "__type": "dataset"}], "__type": "dataset_all"},
        ],
    },
    "tasks": [],
}
NEW: dict[str, Any] = {
    "timetable": {
        "__type": "airflow.timetables.assets.AssetOrTimeSchedule",
        "__var": {
            "timetable": {
                "__type": "airflow.timetables.interval.CronDataIntervalTimetable",
                "__var": {"expression": "@daily"},
            },
            "asset_condition": {
                "__type": "asset",
                "name": "w",
                "uri": "s3://w/",
                "watchers": [{"name": "n", "trigger": {}}],
            },
        },
    },
    "tasks": [
        {
            "__var": {
                "inlets": [
                    {"__var": {"name": "n"}, "__type": "asset_ref"},
                    {"__var": {"uri": "s3://u"}, "__type": "asset_ref"},
                ],
                "outlets": [{"__var": {"name": "o", "uri": "s3://o/", "group": "asset"}, "__type": "asset"}],
            }
        }
    ],
}


def test_a_dag_of_airflow_2_refers_to_datasets() -> None:
    """A dataset's URI is its name, too; conditions of any depth, partial arguments; no aliases, no other arguments."""
    same = {(AssetScope(name=uri, uri=uri), way) for uri, way in (("s3://x/", "schedule"), ("s3://y/", "schedule"))}
    more = {(AssetScope(name=uri, uri=uri), way) for uri, way in (("s3://in/", "inlet"), ("s3://out/", "outlet"))}
    assert references({"dag": OLD}) == same | more
    assert references({"dag": OLDEST}) == same


def test_a_dag_of_airflow_3_refers_to_assets() -> None:
    """Assets, references by one name, and watchers."""
    watched = AssetScope(name="w", uri="s3://w/")
    assert references({"dag": NEW}) == {
        (watched, "schedule"),
        (watched, "watch"),
        (AssetScope(name="n"), "inlet"),
        (AssetScope(uri="s3://u"), "inlet"),
        (AssetScope(name="o", uri="s3://o/"), "outlet"),
    }


@pytest.mark.parametrize("data", [None, {}, {"dag": {"tasks": None}}, {"dag": {"tasks": ["x"]}}, {"dag": []}])
def test_a_form_that_is_not_known_is_an_error(data: Any) -> None:
    """It never passes for a DAG that refers to nothing."""
    with pytest.raises(ValueError, match="is not understood"):
        references(data)


def test_runs_of_airflow_are_told_from_others() -> None:
    """By the form of the incarnation; a run without one is not Airflow's."""
    ours = ["7", "7/2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00/-"]
    others = [None, "", "i1", "a b c", "0f" * 16, "1 2", "by/hand"]
    assert [is_incarnation(one) for one in (*ours, *others)] == [True] * 3 + [False] * 7
