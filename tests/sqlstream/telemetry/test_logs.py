"""Lines of log about jobs, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs import JobState, Progress
from sqlstream.jobs.lifecycle.observers import CURRENT_JOB
from sqlstream.telemetry.logs import LogExport, LoggedJob
from tests.planner.plans import plan
from tests.sqlstream.telemetry.figures import report

BIDS = "CREATE TABLE bids (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');"
JOB: Any = SimpleNamespace(
    name="totals",
    plan=plan("SELECT k, COUNT(*) FROM bids GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)", BIDS),
    checkpoint_path="/c/totals",
    progress=lambda: Progress(last_batch=7),
    state=JobState.FAILED,
    exception=ExecutionError("SS400", "it broke"),
)


def logged(style, level="info", write=None):
    stream = io.StringIO()
    with closing(LogExport(style, level, stream)):
        if write is not None:
            write()
        else:
            _whole_life()
    return stream.getvalue().splitlines()


def _whole_life():
    job = LoggedJob()
    job.on_start(JOB)
    more = {"bad/0/bids": {"rows": 2}, "sqlstream": {"rows_out": 4}, "source/0/bids": {"rows": 9}}
    job.on_epochs(JOB, [report(7, observedMetrics={**report()["observedMetrics"], **more})])
    job.on_failure(JOB, JOB.exception)
    job.on_end(JOB)


def test_each_line_is_json_with_what_it_is_about():
    lines = [json.loads(line) for line in logged("json")]
    assert {line.pop("logger") for line in lines} == {"sqlstream.jobs"}
    assert all(line.pop("time").endswith("Z") for line in lines)
    assert {line.pop("job") for line in lines} == {"totals"}
    assert lines == [
        {"level": "INFO", "message": "started, with the checkpoint /c/totals"},
        {"level": "INFO", "message": "9 rows in, 4 rows out, 500 ms", "epoch": 7, "rows_in": 9, "rows_out": 4,
         "duration_ms": 500},
        {"level": "WARNING", "message": "1 late rows dropped", "epoch": 7, "operator": "0: WindowAggregate", "rows": 1},
        {"level": "WARNING", "message": "2 bad rows", "epoch": 7, "table": "bids", "rows": 2},
        {"level": "ERROR", "message": "failed: it broke", "epoch": 8, "code": "SS400"},
        {"level": "ERROR", "message": "FAILED after epoch 7", "epoch": 7, "state": "FAILED"},
    ]  # fmt: skip


def test_text_is_for_people():
    *_, late, _, _, _ = logged("text")
    assert late.partition(" WARNING ")[2] == (
        "sqlstream.jobs job=totals epoch=7 operator=0: WindowAggregate: 1 late rows dropped"
    )


def test_levels_leave_lines_out():
    assert len(logged("json", "warning")) == 4
    assert len(logged("json", "error")) == 2


@pytest.mark.parametrize("name", ["sqlstream.kafka", "sqlstream.lookup"])
def test_lines_of_others_have_the_job_whose_thread_writes_them(name):
    token = CURRENT_JOB.set(JOB)
    try:
        (line,) = logged("json", write=lambda: logging.getLogger(name).warning("a %s", "word"))
    finally:
        CURRENT_JOB.reset(token)
    shown = json.loads(line)
    assert (shown["logger"], shown["message"], shown["job"], shown["epoch"]) == (name, "a word", "totals", 8)


def test_exceptions_are_in_their_line():
    def write():
        try:
            raise ValueError("x\ny")
        except ValueError:
            logging.getLogger("sqlstream.x").exception("no")

    (line,) = logged("json", write=write)
    assert "ValueError: x\ny" in json.loads(line)["exception"]


def test_loggers_are_as_before_when_it_ends():
    logger = logging.getLogger("sqlstream")
    before = (logger.level, logger.propagate, list(logger.handlers))
    logged("json")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_a_job_that_ends_before_its_first_epoch_names_none(caplog):
    caplog.set_level("INFO", "sqlstream.jobs")
    ended: Any = SimpleNamespace(
        name="totals", state=JobState.FAILED, exception=ExecutionError("SS400", "it broke"), progress=Progress
    )
    LoggedJob().on_end(ended)
    (record,) = caplog.records
    assert record.getMessage() == "FAILED before an epoch was complete" and not hasattr(record, "epoch")
