"""A process has one Spark: who asks for another one, or for settings that came too late, is told so."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.session import Session
from sqlstream.spark.running import master_of, require_master, running_session


@pytest.mark.spark
@pytest.mark.parametrize("master", ["spark://host:7077", "local[7]", "sc://me@host/;token=secret"])
def test_another_master_than_that_of_the_running_spark_is_refused(spark: Any, master: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        sqlstream.connect(master)
    asked = "sc://host:15002" if "secret" in master else master
    assert str(caught.value) == (
        f'SS413: Spark runs on "local[2]" in this process already, not on "{asked}"\n'
        "HINT: Stop that session first with SparkSession.active().stop(), or call connect() without a master to use it."
    )
    with Session(master) as session, pytest.raises(ExecutionError, match="SS413"):
        session.spark  # noqa: B018


@pytest.mark.spark
def test_the_running_spark_is_used_where_it_is_what_is_asked_for_from_any_thread(spark: Any) -> None:
    collected: list[object] = []
    thread = Thread(target=lambda: collected.extend([running_session(), sqlstream.connect("local[2]").spark]))
    thread.start()
    thread.join()
    assert collected == [spark, spark]
    assert sqlstream.connect().spark is spark


@pytest.mark.spark
@pytest.mark.parametrize("key", ["spark.driver.memory", "spark.hadoop.fs.s3a.endpoint", "spark.master"])
def test_settings_that_spark_reads_at_its_start_are_refused_afterwards(spark: Any, key: str) -> None:
    before = spark.conf.get(key, None)
    with sqlstream.connect(**{key: "7g"}) as session, pytest.raises(ConnectorError) as caught:
        session.spark  # noqa: B018
    assert str(caught.value).startswith(f'SS523: setting "{key}" cannot be changed while Spark runs\nHINT: Give it to')
    assert spark.conf.get(key, None) == before
    with sqlstream.connect(**({} if before is None else {key: before})) as session:
        assert session.spark is spark


def test_sessions_of_spark_connect_are_told_apart_by_host_and_port() -> None:
    session_type = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    session = session_type()
    session.client = SimpleNamespace(_builder=SimpleNamespace(endpoint="host:15002"), host="host")
    assert master_of(session) == "sc://host:15002"
    require_master(session, "sc://host")
    require_master(session, "sc://host:15002/;user_id=me")
    require_master(session, None)
    for other in ("sc://host:15003", "sc://elsewhere", "local[2]"):
        with pytest.raises(ExecutionError, match=r'Spark runs on "sc://host:15002" in this process already'):
            require_master(session, other)


def test_a_master_of_kubernetes_is_the_same_with_and_without_https() -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="k8s://https://cluster:6443"))
    require_master(session, "k8s://cluster:6443")
    require_master(session, "k8s://https://cluster:6443")


def test_connect_does_not_import_pyspark() -> None:
    code = "import sys, sqlstream; sqlstream.connect('spark://host:7077'); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
