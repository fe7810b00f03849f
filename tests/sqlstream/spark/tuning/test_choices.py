"""What is done to Spark at its start: each thing can be switched off, and costs speed alone where it fails."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.settings import Settings
from sqlstream.spark.handle import SparkHandle
from sqlstream.spark.session import _jvm_options
from sqlstream.spark.tuning import applied
from sqlstream.spark.tuning.choices import ALL, FIELDS, NONE, Tuning, tuning_of

ROOT = Path(__file__).parents[4]


def refused(*_: object) -> Any:
    raise PermissionError("no")


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "sqlstream.spark")
    return lambda: list(caplog.messages)


@pytest.mark.parametrize(("key", "name"), FIELDS.items())
def test_each_has_a_setting(key, name):
    settings = Settings()
    assert tuning_of(settings) == ALL
    settings.set(key, "false")
    assert tuning_of(settings) == replace(ALL, **{name: False})


def test_switched_off_nothing_is_done(tmp_path, monkeypatch, capfd):
    for name in ("use_quick_files", "quiet_reported_errors", "socket_settings", "worker_python", "jvm_options"):
        monkeypatch.setattr(applied, name, lambda *_, name=name: pytest.fail(name))
    before = dict(os.environ)
    assert applied.tuned_settings("local[2]", NONE) == {}
    assert applied.java_options("", NONE) == ()
    assert _jvm_options({}, NONE) == {"spark.driver.extraJavaOptions": "-Xss16m"}
    assert applied.worker_command("local", NONE) == sys.executable
    with applied.while_starting(tmp_path / "log", NONE):
        os.write(2, b"loud\n")
        assert dict(os.environ) == before
    assert capfd.readouterr().err == "loud\n"
    assert not (tmp_path / "log").exists()
    applied.tune_running(cast(Any, None), NONE)


@pytest.mark.parametrize(
    ("broken", "key", "act", "otherwise"),
    [
        ("socket_settings", "local-sockets", lambda t: applied.tuned_settings("local", t), {}),
        ("jvm_options", "class-archive", lambda t: applied.java_options("", t), ()),
        ("worker_python", "lean-workers", lambda t: applied.worker_command("local", t), sys.executable),
        ("use_quick_files", "quick-files", lambda t: applied.tune_running(cast(Any, None), t), None),
        ("quiet_reported_errors", "quiet-errors", lambda t: applied.tune_running(cast(Any, None), t), None),
    ],
)
def test_what_fails_is_left_out_with_a_warning(monkeypatch, warnings, broken, key, act, otherwise):
    monkeypatch.setattr(applied, broken, refused)
    tuning = replace(NONE, **{FIELDS[f"sqlstream.spark.{key}"]: True})
    assert act(tuning) == otherwise
    assert warnings() == [f'Spark runs without "sqlstream.spark.{key}": no']


@pytest.mark.parametrize(("stated", "options"), [("", (applied.HEAP_GROWTH,)), ("-XX:GCTimeRatio=9", ())])
def test_the_growth_of_the_heap_is_bounded_unless_the_user_says_it(stated, options):
    assert applied.java_options(stated, replace(NONE, small_heap=True)) == options


def test_standard_error_that_cannot_be_led_elsewhere_stays(tmp_path, warnings, capfd):
    with applied.while_starting(tmp_path / "nowhere" / "log", replace(NONE, log_file=True)):
        os.write(2, b"loud\n")
    assert "loud" in capfd.readouterr().err
    assert len(warnings()) == 1 and "sqlstream.spark.log-file" in warnings()[0]


def test_an_error_of_the_start_is_not_taken_for_one_of_its_tuning(tmp_path, warnings):
    with pytest.raises(ZeroDivisionError), applied.while_starting(tmp_path / "log", ALL):
        _ = 1 / 0
    assert warnings() == []


@pytest.mark.skipif(os.name != "posix", reason="a script of sh")
def test_programs_that_may_not_be_run_are_not_used(tmp_path, monkeypatch, warnings):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # so nobody may run it, root neither
    assert applied.worker_command("local", ALL) == sys.executable
    assert len(warnings()) == 1 and "Permission denied" in warnings()[0]


class Conf(dict[str, str]):
    set = dict.__setitem__
    unset = dict.__delitem__


def handle_of(monkeypatch: pytest.MonkeyPatch, done: Tuning) -> SparkHandle:
    """A Spark that is started with ``done``."""
    monkeypatch.setattr("sqlstream.spark.session.spark_session", lambda *_: SimpleNamespace(conf=Conf()))
    monkeypatch.setattr("sqlstream.spark.session.tuning_in_effect", lambda: done)
    return SparkHandle(None)


def test_what_is_done_at_the_start_cannot_be_changed_afterwards(monkeypatch):
    settings, handle = Settings(), handle_of(monkeypatch, ALL)
    handle.get(settings)
    settings.set("sqlstream.spark.quick-files", "true")
    handle.get(settings)
    settings.set("sqlstream.spark.quick-files", "false")
    with pytest.raises(ConnectorError, match=r'SS523: setting "sqlstream\.spark\.quick-files" cannot be changed'):
        handle.get(settings)


def test_a_session_after_one_that_was_tuned_otherwise_says_nothing_of_it(monkeypatch):
    handle_of(monkeypatch, NONE).get(Settings())


JOB = """
import json, os, sys
import sqlstream
with sqlstream.connect("local[1]", **json.loads(sys.argv[1])) as session:
    spark = session.spark
    rows = spark.range(3).mapInPandas(lambda frames: frames, "id BIGINT").count()
    files = spark._jvm.org.apache.hadoop.fs.FileSystem.get(
        spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
    files = files.getRawFileSystem()
    print(json.dumps({
        "rows": rows, "files": files.getClass().getName(), "python": os.environ["PYSPARK_PYTHON"],
        "sockets": spark.conf.get("spark.python.unix.domain.socket.enabled", "false"),
        "java": spark.conf.get("spark.driver.extraJavaOptions"),
        "malloc": spark.conf.get("spark.executorEnv.MALLOC_TOP_PAD_", None),
    }))
"""


def run(folder: Path, settings: dict[str, str], *before: str) -> tuple[dict[str, Any], str]:
    """What a process with a Spark of its own finds there, and what it writes to standard error."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYSPARK_PYTHON", "SPARK_MASTER")}
    environment |= {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [*before, sys.executable, "-c", JOB, json.dumps(settings)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr


@pytest.mark.spark
@pytest.mark.long  # a Spark of its own; what it is started with is compared above
def test_spark_runs_with_nothing_of_it(tmp_path):
    actual, _ = run(tmp_path, dict.fromkeys(FIELDS, "false"))
    assert actual["rows"] == 3
    assert (actual["python"], actual["sockets"], actual["malloc"]) == (sys.executable, "false", None)
    assert actual["java"] == "-Xss16m"
    assert actual["files"] == "org.apache.hadoop.fs.RawLocalFileSystem"


IN_NOEXEC = 'mount -t tmpfs -o noexec tmpfs "$0" && exec "$@"'


def mounts_are_allowed(folder: Path) -> bool:
    try:
        made = subprocess.run(["unshare", "-rm", "sh", "-c", IN_NOEXEC, str(folder), "true"], capture_output=True)
    except OSError:
        return False
    return made.returncode == 0


@pytest.mark.spark
@pytest.mark.long
def test_spark_runs_where_no_program_in_the_folder_for_temporary_files_may(tmp_path):
    if not mounts_are_allowed(tmp_path):
        pytest.skip("this user may not mount a folder without programs")
    actual, said = run(tmp_path, {}, "unshare", "-rm", "sh", "-c", IN_NOEXEC, str(tmp_path))
    assert (actual["rows"], actual["python"]) == (3, sys.executable)
    assert 'Spark runs without "sqlstream.spark.lean-workers"' in said


def test_every_field_has_an_option():
    from sqlstream.spark.tuning.choices import OPTIONS

    assert [option.key for option in OPTIONS] == list(FIELDS)
    assert len(fields(Tuning)) == len(FIELDS)
