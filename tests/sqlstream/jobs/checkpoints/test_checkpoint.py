"""Checkpoint directories: small files, fingerprints of plans, control rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlstream.errors import ExecutionError, UnsupportedError
from sqlstream.jobs.checkpoints.checkpoint import checkpoint_exists, open_checkpoint
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.fingerprint import StateLayout, new_key_groups
from sqlstream.jobs.checkpoints.storage import LocalStorage, SparkStorage, storage_at
from sqlstream.planner.nodes import Output
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical.engine import REUSES_ALL
from sqlstream.planner.windows import Tumble
from sqlstream.udfs.spark.batches import murmur3, numbers_of
from tests.streams import item, table, timed

EVENTS = table("events", delay_ms=500, k="STRING", v="INT", ts="TIMESTAMP")


TUMBLE = Tumble(1000)


def plan(window=TUMBLE, source=EVENTS, aggregate="SUM(v)"):
    rows = AssignWindows(timed(source), window, "ts", ())
    return Output(WindowAggregate(rows, ("k",), (item("s", aggregate),)), ("k", "a", "b", "c", "s"))


def test_local_texts_appear_whole(tmp_path):
    storage = LocalStorage(tmp_path)
    assert storage.read("a/b.txt") is None
    storage.write("a/b.txt", "first")
    storage.write("a/b.txt", "then")
    assert storage.read("a/b.txt") == "then"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b.txt"]


@pytest.mark.parametrize("path", ["/jobs/[x]", "jobs*", "/what?", "/{a,b}/c", "/a\\b"])
def test_checkpoints_whose_path_reads_as_a_pattern_are_refused(path):
    nowhere: Any = None  # Spark is not asked
    with pytest.raises(ExecutionError, match=r"SS423: the path .* of a checkpoint holds the character"):
        open_checkpoint(path, plan(), nowhere)
    with pytest.raises(ExecutionError, match="SS423"):
        checkpoint_exists(path, nowhere)


@pytest.mark.spark
def test_the_storage_of_a_path_is_local_and_of_other_schemes_sparks(spark, tmp_path):
    assert storage_at(str(tmp_path), spark) == LocalStorage(tmp_path)
    assert storage_at((tmp_path / "with space").as_uri(), spark) == LocalStorage(tmp_path / "with space")
    assert storage_at("relative", spark) == LocalStorage(Path("relative").absolute())
    assert storage_at("s3a://bucket/jobs/", spark) == SparkStorage("s3a://bucket/jobs", spark)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["local", "spark"])
def test_control_rows_are_read_from_any_storage(spark, tmp_path, kind):
    storage = LocalStorage(tmp_path) if kind == "local" else SparkStorage(f"file://{tmp_path}", spark)
    assert storage.read("plan.txt") is None
    storage.write("plan.txt", "two\nlines")
    assert storage.read("plan.txt") == "two\nlines"

    control = ControlRows(storage)
    control.stream(spark, "odd/name")
    control.lift("odd/name", -7, "one")
    control.end("odd/name")
    control.end("odd/name")
    rows = spark.read.schema("watermark_ms BIGINT").option("recursiveFileLookup", "true")
    actual = rows.json(storage.location("control/odd%2Fname")).where("watermark_ms IS NOT NULL").collect()
    assert sorted(row.watermark_ms for row in actual) == [-7, 253_402_300_799_999]


@pytest.mark.spark
def test_a_checkpoint_keeps_its_engine_and_key_groups(spark, tmp_path):
    path = str(tmp_path)
    assert open_checkpoint(path, plan(), spark, "native", 7).layout == StateLayout("native", 7, reuse=REUSES_ALL)
    assert open_checkpoint(path, plan(), spark).layout == StateLayout("native", 7, reuse=REUSES_ALL)
    with pytest.raises(ExecutionError, match=r'SS424: .* holds the state of the engine "native", not of "columnar"'):
        open_checkpoint(path, plan(), spark, "columnar")
    with pytest.raises(ExecutionError, match=r"SS425: .* has its state in 7 key groups, not in 8"):
        open_checkpoint(path, plan(), spark, "native", 8)


@pytest.mark.parametrize(
    ("tasks", "key_groups"), [(1, 16), (2, 16), (3, 24), (8, 64), (9, 63), (16, 64), (40, 40), (64, 64), (200, 200)]
)
def test_tasks_have_as_many_key_groups_of_a_new_checkpoint_as_each_other(tasks, key_groups):
    assert new_key_groups(tasks) == key_groups
    tasks_of_groups = murmur3(numbers_of(key_groups).astype(np.uint32)) % tasks
    assert np.bincount(tasks_of_groups, minlength=tasks).tolist() == [key_groups // tasks] * tasks


@pytest.mark.spark
@pytest.mark.parametrize("chaining", [True, False])
def test_a_checkpoint_keeps_operators_together_or_apart_and_old_ones_had_them_apart(spark, tmp_path, chaining):
    path = str(tmp_path)
    assert open_checkpoint(path, plan(), spark, "columnar", 7, chaining=chaining).layout.chained is chaining
    assert open_checkpoint(path, plan(), spark, chaining=not chaining).layout.chained is chaining
    (tmp_path / "layout.json").write_text('{"gear": "columnar", "key_groups": 7}')
    assert open_checkpoint(path, plan(), spark).layout == StateLayout("columnar", 7, chained=False)


@pytest.mark.spark
def test_what_the_engine_of_a_checkpoint_lacks_is_a_difference_of_the_query_and_no_setting_of_the_engine(
    spark, tmp_path
):
    """Plans without state are native; so are the later ones of their checkpoints."""
    rows, path = timed(EVENTS), str(tmp_path)
    assert open_checkpoint(path, Output(rows, ("k",)), spark).layout.engine == "native"
    numbered = Output(TopN(rows, ("k",), (Sorted("v"),), "ROW_NUMBER", 1, 1), ("k",))
    for engine in ("auto", "native"):
        with pytest.raises(ExecutionError, match=r"(?s)SS421: .*It holds nothing of .*start in a new directory"):
            open_checkpoint(path, numbered, spark, engine)
    with pytest.raises(UnsupportedError, match=r"(?s)SS390: .*HINT: SET 'sqlstream.engine' = 'auto'"):
        open_checkpoint(str(tmp_path / "new"), numbered, spark, "native")
