"""Which settings stay off Java's command line, and the files that Java reads them from."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sqlstream.secrets import Secrets
from sqlstream.spark.private_settings import is_private, properties_text, start_java


@pytest.mark.parametrize(
    ("key", "value", "private"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "x", True),
        ("spark.hadoop.fs.azure.account.key.a.dfs.test", "x", True),
        ("spark.ssl.keyPassword", "x", True),
        ("spark.sql.catalog.shop.url", "jdbc:postgresql://h/shop?user=me&password=hunter2", True),
        ("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.trustStorePassword=hunter2", True),
        ("spark.driver.extraJavaOptions", "-Xss4m -Duser.country=DE", False),
        ("spark.executorEnv.TOKEN", "x", True),
        ("spark.app.name", "of a variable: hunter3", True),
        ("spark.app.name", "shop", False),
        ("spark.hadoop.fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem", False),
    ],
)
def test_settings_with_secrets_are_private(key, value, private):
    assert is_private(key, value, Secrets(("hunter3",))) is private


def test_java_reads_any_text():
    assert properties_text({"a.b c": " x=y:\\z\n#ü😀"}) == "a.b\\ c=\\ x\\=y\\:\\\\z\\n\\#\\u00fc\\ud83d\\ude00\n"


@pytest.mark.parametrize("before", [None, "--driver-memory 1g pyspark-shell", "--properties-file /x pyspark-shell"])
def test_java_is_told_secrets_in_files_of_this_user_alone(before, monkeypatch):
    told: dict[str, Any] = {}

    def started(conf):
        told["conf"], told["arguments"] = dict(conf.getAll()), os.environ["PYSPARK_SUBMIT_ARGS"]
        options = Path(told["conf"]["spark.driver.extraJavaOptions"].removeprefix("@"))
        told["folder"] = options.parent
        told["modes"] = {stat.S_IMODE(file.stat().st_mode) for file in options.parent.iterdir()}
        told["texts"] = {file.name: file.read_text() for file in options.parent.iterdir()}

    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", before)
    monkeypatch.setattr("pyspark.SparkContext._ensure_initialized", started)
    settings = {"spark.app.name": "shop", "spark.hadoop.fs.s3a.secret.key": "hunter2"}
    start_java(settings | {"spark.driver.extraJavaOptions": "-Dpassword='hunt er\"3'  -Xss4m"})
    assert told["conf"].keys() == {"spark.app.name", "spark.driver.extraJavaOptions"}
    assert "hunt" not in str(told["conf"]) + told["arguments"]
    assert told["modes"] == {0o600} and not told["folder"].exists()
    assert told["texts"]["spark.driver.extraJavaOptions"] == '"-Dpassword=hunt er\\"3"\n"-Xss4m"'
    assert os.environ.get("PYSPARK_SUBMIT_ARGS") == before
    if before is not None and "--properties-file" in before:
        assert told["arguments"] == before
    else:
        assert told["texts"]["spark.properties"] == "spark.hadoop.fs.s3a.secret.key=hunter2\n"
        assert told["arguments"].endswith(f"--load-spark-defaults {before or 'pyspark-shell'}")


def test_java_is_left_to_pyspark_where_nothing_is_secret(monkeypatch):
    monkeypatch.setattr("pyspark.SparkContext._ensure_initialized", lambda conf: pytest.fail("is not called"))
    start_java({"spark.app.name": "shop"})
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    start_java({"spark.hadoop.fs.s3a.secret.key": "hunter2"})
