"""Jobs on a standalone cluster and through Spark Connect, whose workers' Python does not have the package installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlstream
from tests.faults.cluster import cluster, connect_server
from tests.faults.compare import committed, difference
from tests.workers import bare_python

pytestmark = pytest.mark.spark

_FILES, _ROWS = 2, 500
_SQL = """
CREATE TABLE events (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/events', 'format' = 'parquet');
CREATE TABLE totals (k BIGINT, at TIMESTAMP(3), n BIGINT, total BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'parquet');
CREATE FUNCTION doubled AS 'cluster_functions:doubled';
INSERT INTO totals SELECT k, window_start, COUNT(*), SUM(doubled(v))
FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY k, window_start, window_end;
"""
_FUNCTIONS = "def doubled(value: int) -> int:\n    return 2 * value\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The events, a module of the user, and a Python for workers that knows neither this module nor the package."""
    found = tmp_path_factory.mktemp("clusters")
    (found / "events").mkdir()
    (found / "cluster_functions.py").write_text(_FUNCTIONS)
    for file in range(_FILES):
        i = np.arange(file * _ROWS, (file + 1) * _ROWS)
        times = pa.array(1_704_067_200_000_000 + i * 500_000).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": i % 7, "v": i * 3 % 101, "ts": times}), found / "events" / f"{file}.parquet")
    bare_python(found / "bare")
    return found


@pytest.fixture(scope="module")
def expected(folder, spark):
    """What the job writes here."""
    with pytest.MonkeyPatch.context() as patch, sqlstream.connect(spark) as session:
        patch.syspath_prepend(str(folder))
        session.sql("SET 'table.dml-sync' = 'true';" + _SQL.format(folder=folder, out=folder / "here"))
    rows = committed(folder / "here")
    assert rows.num_rows == 7 * 9
    return rows


def _environment(folder: Path) -> dict[str, str]:
    python = {"PYSPARK_PYTHON": str(folder / "bare" / "python"), "PYTHONPATH": str(folder)}
    return {**os.environ, **python, "XDG_CACHE_HOME": str(folder / "cache")}


def _run(folder: Path, master: str, name: str) -> pa.Table:
    """What the job writes that a process of its own runs with ``master``."""
    script = folder / f"{name}.sql"
    script.write_text(_SQL.format(folder=folder, out=folder / name))
    command = [sys.executable, "-m", "sqlstream", "run", str(script), "--master", master]
    settings = ["--set", f"execution.checkpointing.dir={folder / name}-state", "--set", "pipeline.max-parallelism=2"]
    done = subprocess.run([*command, *settings], env=_environment(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return committed(folder / name)


def test_executors_of_a_cluster_run_kernels_that_they_do_not_have_installed(folder, expected):
    with cluster(folder / "cluster", _environment(folder)) as machines:
        rows = _run(folder, machines.url, "standalone")
        executors = {path.parent.name for path in (folder / "cluster" / "work").glob("*/*/stderr")}
    assert difference(expected, rows) is None
    assert executors == {"0", "1"}


def test_connect_runs_kernels_that_its_server_does_not_have_installed(folder, expected):
    with connect_server(folder / "server", _environment(folder)) as url:
        rows = _run(folder, url, "remote")
    assert difference(expected, rows) is None
    (state,) = (folder / "remote-state").glob("*/spark/state/0")
    assert {path.name for path in state.glob("[0-9]*")} == {"0", "1"}, "a partition per core, as here"
