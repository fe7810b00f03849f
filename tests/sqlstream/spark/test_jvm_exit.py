"""A JVM ends with its process, and is killed where it does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from sqlstream.spark.session import end_jvm


class Gateway:
    """What PySpark keeps of a JVM that it has started."""

    def __init__(self, program: str) -> None:
        self.proc = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        self.shut_down = False

    def shutdown(self) -> None:
        self.shut_down = True
        raise ConnectionError("gone already")


@pytest.fixture
def gateway_of(monkeypatch):
    def made(program: str) -> Gateway:
        gateway = Gateway(program)
        monkeypatch.setattr("pyspark.SparkContext._gateway", gateway)
        monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
        return gateway

    return made


def test_the_jvm_ends_when_its_input_ends(gateway_of):
    gateway = gateway_of("import sys; sys.stdin.read(); sys.exit(7)")
    end_jvm()
    assert (gateway.shut_down, gateway.proc.poll()) == (True, 7)
    end_jvm()  # it has ended


def test_a_jvm_that_does_not_end_is_killed(gateway_of):
    gateway = gateway_of("import time; time.sleep(600)")
    begin = time.monotonic()
    end_jvm(0.2)
    assert gateway.proc.poll() == -9
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("gateway", [None, object()])
def test_a_process_without_a_jvm_of_its_own_ends_nothing(monkeypatch, gateway):
    monkeypatch.setattr("pyspark.SparkContext._gateway", gateway)
    end_jvm()


@pytest.mark.long
@pytest.mark.spark
def test_a_process_ends_after_its_jvm_and_prints_nothing_of_it():
    program = """
import sqlstream
with sqlstream.connect() as session:
    rows = session.spark.range(3).mapInPandas(lambda frames: frames, "id BIGINT")
    print(session.spark.sparkContext._gateway.proc.pid, rows.count())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    jvm, count = ran.stdout.split()
    assert (ran.returncode, count, ran.stderr) == (0, "3", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(jvm), 0)
