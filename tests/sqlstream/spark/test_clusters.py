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
_TABLES = """
CREATE TABLE events (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/events', 'format' = 'parquet');
CREATE TABLE totals (k BIGINT, at TIMESTAMP(3), n BIGINT, total BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'parquet');
CREATE FUNCTION doubled AS 'cluster_functions:doubled';
"""
_TOTALS = """
INSERT INTO totals SELECT k, window_start, COUNT(*), SUM(doubled(v))
FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY k, window_start, window_end;
"""
_SQL = _TABLES + _TOTALS
_SET = f"""{_TABLES}
CREATE TABLE large (k BIGINT, v BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{{out}}-large', 'format' = 'parquet');
EXECUTE STATEMENT SET BEGIN {_TOTALS}
INSERT INTO large SELECT k, doubled(v) FROM events WHERE v > 90; END;
"""
_SERVER_PYTHON = """#!/bin/sh
case "$*" in
*foreach_batch_worker*)
  if [ ! -e {folder}/slow ]; then touch {folder}/slow; sleep 12; fi
  PYTHONPATH={package} exec {python} "$@" ;;
esac
exec {bare} "$@"
"""
"""Of a server whose tasks have the bare Python; that for foreachBatch has all, and is late when it first starts."""
_FUNCTIONS = "def doubled(value: int) -> int:\n    return 2 * value\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The events, a module of the user, and a Python for workers that knows neither this module nor the package."""
    actual = tmp_path_factory.mktemp("clusters")
    (actual / "events").mkdir()
    (actual / "cluster_functions.py").write_text(_FUNCTIONS)
    for file in range(_FILES):
        i = np.arange(file * _ROWS, (file + 1) * _ROWS)
        times = pa.array(1_704_067_200_000_000 + i * 500_000).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": i % 7, "v": i * 3 % 101, "ts": times}), actual / "events" / f"{file}.parquet")
    bare_python(actual / "bare")
    return actual


@pytest.fixture(scope="module")
def expected(folder, spark):
    """What the job writes here."""
    with pytest.MonkeyPatch.context() as patch, sqlstream.connect(spark) as session:
        patch.syspath_prepend(str(folder))
        session.sql("SET 'table.dml-sync' = 'true';" + _SQL.format(folder=folder, out=folder / "here"))
    rows = committed(folder / "here")
    assert rows.num_rows == 7 * 9
    return rows


@pytest.fixture(scope="module")
def server(folder):
    python, package = folder / "server-python", Path(sqlstream.__file__).parents[1]
    bare = folder / "bare" / "python"
    python.write_text(_SERVER_PYTHON.format(folder=folder, package=package, python=sys.executable, bare=bare))
    python.chmod(0o755)
    with connect_server(folder / "server", _environment(folder, python)) as url:
        yield url


def _environment(folder: Path, workers: Path | None = None) -> dict[str, str]:
    python = {"PYSPARK_PYTHON": str(workers or folder / "bare" / "python"), "PYTHONPATH": str(folder)}
    return {**os.environ, **python, "XDG_CACHE_HOME": str(folder / "cache")}


def _run(folder: Path, master: str, name: str, sql: str = _SQL) -> pa.Table:
    """The totals of a job that a process of its own runs with ``master``."""
    _start(folder, master, name, sql, "--set", "execution.end-of-input=final")
    return committed(folder / name)


def _start(folder: Path, master: str, name: str, sql: str, *more: str) -> str:
    """What the process writes to standard error."""
    script = folder / f"{name}.sql"
    script.write_text(sql.format(folder=folder, out=folder / name))
    command = [sys.executable, "-m", "sqlstream", "run", str(script), "--master", master]
    settings = ["--set", f"execution.checkpointing.dir={folder / name}-state", "--set", "pipeline.max-parallelism=2"]
    command = [*command, *settings, *more]
    done = subprocess.run(command, env=_environment(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


@pytest.mark.long  # six processes of Java; test_worker_package.py imports the package where nothing is installed
def test_executors_of_a_cluster_run_kernels_that_they_do_not_have_installed(folder, expected):
    with cluster(folder / "cluster", _environment(folder)) as machines:
        rows = _run(folder, machines.url, "standalone")
        executors = {path.parent.name for path in (folder / "cluster" / "work").glob("*/*/stderr")}
    assert difference(expected, rows) is None
    assert executors == {"0", "1"}


@pytest.mark.long
def test_connect_runs_kernels_that_its_server_does_not_have_installed(folder, expected, server):
    paused = _start(folder, server, "remote", _SQL)
    waiting = "40 rows wait in open windows for the watermark 2024-01-01 00:08:59.999"
    assert waiting in paused
    assert difference(expected, _run(folder, server, "remote")) is None
    (state,) = (folder / "remote-state").glob("*/spark/state/0")
    assert {path.name for path in state.glob("[0-9]*")} == {"0", "1"}, "a partition per core, as here"


@pytest.mark.long
def test_connect_runs_statement_sets_also_where_python_of_the_server_starts_slowly(folder, expected, server):
    assert difference(expected, _run(folder, server, "set", _SET)) is None
    large = committed(folder / "set-large")
    assert sorted(large["v"].to_pylist()) == sorted(2 * v for i in range(_FILES * _ROWS) if (v := i * 3 % 101) > 90)
    assert (folder / "slow").exists(), "the first start was one too late"
