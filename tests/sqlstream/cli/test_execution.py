"""Running scripts on Spark: rows to stdout, the rest to stderr, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest

import sqlstream
from sqlstream.cli.execution import Execution, terminated
from sqlstream.cli.scripts import Script
from sqlstream.errors import ExecutionError

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
NUMBERS = """CREATE TABLE numbers (n BIGINT)
WITH ('connector' = 'datagen', 'number-of-rows' = '5', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1',
      'fields.n.end' = '5');
"""


def _run(spark, output, *scripts, progress=False):
    with sqlstream.connect(spark) as session:
        return Execution(session, output, progress).run([Script(f"{i}.sql", text) for i, text in enumerate(scripts)])


def test_query_prints_its_rows_and_nothing_else(spark, capfd):
    assert _run(spark, "jsonl", NUMBERS, "SELECT n, n * n AS square FROM numbers WHERE n > 3") == 0
    printed = capfd.readouterr()
    assert [json.loads(line) for line in printed.out.splitlines()] == [{"n": 4, "square": 16}, {"n": 5, "square": 25}]
    assert printed.err == ""


@pytest.mark.long
def test_an_updating_result_is_printed_as_its_table_where_the_setting_asks_for_that(spark, capfd):
    changes = "SELECT n % 2 AS odd, COUNT(*) AS c FROM numbers GROUP BY n % 2 EMIT CHANGES;"
    mode = "SET 'sql-client.execution.result-mode' = 'table';"
    assert _run(spark, "csv", NUMBERS + changes, mode + changes) == 0
    changed, table = capfd.readouterr().out.removeprefix("op,odd,c\n").split("odd,c\n")
    assert all(line.startswith(("+I,", "-U,", "+U,")) for line in changed.splitlines())
    assert sorted(table.splitlines()) == ["0,2", "1,3"]


def test_warnings_go_to_stderr_and_everything_runs(spark, capfd):
    assert _run(spark, "jsonl", NUMBERS + "SELECT n FROM numbers WHERE n = 1 AND n NOT RLIKE '\\b'") == 0
    printed = capfd.readouterr()
    assert printed.out == '{"n": 1}\n'
    assert printed.err.startswith("WARNING SS236: ") and "\nLINE 4: SELECT n" in printed.err


def test_insert_is_waited_for_before_the_next_statement(spark, tmp_path, capfd):
    copy = f"""CREATE TABLE copy (n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "copy"}', 'format' = 'json');
        INSERT INTO copy SELECT n FROM numbers; SELECT n FROM copy"""
    assert _run(spark, "csv", NUMBERS, copy) == 0
    printed = capfd.readouterr()
    assert sorted(printed.out.splitlines()) == ["1", "2", "3", "4", "5", "n"]
    assert printed.err == '5 rows written to "copy"\n'


def test_inserts_of_a_set_tell_the_rows_of_each_table_unless_they_are_to_be_quiet(spark, capfd):
    script = f"""{NUMBERS}
        CREATE TABLE odd (n BIGINT) WITH ('connector' = 'blackhole');
        CREATE TABLE big (n BIGINT) WITH ('connector' = 'blackhole');
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO odd SELECT n FROM numbers WHERE n % 2 = 1; INSERT INTO big SELECT n FROM numbers WHERE n > 4; END"""
    assert _run(spark, "csv", script) == 0
    assert capfd.readouterr() == ("", '3 rows written to "odd", 1 row written to "big"\n')
    with sqlstream.connect(spark) as session:
        assert Execution(session, "csv", False, quiet=True).run([Script("script", script)]) == 0
    assert capfd.readouterr() == ("", "")


def test_progress_goes_to_stderr(spark, capfd):
    assert _run(spark, "csv", NUMBERS + "SELECT n FROM numbers", progress=True) == 0
    printed = capfd.readouterr()
    assert printed.out.splitlines() == ["n", "1", "2", "3", "4", "5"]
    assert "query: 5 rows in, 5 out, " in printed.err
    assert "rows/s" in printed.err


def test_nothing_runs_where_a_later_statement_is_wrong(spark, capfd):
    assert _run(spark, "csv", NUMBERS + "SELECT n FROM numbers; SELECT m FROM numbers") == 1
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith('SS201: column "m" does not exist')


def test_failed_job_raises_its_cause_after_the_rows_before_it(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\nnot json\n')
    broken = f"""CREATE TABLE broken (n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "in"}', 'format' = 'json'); SELECT n FROM broken"""
    with pytest.raises(ExecutionError) as error:
        _run(spark, "csv", broken)
    assert error.value.code.startswith("SS4")
    assert "Traceback" not in str(error.value)


def test_failed_query_prints_no_stack_of_the_jvm(spark, capfd):
    with pytest.raises(ExecutionError, match="ARITHMETIC_OVERFLOW"):
        _run(spark, "csv", NUMBERS + "SELECT n * 9223372036854775807 FROM numbers")
    assert "at org.apache.spark" not in capfd.readouterr().err


def _endless(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    script = tmp_path / "endless.sql"
    script.write_text(
        "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');"
        "CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');"
        "INSERT INTO nowhere SELECT n FROM ticks; SELECT n FROM ticks"
    )
    command = [sys.executable, "-m", "sqlstream", "run", str(script), "--output", "jsonl", "--master", "local[1]"]
    return subprocess.Popen([*command, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
def test_ctrl_c_stops_every_job_and_names_its_checkpoint(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    with _endless(tmp_path, "--set", f"execution.checkpointing.dir={checkpoints}") as running:
        assert running.stdout is not None
        assert "n" in json.loads(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        _, messages = running.communicate(timeout=60)
    assert running.returncode == 130
    assert 'job "insert_into_nowhere" stopped after its last complete micro-batch' in messages
    assert f"checkpoint: {checkpoints}/insert_into_nowhere" in messages
    assert "Traceback" not in messages
    assert (checkpoints / "insert_into_nowhere").is_dir()


def test_a_query_whose_rows_nobody_reads_stops(spark, monkeypatch):
    class Gone(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with sqlstream.connect(spark) as session:
        with pytest.raises(BrokenPipeError):
            Execution(session, "jsonl", False).run([Script("endless", f"{ENDLESS}SELECT n FROM ticks")])
        jobs = session.jobs
    assert [job.state.value for job in jobs] == ["STOPPED", "STOPPED"]


@pytest.mark.long  # a process with a Spark of its own, as the one that Ctrl-C stops
def test_reader_that_goes_away_ends_the_run(tmp_path):
    with _endless(tmp_path) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        messages = running.stderr.read()
        running.wait(timeout=60)
    assert running.returncode == 141
    assert messages == ""


def test_a_batch_tells_its_rows_and_its_time(spark, capfd):
    assert _run(spark, "csv", NUMBERS + "SELECT COUNT(*) AS n FROM numbers", progress=True) == 0
    shown = capfd.readouterr()
    assert shown.out.splitlines()[0] == "n" and len(shown.out.splitlines()) == 2
    assert "query: 1 row, " in shown.err


ENDLESS = """CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
SET 'logging.format' = 'json';
INSERT INTO nowhere SELECT n FROM ticks;
"""


def test_sigterm_stops_jobs_with_a_savepoint(spark, tmp_path, capfd):
    with sqlstream.connect(spark, **{"execution.checkpointing.dir": str(tmp_path)}) as session:

        def end() -> None:
            while not any(job.progress().batches for job in session.jobs):
                time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGTERM)

        Thread(target=end, daemon=True).start()
        with terminated():
            assert Execution(session, "csv", False).run([Script("endless", ENDLESS)]) == 0
        (job,) = session.jobs
        assert job.state.value == "STOPPED"
    *logged, said = capfd.readouterr().err.splitlines()
    savepoint = said.removeprefix(f'job "{job.name}" stopped, savepoint: ')
    assert (Path(savepoint) / "savepoint.json").exists()
    lines = [json.loads(line) for line in logged]
    assert {line["job"] for line in lines} == {job.name}
    assert lines[0]["message"].startswith("started, with the checkpoint ")
    assert [line["state"] for line in lines if "state" in line] == ["STOPPED"]
    assert any(line.get("rows_in", 0) > 0 for line in lines)
