"""The archive of the JVM's classes: used where it is there, beside the user's own options."""

from __future__ import annotations

from sqlstream.class_archive import archive_file, jvm_options
from sqlstream.spark import _jvm_options

KEY = "spark.driver.extraJavaOptions"


def test_without_an_archive_the_options_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jvm_options() == ""
    assert _jvm_options({}) == {}
    assert _jvm_options({KEY: "-Xss4m"}) == {KEY: "-Xss4m"}


def test_an_archive_is_used_unless_one_is_being_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive_file().parent.mkdir()
    archive_file().touch()
    option = f"-XX:SharedArchiveFile={tmp_path}/sqlstream/spark-"
    assert _jvm_options({})[KEY].startswith(option)
    assert _jvm_options({KEY: "-Xss4m"})[KEY].startswith(f"-Xss4m {option}")
    assert _jvm_options({KEY: "-XX:ArchiveClassesAtExit=x"}) == {KEY: "-XX:ArchiveClassesAtExit=x"}


def test_another_java_has_another_archive(tmp_path, monkeypatch):
    here = archive_file()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_file() != here
