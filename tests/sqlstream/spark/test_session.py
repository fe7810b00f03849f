"""The Spark session: a given one is checked, one of ours starts quietly or says why not."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.spark.running import is_connect
from sqlstream.spark.session import _cores, _started, prepared, spark_session
from sqlstream.spark.tuning.standard_error import messages_to


@pytest.mark.parametrize(("master", "cores"), [("local[3]", 3), ("local", 1), ("local[*]", os.cpu_count())])
def test_state_has_as_many_partitions_as_there_are_cores(master, cores):
    assert _cores(master) == cores


@pytest.mark.spark
def test_a_running_session_is_used_as_it_is(spark):
    before = dict(spark.conf.getAll)
    assert spark_session() is spark
    assert prepared(spark) is spark
    assert dict(spark.conf.getAll) == before
    assert not is_connect(spark)


@pytest.mark.spark
def test_settings_that_would_give_wrong_results_are_refused_all_at_once(spark):
    wrong = {
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.multipleWatermarkPolicy": "max",
    }
    before = {key: spark.conf.get(key) for key in wrong}
    for key, value in wrong.items():
        spark.conf.set(key, value)
    try:
        with pytest.raises(ExecutionError, match="SS493") as caught:
            prepared(spark)
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    assert [d.hint for d in caught.value.diagnostics] == ['Set it to "true".', 'Set it to "min".']


def test_what_the_jvm_writes_goes_to_the_log_and_into_the_error_of_a_failed_start(tmp_path, capfd):
    class Builder:
        def getOrCreate(self):  # noqa: N802
            os.write(2, b"Could not reserve enough space for object heap\n" + b"\tat a.B.c(B.scala:1)\n" * 9)
            raise RuntimeError("Java gateway process exited")

    log = tmp_path / "spark.log"
    with pytest.raises(ExecutionError) as caught:
        _started(cast(Any, Builder()), log)
    assert str(caught.value) == (
        "SS494: Spark did not start\nDETAIL: Could not reserve enough space for object heap\n"
        f'HINT: All that Spark has said is in "{log}".'
    )
    sys.stderr.write("after\n")
    assert capfd.readouterr().err == "after\n"


def test_messages_come_back_to_stderr_behind_the_start(tmp_path, capfd):
    with messages_to(tmp_path / "log"):
        os.write(2, b"quiet\n")
    os.write(2, b"loud\n")
    assert capfd.readouterr().err == "loud\n"
    assert (tmp_path / "log").read_text() == "quiet\n"
