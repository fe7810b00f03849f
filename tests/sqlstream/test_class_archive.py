"""The archive of the JVM's classes: used where it is there, beside the user's own options."""

from __future__ import annotations

from sqlstream.class_archive import archive_file, jvm_options
from sqlstream.spark import _COMPILER, _jvm_options

KEY = "spark.driver.extraJavaOptions"


def test_without_an_archive_the_compiler_alone_gets_options(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jvm_options() == ""
    assert _jvm_options({}) == {KEY: _COMPILER}
    assert _jvm_options({KEY: "-Xss4m"}) == {KEY: f"-Xss4m {_COMPILER}"}
    assert _jvm_options({KEY: "-XX:TieredStopAtLevel=1"}) == {KEY: "-XX:TieredStopAtLevel=1"}


def test_an_archive_is_used_unless_one_is_being_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive_file().parent.mkdir()
    archive_file().touch()
    option = f"-XX:SharedArchiveFile={tmp_path}/sqlstream/spark-"
    assert _jvm_options({})[KEY].startswith(f"{_COMPILER} {option}")
    assert _jvm_options({KEY: "-Xss4m"})[KEY].startswith(f"-Xss4m {_COMPILER} {option}")
    assert _jvm_options({KEY: "-XX:ArchiveClassesAtExit=x"}) == {KEY: f"-XX:ArchiveClassesAtExit=x {_COMPILER}"}


def test_another_java_has_another_archive(tmp_path, monkeypatch):
    here = archive_file()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_file() != here
