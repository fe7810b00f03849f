"""The JVM's options, the archive of its classes among them: used where it is there, beside the user's own."""

from __future__ import annotations

import pytest

from sqlstream.spark.archived_classes import advice, archive_file, jvm_options
from sqlstream.spark.session import _STACK, _jvm_options
from sqlstream.spark.tuning import applied
from sqlstream.spark.tuning.applied import COMPILER, HEAP_GROWTH

KEY = "spark.driver.extraJavaOptions"
PAGES = "-XX:+UseTransparentHugePages"


@pytest.fixture(autouse=True)
def _huge_pages(monkeypatch):
    monkeypatch.setattr(applied, "huge_pages", lambda: PAGES)


def test_options_are_added_where_the_user_says_nothing_of_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jvm_options() == ""
    assert _jvm_options({}) == {KEY: f"{_STACK} {COMPILER} {HEAP_GROWTH} {PAGES}"}
    assert _jvm_options({KEY: "-Xss4m"}) == {KEY: f"-Xss4m {COMPILER} {HEAP_GROWTH} {PAGES}"}
    assert _jvm_options({KEY: "-XX:TieredStopAtLevel=1"}) == {
        KEY: f"-XX:TieredStopAtLevel=1 {_STACK} {HEAP_GROWTH} {PAGES}"
    }
    assert _jvm_options({KEY: "-XX:-UseLargePages"}) == {KEY: f"-XX:-UseLargePages {_STACK} {COMPILER} {HEAP_GROWTH}"}


def test_an_archive_is_used_unless_one_is_being_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_file()
    assert archive is not None
    archive.parent.mkdir()
    archive.touch()
    option = f"-XX:SharedArchiveFile={tmp_path}/sqlstream/spark-"
    assert _jvm_options({})[KEY].startswith(f"{_STACK} {COMPILER} {HEAP_GROWTH} {PAGES} {option}")
    assert _jvm_options({KEY: "-Xss4m"})[KEY].startswith(f"-Xss4m {COMPILER} {HEAP_GROWTH} {PAGES} {option}")
    assert _jvm_options({KEY: "-XX:ArchiveClassesAtExit=x"}) == {
        KEY: f"-XX:ArchiveClassesAtExit=x {_STACK} {COMPILER} {HEAP_GROWTH} {PAGES}"
    }


def test_another_java_has_another_archive(tmp_path, monkeypatch):
    here = archive_file()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_file() != here


def test_a_slow_start_without_an_archive_is_told_of_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert advice(1.2) is None
    told = advice(12.3)
    assert told is not None and told.startswith('Spark took 12 s to start; "python -m sqlstream.class_archive"')
    assert advice(12.3) is None


def test_nothing_is_told_where_there_is_an_archive_or_no_memory_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_file()
    assert archive is not None
    archive.parent.mkdir()
    archive.touch()
    assert advice(12.3) is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert advice(12.3) is None
