"""Savepoints of running and stopped jobs, and jobs that start from them: elsewhere, changed, spread anew."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import JobState
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.savepoints import Manifest, create_savepoint, read_manifest
from sqlstream.session import Session
from tests.sqlstream.jobs.changed_plans import CHANGES, Change, script

pytestmark = pytest.mark.spark

FIRST = [("a", 1, 1), ("b", 2, 2), ("c", -5, 3)]
"""What the savepoint holds, in a window that is open."""
THEN = [("a", 10, 13), ("d", 7, 14), ("b", -1, 15), ("c", 1, 21)]

SUMS = {("a", 0): 1, ("b", 0): 2, ("c", 0): -5, ("a", 10): 10, ("d", 10): 7, ("b", 10): -1, ("c", 20): 1}
EXPECTED = {
    "a filter below the windows": {key: total for key, total in SUMS.items() if key != ("b", 10)},
    "a filter above them": {key: total for key, total in SUMS.items() if total > 0},
    "other columns and names": {(k.upper(), start): total for (k, start), total in SUMS.items()},
}
DELAY = "another delay of the watermark"
ACCEPTED = [
    pytest.param(change, id=change.name, marks=[pytest.mark.long] * (change.name not in {*EXPECTED, DELAY}))
    for change in CHANGES
    if not change.refused
]
"""In the gate those that give other rows, and one that goes on from a checkpoint."""


class Jobs:
    """Jobs over files of one folder; each with a session of its own."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.sessions = []
        (folder / "in").mkdir(exist_ok=True)
        (folder / "names.json").write_text('{"k": "a", "name": "Ann"}')

    def put(self, name, rows):
        lines = (json.dumps({"k": k, "v": v, "w": v, "ts": f"2024-01-01 00:00:{s:02d}"}) for k, v, s in rows)
        (self.folder / f"in/{name}.json").write_text("\n".join(lines))

    def start(self, checkpoints, origin=None, change=None, **settings):
        session = Session(self.spark)
        self.sessions.append(session)
        settings = {"execution.checkpointing.dir": f"{self.folder}/{checkpoints}", **settings}
        if origin is not None:
            settings["execution.state-recovery.path"] = str(origin)
        for key, value in settings.items():
            session.sql(f"SET '{key}' = '{value}'")
        definitions, insert = script(str(self.folder), change)
        session.sql(definitions.replace("'1 s'", "'50 ms'"))
        return session.sql(insert)

    def output(self, out="out", kind="json"):
        """Totals by key and second of the window's start."""
        rows = (
            self.spark.read.schema("k STRING, total BIGINT, start TIMESTAMP").format(kind).load(f"{self.folder}/{out}")
        )
        collected = [((row.k, row.start.second), row.total) for row in rows.collect()]
        assert len(dict(collected)) == len(collected), "no row comes twice"
        return dict(collected)

    def close(self):
        for session in self.sessions:
            session.close()


def manifest_of(folder) -> Manifest:
    actual = read_manifest(Path(folder))
    assert actual is not None
    return actual


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def saved(spark, tmp_path_factory):
    """A folder with the savepoint ``first`` of a job, whose checkpoint is ``ended`` now, and rows not read yet."""
    folder = tmp_path_factory.mktemp("saved")
    there = Jobs(spark, folder)
    there.put("1", FIRST)
    job = there.start("checkpoints")
    until(lambda: job.progress().rows_in == 3)
    assert job.stop(savepoint=str(folder / "first")) == str(folder / "first")
    assert job.state is JobState.STOPPED
    there.close()
    (folder / "checkpoints").rename(folder / "ended")
    there.put("2", THEN)
    return folder


@pytest.fixture
def later(spark, saved):
    """Jobs over the folder of ``saved``."""
    actual = Jobs(spark, saved)
    yield actual
    actual.close()


def test_a_savepoint_says_what_it_holds_and_is_nothing_but_one_epoch(saved):
    manifest = manifest_of(saved / "first")
    files = {str(p.relative_to(saved / "first")) for p in (saved / "first").rglob("*") if p.is_file()}
    assert files == {"savepoint.json", *manifest.files}
    assert {"plan.json", "layout.json", "spark/metadata"} <= files
    assert [f for f in sorted(files) if f.startswith("spark/commits/")] == [
        f"spark/commits/{n}" for n in (manifest.epoch - 1, manifest.epoch) if n >= 0
    ]
    assert (manifest.job, manifest.partitions, manifest.drained) == ("insert_into_totals", 1, False)
    assert not [p for p in saved.iterdir() if p.name.startswith(".")]


# --- jobs that start from savepoints --------------------------------------------------------------------------


@pytest.mark.parametrize("change", ACCEPTED)
def test_a_changed_query_goes_on_with_the_state_of_a_savepoint_elsewhere(later, saved, tmp_path, change):
    moved = shutil.copytree(saved / "first", tmp_path / "moved")
    origin = saved / "ended/insert_into_totals" if "delay" in change.name else moved
    out = change.texts.get("out", "out" if "below the windows" in change.name else f"out-{tmp_path.name}")
    changed = Change(change.name, {**change.texts, "out": out})
    job = later.start(f"checkpoints-{tmp_path.name}", origin, changed)
    assert job.stop(drain=True) is None
    assert (job.state, job.progress().rows_in) == (JobState.FINISHED, len(THEN))
    assert later.output(out, changed.texts.get("format", "json")) == EXPECTED.get(change.name, SUMS)


def test_state_is_spread_over_more_partitions_and_a_running_job_gives_savepoints(later, saved, tmp_path):
    settings = {"parallelism.default": "3", "execution.checkpointing.savepoint-dir": str(tmp_path)}
    change = Change("spread", {"out": "spread"})
    job = later.start("spread-checkpoints", saved / "first", change, **settings)
    until(lambda: job.progress().rows_in == len(THEN))
    path = job.savepoint()
    assert manifest_of(path).partitions == 3
    assert Path(path).parent == tmp_path
    assert (job.state, list(tmp_path.iterdir())) == (JobState.RUNNING, [Path(path)])
    with pytest.raises(SqlStreamError, match=r"SS458: the checkpoint .* is that of the job"):
        later.start("of-a-running-job", job.checkpoint_path, change)
    drained = job.stop(savepoint=True, drain=True)
    assert job.state is JobState.FINISHED
    assert later.output("spread") == SUMS

    assert manifest_of(drained).drained
    with pytest.raises(SqlStreamError, match=r"SS429: savepoint .* was taken with DRAIN"):
        later.start("drained-checkpoints", drained, change)
    with pytest.raises(SqlStreamError, match="SS231"):
        job.savepoint()

    with pytest.raises(SqlStreamError, match="holds the micro-batch"):
        later.start("again", path, change)


# --- refusals, before Spark is asked for anything -------------------------------------------------------------


def refused(later, origin, checkpoints="refused", change=None, **settings):
    with pytest.raises(SqlStreamError) as caught:
        later.start(checkpoints, origin, change, **settings)
    return caught.value


def test_an_incompatible_query_is_refused_and_leaves_nothing(later, saved):
    change = next(c for c in CHANGES if c.name == "other keys")
    error = refused(later, saved / "first", change=change)
    assert (error.code, error.diagnostic.detail) == ("SS421", change.refused)
    assert error.diagnostic.message.startswith(f'savepoint "{saved}/first" belongs to another query')
    assert refused(later, saved / "first", **{"pipeline.max-parallelism": "3"}).code == "SS425"
    assert not list(saved.glob("refused/*/spark"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is cut off"),
        (lambda path: path.write_bytes(bytes(len(path.read_bytes()))), "is not what was written"),
    ],
)
def test_a_damaged_savepoint_is_refused_by_the_file(later, saved, tmp_path, damage, message):
    broken = shutil.copytree(saved / "first", tmp_path / "broken")
    path = next(broken.rglob("*.changelog"))
    damage(path)
    error = refused(later, broken)
    assert error.code == "SS428"
    assert error.diagnostic.message.startswith(f'file "{path}" of a savepoint {message}')
    (broken / "savepoint.json").write_text("{}")
    assert "savepoint.json" in refused(later, broken).diagnostic.message


def test_other_places_are_no_savepoints(later, saved, tmp_path):
    assert refused(later, tmp_path).code == "SS455"
    assert refused(later, tmp_path / "nowhere").diagnostic.detail == "The directory does not exist."
    assert refused(later, "s3a://bucket/savepoint").code == "SS456"
    shutil.copytree(saved / "ended", saved / "own", dirs_exist_ok=True)
    assert refused(later, saved / "first", "own").code == "SS427"


def test_a_savepoint_takes_no_directory_of_another(saved):
    storage = LocalStorage(saved / "ended/insert_into_totals")
    with pytest.raises(SqlStreamError, match="SS426: no savepoint of job") as caught:
        create_savepoint(storage, str(saved / "first"), "totals")
    assert "is there already" in str(caught.value.diagnostic.detail)
    with pytest.raises(SqlStreamError) as caught:
        create_savepoint(LocalStorage(saved / "nothing"), str(saved / "second"), "totals")
    assert caught.value.diagnostic.detail == "No micro-batch is complete yet."
    with pytest.raises(SqlStreamError, match="SS426"):
        create_savepoint(storage, "s3a://bucket/savepoint", "totals")


def test_a_savepoint_that_cannot_be_written_leaves_nothing(saved, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sqlstream.jobs.savepoints.create.copied", full)
    with pytest.raises(SqlStreamError) as caught:
        create_savepoint(LocalStorage(saved / "ended/insert_into_totals"), str(tmp_path / "second"), "totals")
    assert (caught.value.code, list(tmp_path.iterdir())) == ("SS426", [])
    assert "No space left" in str(caught.value.diagnostic.detail)
