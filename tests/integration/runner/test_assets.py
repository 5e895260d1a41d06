"""Assets in a run: a loaded file declares them, what is staged waits for success, aliases bring theirs."""

from __future__ import annotations

import os
import signal

import pytest

import milepost
from milepost import Asset, AssetReference
from tests.integration.runner.helpers import wait_until

TWO = """
A, B, C = Asset("a", uri="s3://a"), Asset("b", uri="s3://b"), Asset("c", uri="s3://c")
with DAG("one", schedule=[C]):
    @task(inlets=[A], outlets=[B])
    def work(asset_store=None):
        asset_store[B].set("k", 1)
    work()
"""


def assets(project, **options):
    """Return the assets of the project's store by name: whether they are active, and who refers to them."""
    with milepost.connect(project.url) as store:
        return {
            one.name: (one.active, [str(ref.direction) for ref in one.references]) for one in store.assets.list(**options)
        }


def test_a_run_declares_the_assets_of_its_file(project):
    """Loading a file records all its DAGs' assets; a later load replaces them, and what nobody refers to is deactivated."""
    project.write(TWO)
    assert project.run("one").code == 0
    assert assets(project)["a"] == (True, ["inlet"])
    assert assets(project)["b"] == (True, ["outlet"])
    project.write(TWO.replace("inlets=[A], ", ""))
    outcome = project.run("one", run_id="r2")
    assert outcome.code == 0
    assert "no DAG refers to the asset a (s3://a) any more; it is deactivated" in outcome.err
    assert assets(project)["a"] == (False, [])
    project.write(TWO)
    assert project.run("one", run_id="r3").code == 0
    assert assets(project)["a"] == (True, ["inlet"])


def test_an_asset_with_another_uri_is_told_of(project):
    """A new asset of a known name starts without state: the load that records it names both URIs, later ones do not."""
    project.write(TWO)
    assert "starts without state" not in project.run("one").err
    project.write(TWO.replace("s3://b", "s3://moved"))
    said = project.run("one", run_id="r2").err
    assert (
        "the new asset b with the URI s3://moved starts without state; another asset of that name has the URI s3://b "
        "(`milepost asset-store copy b --uri s3://b b --to-uri s3://moved` takes its state over)" in said
    )
    project.write(TWO.replace('"b"', '"c"').replace("s3://b", "s3://moved"))
    said = project.run("one", run_id="r3").err
    assert "another asset of that URI has the name b (`milepost asset-store copy b --uri s3://moved c --to" in said
    assert "starts without state" not in project.run("one", run_id="r4").err


def test_s24_a_file_that_does_not_load_changes_nothing(project):
    """S-24: a file that is broken for a while, or whose second DAG is wrong, leaves references and state as they were."""
    project.write(TWO)
    assert project.run("one").code == 0
    before = assets(project)
    for broken in (
        "import nothing_of_that_name\n" + TWO,
        TWO + "raise RuntimeError('half way')\n",
        "A = (\n",
        TWO + 'DAG("one")\n',
    ):
        project.write(broken)
        assert project.run("one", run_id="r2").code == 2
        assert assets(project) == before
    with milepost.connect(project.url) as store:
        store.asset_store(Asset("x", uri="u1"))
        store.asset_store(Asset("x", uri="u2"))
    before = assets(project)
    project.write(
        'with DAG("zero"):\n    task(outlets=[Asset("new")])(print)()\n'
        + TWO.replace("inlets=[A]", 'inlets=[Asset.ref(name="x")]')
    )
    outcome = project.run("one", run_id="r2")
    assert outcome.code == 2
    assert "2 different assets" in outcome.err
    assert assets(project) == before
    with milepost.connect(project.url) as store:
        assert store.asset_store(Asset.ref(name="b")).get("k") == 1
        assert store.runs.get("one", "r2") is None


def test_other_dags_keep_their_references(project):
    """A DAG's references are replaced by its own load only."""
    project.write(TWO)
    assert project.run("one").code == 0
    project.write('with DAG("other"):\n    task(inlets=[Asset.ref(name="a")])(print)()\n', name="other.py")
    assert project.run(name="other.py", run_id="r1").code == 0
    with milepost.connect(project.url) as store:
        assert store.assets.get(Asset.ref(name="a")).references == (
            AssetReference("one", "inlet"),
            AssetReference("other", "inlet"),
        )
    assert assets(project)["b"] == (True, ["outlet"])


STAGING = """
A = Asset("a")
with DAG("d"):
    @task(outlets=[A], retries=1)
    def load(asset_store=None, ti=None):
        asset_store.stage("watermark", ti.try_number, advance=True)
        assert asset_store.get("watermark") is None
        if ti.try_number == 1:
            {first}
    load()
"""


@pytest.mark.parametrize("first", ["raise RuntimeError('late')", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_staged_values_come_with_success(project, first):
    """What a failed or killed attempt staged is never seen; what the successful one staged is there when the run ends."""
    project.write(STAGING.replace("{first}", first))
    assert project.run().code == 0
    with milepost.connect(project.url) as store:
        asset = store.asset_store(Asset("a"))
        assert asset.get("watermark") == 2
        assert asset.history("watermark") == []
        assert asset.entry("watermark").writer.attempt == 2


def test_success_that_cannot_be_committed_is_a_failure(project):
    """If the asset is deactivated while the task works, the attempt fails and says so; the next one may succeed."""
    project.write(
        """
A = Asset("a")
with DAG("d"):
    @task(outlets=[A], retries=1)
    def load(asset_store=None, ti=None):
        import milepost
        with milepost.connect(os.environ["MILEPOST__STATE_STORE__URL"]) as store:
            store.assets.activate(A)
            asset_store.stage("k", ti.try_number)
            if ti.try_number == 1:
                store.assets.deactivate(A)
    load()
"""
    )
    outcome = project.run()
    assert outcome.code == 0
    assert "AssetNotActiveError" in outcome.err
    assert project.state("load") == ("success", 2)
    with milepost.connect(project.url) as store:
        assert store.asset_store(Asset("a")).get("k") == 2


def test_inlet_aliases_in_a_run(project):
    """A task with an alias among its inlets finds the assets that the alias stands for."""
    with milepost.connect(project.url) as store:
        store.asset_store(Asset("a")).set("k", "found")
        store.assets.attach("x", Asset("a"))
    project.write(
        """
with DAG("d"):
    @task(inlets=[AssetAlias("x")], outlets=[AssetAlias("y")])
    def load(asset_store=None):
        return [asset_store.get("k"), [asset.name for asset in asset_store]]
    load()
"""
    )
    assert project.run().code == 0
    assert project.result("load") == ["found", ["a"]]


def test_a_killed_runner_leaves_nothing_staged_behind(project):
    """If runner and attempt are killed before the attempt succeeded, the resumed run stages anew and commits that alone."""
    project.write(
        """
A = Asset("a")
with DAG("d"):
    @task(outlets=[A])
    def load(asset_store=None, ti=None):
        asset_store.stage(f"k{ti.try_number}", 1)
        if ti.try_number == 1:
            open("staged", "w").close()
            time.sleep(60)
    load()
"""
    )
    runner = project.start()
    wait_until((project.folder / "staged").exists, "the attempt has staged")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    assert project.run().code == 0
    with milepost.connect(project.url) as store:
        assert store.asset_store(Asset("a")).items() == [("k2", 1)]


def test_a_run_says_what_becomes_of_an_asset_and_what_it_swept(project):
    """Who loses an asset reads until when its state is kept and how it comes back; what is swept after a run is named."""
    project.write(TWO)
    assert project.run("one").code == 0
    project.write(TWO.replace("inlets=[A], ", ""))
    outcome = project.run("one", run_id="r2")
    with milepost.connect(project.url) as store:
        until = store.assets.get(Asset.ref(name="a")).kept_until(24).astimezone()
    assert f"kept until {until.isoformat(sep=' ', timespec='seconds')} (orphan_grace_hours)" in outcome.err
    assert "milepost assets activate a --uri s3://a" in outcome.err
    assert "collection after the run" not in outcome.err
    project.environment["MILEPOST__STATE_STORE__ORPHAN_GRACE_HOURS"] = "0"
    outcome = project.run("one", run_id="r3")
    assert outcome.code == 0
    assert "collection after the run: removed the asset a (s3://a) with its state" in outcome.err
    assert sorted(assets(project)) == ["b", "c"]


def test_a_task_that_reads_a_deactivated_asset_is_warned(project):
    """A loader that would begin anew because its asset is deactivated has that in its log, once."""
    with milepost.connect(project.url) as store:
        store.asset_store(Asset("a")).set("watermark", 7)
    project.write(
        """
with DAG("d"):
    @task(inlets=[Asset("a")])
    def load(asset_store=None):
        return [asset_store.get("watermark", 0), asset_store.get("watermark", 0)]
    load()
"""
    )
    assert "deactivated" not in project.run().err
    with milepost.connect(project.url) as store:
        store.assets.deactivate(Asset("a"))
    outcome = project.run(run_id="r2")
    assert project.result("load", run_id="r2") == [0, 0]
    assert outcome.err.count("the asset a is deactivated, so reads find nothing") == 1
    assert "[load] WARNING milepost: the asset a is deactivated" in outcome.err
    assert "milepost assets activate a\n" in outcome.err
