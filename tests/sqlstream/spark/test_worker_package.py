"""The package as an archive for Spark's workers: whole, importable where nothing is installed, sent where needed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.spark.worker_package import send_package, worker_package
from tests.workers import bare_python

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_archive_holds_the_rooms_behind_links_with_compiled_modules():
    with zipfile.ZipFile(worker_package()) as archive:
        names = set(archive.namelist())
    for room in ("grammar", "planner", "udfs"):
        modules = {f"sqlstream/{path.relative_to(ROOT)}" for path in (ROOT / room).rglob("*.py")}
        assert modules <= names
        assert {f"{name}c" for name in modules} <= names
    assert "sqlstream/grammar/streaming.lark" in names
    assert not [name for name in names if name.startswith("sqlstream/shell/")]


def test_archive_is_made_once_for_what_it_holds(monkeypatch):
    first = worker_package()
    monkeypatch.setattr("sqlstream.spark.worker_package._write", lambda *_: pytest.fail("written again"))
    assert worker_package() == first


def test_python_without_the_package_imports_kernels_from_the_archive(tmp_path):
    python, archive = bare_python(tmp_path), str(worker_package())
    script = "import sys; sys.path[:0] = sys.argv[1:]; import sqlstream.udfs.spark.adapter as m; print(m.__file__)"
    run = [python, "-c", script]
    assert "No module named 'sqlstream'" in subprocess.run(run, capture_output=True, text=True, check=False).stderr
    process = subprocess.run([*run, archive], capture_output=True, text=True, check=False)
    assert process.stdout.strip() == f"{archive}/sqlstream/udfs/spark/adapter.pyc", process.stderr


def test_package_that_runs_from_an_archive_is_sent_as_that(tmp_path):
    archive = worker_package()
    printed = "from sqlstream.spark.worker_package import worker_package; print(worker_package())"
    script = f"import sys; sys.path.insert(0, sys.argv[1]); {printed}"
    run = [bare_python(tmp_path), "-c", script, str(archive)]
    process = subprocess.run(run, capture_output=True, text=True, check=False)
    assert process.stdout.strip() == str(archive), process.stderr


def test_scripts_are_checked_from_the_archive():
    archive = str(worker_package())
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]; import sqlstream; "
        "print(sqlstream.__file__, sqlstream.connect().check('DROP TABLE IF EXISTS t'))"
    )
    run = [sys.executable, "-P", "-c", script, archive]
    process = subprocess.run(run, capture_output=True, text=True, check=False)
    assert process.stdout.strip() == f"{archive}/sqlstream/__init__.pyc ()", process.stderr


class Context:
    def __init__(self, master):
        self.master = master
        self.sent = []

    def addPyFile(self, path):  # noqa: N802 - PySpark's name
        self.sent.append(path)
        sys.path.insert(1, path)


@pytest.mark.parametrize(
    ("master", "sent"),
    [
        ("local[2]", 0),
        ("local", 0),
        ("local-cluster[2,1,1024]", 1),
        ("spark://host:7077", 1),
        ("k8s://https://host", 1),
    ],
)
def test_package_goes_to_workers_elsewhere(master, sent):
    context, path = Context(master), list(sys.path)
    send_package(cast(Any, SimpleNamespace(sparkContext=context)))
    assert context.sent == [str(worker_package())] * sent
    assert sys.path == path


class Connect:
    def __init__(self, error=None):
        self.calls: list[tuple[str, object]] = []
        self.error = error
        self.conf = SimpleNamespace(set=lambda key, value: self.calls.append((key, value)))

    def addArtifacts(self, path, *, pyfile):  # noqa: N802
        if self.error is not None:
            raise self.error
        self.calls.append((path, pyfile))


def test_package_is_an_artifact_of_connect_that_queries_in_copies_of_the_session_find(monkeypatch):
    monkeypatch.setattr("sqlstream.spark.worker_package.is_connect", lambda _: True)
    session = Connect()
    send_package(cast(Any, session))
    assert session.calls == [("spark.sql.artifact.isolation.enabled", "false"), (str(worker_package()), True)]


def test_spark_that_takes_no_artifacts_says_so(monkeypatch):
    monkeypatch.setattr("sqlstream.spark.worker_package.is_connect", lambda _: True)
    with pytest.raises(ExecutionError, match="SS495") as caught:
        send_package(cast(Any, Connect(RuntimeError("not allowed"))))
    assert caught.value.diagnostic.detail == "not allowed"
    assert "Install sqlstream" in str(caught.value.diagnostic.hint)
