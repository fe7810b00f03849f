"""Root causes out of what Spark says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.jobs.lifecycle.failure import is_cancellation, job_error

NULL_TIME = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted in stage
0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0: org.apache.spark.SparkRuntimeException:
[USER_RAISED_EXCEPTION] SS401: event time "ts" of table "bids" is NULL SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:2702)
=== Streaming Query ===
Project [CASE WHEN isnull(ts#1) THEN raise_error(SS401: event time "ts" of table "bids" is NULL) END AS x]"""

FUNCTION = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Task failed
Traceback (most recent call last):
  File "columnar.py", line 90, in _call
    raise FunctionError(f'{FUNCTION_FAILED}: function "{name}" failed')
FunctionError: SS411: function "fee" failed: ValueError: no price"""

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Task failed
Traceback (most recent call last):
  File "pyspark/worker.py", line 1, in main
ValueError: x

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "operator.py", line 90, in on_rows
sqlstream.errors.ExecutionError: SS404: a row came too late: k = 'a'
DETAIL: The watermark was at 5.
HINT: Write LATE DATA DROP.
\tat org.apache.spark.api.python.BasePythonRunner"""

CAUSED = """Query failed
org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.Thing
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream"""

LOST = """Query failed
Caused by: java.io.FileNotFoundException: File file:/c/j1/spark/state/0/1/7.changelog does not exist
\tat org.apache.hadoop.fs.RawLocalFileSystem"""

CUT_OFF = """Query failed
Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/j1/spark/state/0/1/7.zip at 0 exp: 1 got: 2
\tat org.apache.hadoop.fs.FSInputChecker"""

NO_INPUT = """Query failed
Caused by: java.io.FileNotFoundException: File file:/data/spark/x.json does not exist
\tat org.apache.hadoop.fs.RawLocalFileSystem"""

CRASHED = """Query failed
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream"""


NOT_BACK = """Query failed
org.apache.spark.SparkException: Python worker failed to connect back.
\tat org.apache.spark.api.python.PythonWorkerFactory"""


CUT_FROM_STATE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] An exception
was thrown from the Python worker: Traceback (most recent call last):
  File "/x/pyspark/sql/streaming/stateful_processor_api_client.py", line 157, in set_handle_state
    response_message = self._receive_proto_message()
EOFError
 SQLSTATE: 38000"""

RESET = """Query failed
Traceback (most recent call last):
  File "/x/udfs/spark/state_server.py", line 124, in _send
ConnectionResetError: [Errno 104] Connection reset by peer
"""


@pytest.mark.parametrize("text", [CUT_FROM_STATE, RESET])
@pytest.mark.parametrize(
    ("free", "first"),
    [
        (4096, "SS465: a disk that the job writes to is full: No space left on device"),
        (1 << 30, "SS466: Spark has cut a Python process of a task off from its state"),
    ],
)
def test_a_process_that_is_cut_off_from_its_state_looks_for_room_on_the_disk(text, free, first, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert str(job_error(RuntimeError(text), "j1", str(tmp_path))).splitlines()[0] == first


def test_a_function_whose_connection_is_reset_has_its_own_words():
    text = FUNCTION.replace("ValueError: no price", "ConnectionResetError: [Errno 104] Connection reset by peer")
    assert str(job_error(RuntimeError(text), "j1", "/c")).startswith('SS411: function "fee" failed: ConnectionReset')


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (NULL_TIME, 'SS401: event time "ts" of table "bids" is NULL'),
        (FUNCTION, 'SS411: function "fee" failed: ValueError: no price'),
        (CAUSED, "SS465: a disk that the job writes to is full: No space left on device"),
        (LOST, 'SS459: file "/c/j1/spark/state/0/1/7.changelog" of a checkpoint is damaged'),
        (CUT_OFF, 'SS459: file "/c/j1/spark/state/0/1/7.zip" of a checkpoint is damaged'),
        (NO_INPUT, "SS400: FileNotFoundException: File file:/data/spark/x.json does not exist"),
        (
            "Lost task: java.io.IOException: Mkdirs failed to create file:/out/my%20table/x (exists=false, cwd=file:/)",
            'SS439: "/out/my table/x" cannot be written or read: its directory cannot be made',
        ),
        (
            "o1.x\n: org.apache.hadoop.ParentNotDirectoryException: Parent path is not a directory: file:/a/b\n\tat",
            'SS439: "/a/b" cannot be written or read: a file stands where a directory must be',
        ),
        (
            "org.apache.hadoop.fs.FileAlreadyExistsException: Destination exists and is not a directory: /out\n\tat x",
            'SS439: "/out" cannot be written or read: a file stands where a directory must be',
        ),
        (
            "Caused by: java.io.FileNotFoundException: /out/.part-0.json.crc (Read-only file system)\n\tat java.base",
            'SS439: "/out/.part-0.json.crc" cannot be written or read: Read-only file system',
        ),
        (
            "java.nio.file.AccessDeniedException: /c/j1/spark/offsets\n\tat sun.nio",
            'SS439: "/c/j1/spark/offsets" cannot be written or read: Permission denied',
        ),
        (
            "java.nio.file.FileSystemException: /out/a: Read-only file system",
            'SS439: "/out/a" cannot be written or read: Read-only file system',
        ),
        (
            "java.io.FileNotFoundException: /out/part-0.json (No such file or directory)",
            'SS439: "/out/part-0.json" cannot be written or read: it, or its directory, is not there',
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 4.",
            'SS452: another job works with the checkpoint "/checkpoints/j1"',
        ),
        ("An error occurred while calling o2.save.\n: java.io.IOException: odd", "SS400: IOException: odd"),
        (CRASHED, "SS466: a Python process of a task has ended unexpectedly"),
        (NOT_BACK, "SS466: a Python process of a task has not started in time"),
        ("something odd", "SS400: something odd"),
        ("", "SS400: the job failed without a message"),
    ],
)
def test_the_root_cause_is_the_message_and_the_checkpoint_the_detail(text, first):
    lines = str(job_error(RuntimeError(text), "j1", "/checkpoints/j1")).splitlines()
    assert lines[0] == first
    assert lines[1].startswith("DETAIL: ")
    assert 'Job "j1" stopped. It goes on from' in lines[1]
    assert "/checkpoints/j1" in lines[1]


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        (None, None),
        ("j1", "Job \"j1\" stopped. Its checkpoint was temporary, so another start begins anew; "
         "'execution.checkpointing.dir' names a directory that stays."),
    ],
)  # fmt: skip
def test_nobody_is_told_to_go_on_from_a_checkpoint_that_vanishes(name: str | None, detail: str | None) -> None:
    error = job_error(RuntimeError("boom"), name, "/tmp/sqlstream-1/checkpoints/1", temporary=True).diagnostic
    assert (error.message, error.detail, error.hint) == ("boom", detail, None)


class Captured(RuntimeError):
    """As Spark's exceptions, whose messages do not always hold the cause."""

    _stackTrace = CAUSED  # noqa: N815


class ThroughConnect(RuntimeError):
    def getStackTrace(self) -> str:  # noqa: N802
        return CAUSED


@pytest.mark.parametrize("kind", [Captured, ThroughConnect])
def test_the_cause_may_be_in_the_trace_alone(kind):
    lines = str(job_error(kind("[CANNOT_WRITE_STATE_STORE] Error writing"), "j1", "/c")).splitlines()
    assert lines[0] == "SS465: a disk that the job writes to is full: No space left on device"


def test_an_error_of_ours_in_a_worker_keeps_its_detail_and_hint():
    (diagnostic,) = job_error(RuntimeError(WORKER), "j1", "/c").diagnostics
    assert (diagnostic.code, diagnostic.message) == ("SS404", "a row came too late: k = 'a'")
    assert (diagnostic.detail or "").startswith('The watermark was at 5. Job "j1" stopped.')
    assert diagnostic.hint == "Write LATE DATA DROP."


def test_our_own_errors_stay_as_they_are():
    error = ConnectorError("SS508", "no such file")
    assert job_error(error, "j1", "/c") is error


def test_cancellation_is_no_failure():
    assert is_cancellation(RuntimeError("Job 3 cancelled as part of cancellation of all jobs"))
    assert not is_cancellation(RuntimeError(CAUSED))
    assert not is_cancellation(RuntimeError(FUNCTION.replace("no price", "order 7 has been cancelled")))


@pytest.mark.parametrize(("module", "hint"), [("sqlstream.udfs", "Spark's server"), ("redis", "workers")])
def test_a_module_that_workers_lack_is_named(module, hint):
    text = f"PythonException: Traceback:\n  File x\nModuleNotFoundError: No module named '{module}'\n"
    error = job_error(RuntimeError(text), "j", "/c")
    assert error.diagnostic.message == f'Python on the side of Spark has no module "{module}"'
    assert (error.code, hint in str(error.diagnostic.hint)) == ("SS496", True)


def test_bad_rows_and_unreadable_files_are_told_apart_wherever_spark_names_them():
    reading = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/a%20b.csv. SQLSTATE: KD001"
    bad = "Caused by: org.apache.spark.SparkException: [MALFORMED_CSV_RECORD] Malformed CSV record: 3 SQLSTATE: KD000"
    torn = "Caused by: java.io.EOFException: Unexpected end of input stream"
    gone = "Caused by: java.io.FileNotFoundException: File file:/data/a b.csv does not exist"
    for cause, code in ((bad, "SS402"), (torn, "SS528"), (gone, "SS529")):
        error = Exception("[STREAM_FAILED] Query terminated with exception: Job aborted")
        error._stackTrace = f"org.apache.spark.SparkException: {reading}\n{cause}"  # type: ignore[attr-defined]
        failure = job_error(error, "j", "/checkpoint").diagnostic
        assert failure.code == code
        assert "a%20b.csv" in failure.message or '"/data/a b.csv"' in failure.message


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (1, 'The micro-batch has read file "/in/0.json". Job "x" stopped.'),
        (3, 'The micro-batch has read the files "/in/0.json", "/in/1.json" and "/in/2.json". Job "x" stopped.'),
        (9, 'The micro-batch has read the files "/in/0.json", "/in/1.json", "/in/2.json" and 6 more. Job "x" stopped.'),
        (0, 'Job "x" stopped.'),
    ],
)
def test_a_row_without_event_time_is_sought_in_the_files_of_its_micro_batch(files, said, tmp_path: Path):
    spark = tmp_path / "spark"
    for folder in ("offsets", "sources/0", "sources/1"):
        (spark / folder).mkdir(parents=True)
    paths = [f"file:///in/{number}.json" for number in range(files)]
    for source, own in enumerate((paths, [(tmp_path / "control" / "a.json").as_uri()])):
        entries = [json.dumps({"path": path, "timestamp": 1, "batchId": 0}, separators=(",", ":")) for path in own]
        (spark / f"sources/{source}/0").write_text("\n".join(["v1", *entries]))
    (spark / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}\n{"logOffset":0}')
    failure = job_error(RuntimeError(NULL_TIME), "x", str(tmp_path))
    assert failure.diagnostic.detail is not None
    assert failure.diagnostic.detail.startswith(said)


def test_damaged_logs_do_not_hide_what_has_failed(tmp_path: Path):
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "sources" / "0").mkdir(parents=True)
    (tmp_path / "spark" / "offsets" / "0").write_bytes(b"\xff\xfe{")
    (tmp_path / "spark" / "sources" / "0" / "0").write_bytes(b"\xff")
    assert str(job_error(RuntimeError(NULL_TIME), "x", str(tmp_path))).startswith("SS401: event time")
