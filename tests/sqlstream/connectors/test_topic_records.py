"""Values of messages as rows, with the place of those that cannot be read, without a broker."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.connectors.on_spark.decoders import decoder_of
from sqlstream.errors import ExecutionError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.kafka.fetch import TopicRecords
from sqlstream.udfs.messages import VALUE


def decoded(
    form: str, values: list[bytes | None], payload: tuple[str, ...], on_error: str = ""
) -> list[dict[str, Any]]:
    options = {"format": form, "topic": "t", "properties.bootstrap.servers": "h:1"}
    options |= {"on-error": on_error} if on_error else {}
    table = Table(
        "t", (Column("a", parse_type("STRING" if form == "raw" else "INT")),), "kafka", tuple(options.items())
    )
    decoder = decoder_of(table, payload, Kafka().values(table), "UTC", all_columns=True)
    assert decoder is not None
    records = TopicRecords(decoder, bool(on_error), skips_blank=form == "json", keeps_null=form == "raw")
    count = len(values)
    columns = [pa.array(values, pa.binary()), pa.array(["t"] * count), pa.array([3] * count), pa.array(range(count))]
    batch = pa.RecordBatch.from_arrays(columns, [VALUE, "topic", "partition", "offset"])
    return [row for rows in records.rows(iter([batch])) for row in rows.to_pylist()]


@pytest.mark.parametrize("payload", [("a",), ()])
@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("json", [b'{"a": 1}', None, b" ", b'{"a": 2}'], {0: 1, 3: 2}),
        ("csv", [b"1", None, b"2"], {0: 1, 2: 2}),
        ("raw", [b"x", None, b""], {0: "x", 1: None, 2: ""}),
    ],
)
def test_messages_without_a_value_are_as_in_flink(form: str, values: Any, expected: Any, payload: tuple[str, ...]):
    rows = decoded(form, values, payload)
    assert [row["offset"] for row in rows] == list(expected)
    if payload:
        assert [row["a"] for row in rows] == list(expected.values())


def test_messages_that_cannot_be_read_have_their_place():
    values = [b"1", b"x", None, b""]
    with pytest.raises(ExecutionError, match=r'SS402: a row at t\[3\]@1 cannot be read: column "a" of type INT is "x"'):
        decoded("csv", values, ("a",))
    rows = decoded("csv", values, ("a",), "skip")
    places = [(row["offset"], row["__bad"] and row["__bad"]["place"]) for row in rows]
    assert places == [(0, None), (1, "t[3]@1"), (3, "t[3]@3")]
