"""Of names of Java each is asked for once, and names that are none stay errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import REFLECTION_COMMAND_NAME, Py4JError
from pyspark.sql import functions as F

from sqlstream.spark.internals import java_of
from sqlstream.spark.remembered_classes import remember_classes


@pytest.mark.spark
def test_java_is_asked_once_for_a_class_and_once_for_its_method(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spark.range(3).select(F.concat_ws("-", F.col("id")).alias("text"))
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def sent(connection: ClientServerConnection, command: str) -> str:
        asked.extend([command] if command.startswith(REFLECTION_COMMAND_NAME) else [])
        return cast(str, send(connection, command))

    monkeypatch.setattr(ClientServerConnection, "send_command", sent)
    again = spark.range(3).select(F.concat_ws("-", F.col("id")).alias("text"))
    assert asked == []
    assert [row.text for row in again.collect()] == [row.text for row in rows.collect()] == ["0", "1", "2"]


@pytest.mark.spark
def test_what_java_lacks_is_an_error_each_time(spark: Any) -> None:
    for _ in range(2):
        with pytest.raises(Py4JError, match="does not exist in the JVM"):
            java_of(spark).PythonUtils.no_such_method()


def test_a_session_without_java_in_this_process_is_left_alone() -> None:
    remember_classes(cast(Any, SimpleNamespace()))
