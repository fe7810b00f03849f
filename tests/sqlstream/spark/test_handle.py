from __future__ import annotations

from types import SimpleNamespace

import pytest

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.session import Session
from sqlstream.settings import Settings
from sqlstream.spark.handle import SparkHandle


class Conf(dict[str, str]):
    """Spark's settings of a running session."""

    set = dict.__setitem__
    unset = dict.__delitem__


def test_a_spark_of_our_own_is_as_before_for_the_next_session(monkeypatch) -> None:
    conf = Conf({"spark.sql.shuffle.partitions": "2"})

    def started(settings, master, secrets, tuning):
        conf.update(settings)
        return SimpleNamespace(conf=conf)

    monkeypatch.setattr("sqlstream.spark.session.spark_session", started)
    settings, handle = Settings(), SparkHandle("local[2]")
    settings.set("parallelism.default", "3")
    settings.set("spark.driver.memory", "1g")
    handle.get(settings)
    assert (conf["spark.sql.shuffle.partitions"], conf["spark.driver.memory"]) == ("3", "1g")
    handle.release()
    assert conf["spark.sql.shuffle.partitions"] == "2"


def test_a_missing_package_of_spark_is_named(monkeypatch) -> None:
    from pyspark.errors import PySparkImportError

    def missing(*_: object) -> None:
        raise PySparkImportError(errorClass="PACKAGE_NOT_INSTALLED", messageParameters={
            "package_name": "grpcio", "minimum_version": "1.48",
        })  # fmt: skip

    spark = SimpleNamespace(builder=SimpleNamespace(remote=missing))
    monkeypatch.setattr("sqlstream.spark.session.SparkSession", spark)
    for module in ("handle", "session"):  # where tests before this one have started Spark
        monkeypatch.setattr(f"sqlstream.spark.{module}.running_session", lambda: None)
    with Session("sc://localhost:1") as session, pytest.raises(ExecutionError) as error:
        session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'); SELECT a FROM t")
    assert error.value.code == "SS482"
    assert "grpcio" in str(error.value) and "pip install 'pyspark[connect]'" in str(error.value)


def test_options_of_the_jvm_are_set_where_others_stand_behind_them(monkeypatch) -> None:
    conf = Conf({"spark.driver.extraJavaOptions": "-Xss4m -XX:of-sqlstream"})
    monkeypatch.setattr("sqlstream.spark.session.spark_session", lambda *_: SimpleNamespace(conf=conf))
    settings, handle = Settings(), SparkHandle("local[2]")
    settings.set("spark.driver.extraJavaOptions", "-Xss4m")
    handle.get(settings)
    assert conf["spark.driver.extraJavaOptions"] == "-Xss4m -XX:of-sqlstream"


def test_a_value_that_spark_refuses_is_told_without_secrets(monkeypatch) -> None:
    from pyspark.errors import IllegalArgumentException

    class Refusing(Conf):
        def set(self, key: str, value: str) -> None:
            if key.startswith("spark.x"):
                raise IllegalArgumentException(f"[INVALID] The value '{value}' is invalid.\n\tat org.apache")

    monkeypatch.setattr("sqlstream.spark.session.spark_session", lambda *_: SimpleNamespace(conf=Refusing()))
    settings, handle = Settings(), SparkHandle("local[2]")
    settings.set("spark.x.password", "hunter2")
    with pytest.raises(ConnectorError, match=r'SS594: Spark refuses the value of setting "spark.x.password"') as error:
        handle.get(settings)
    assert error.value.diagnostic.detail == "[INVALID] The value '******' is invalid."
