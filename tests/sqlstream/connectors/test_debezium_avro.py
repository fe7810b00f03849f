"""Messages of Debezium in Avro, with schemas in a registry: changes of rows, times of Debezium, and lost values."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.change_formats import CHANGE_FORMATS
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.connectors.on_spark.change_messages import change_decoder
from sqlstream.formats.decoder import Decoded
from sqlstream.formats.registered import header_of
from sqlstream.planner.catalog import ALL_KINDS, UPSERT, Column, RowKind, Table
from sqlstream.types import parse_type
from sqlstream.udfs.kernel import ROW_KIND
from tests.schema_registry import TestRegistry, serving

ROW = {
    "type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "scale": 2, "precision": 8, "logicalType": "decimal",
                                   "connect.name": "org.apache.kafka.connect.data.Decimal"}},
        {"name": "day", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "at", "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}},
    ],
}  # fmt: skip
ENVELOPE = {
    "type": "record", "name": "Envelope", "namespace": "server.public.items", "connect.name": "items.Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "db", "type": "string"}]}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}  # fmt: skip
COLUMNS = "id INT, name STRING, price DECIMAL(8, 2), day DATE, at TIMESTAMP_NTZ"
NOON = 1_706_702_400_000_001
LOST = "__debezium_unavailable_value"


@pytest.fixture(scope="module")
def server() -> Iterator[TestRegistry]:
    with serving() as registry:
        yield registry


def table_of(server: TestRegistry, columns: str, kinds: frozenset[RowKind] = ALL_KINDS) -> Table:
    options = {
        "format": "debezium-avro-confluent", "debezium-avro-confluent.url": server.url, "topic": "t",
        "properties.bootstrap.servers": "h:1",
    }  # fmt: skip
    given = tuple(Column(name, kind) for name, kind in parse_type(f"STRUCT<{columns}>").fields())
    return Table("t", given, "kafka", tuple(options.items()), changelog=kinds)


def decoded(table: Table, *messages: bytes) -> Decoded:
    form = CHANGE_FORMATS["debezium-avro-confluent"]
    names = tuple(c.name for c in table.columns)
    decoder = change_decoder(form, table, names, Kafka().values(table), "UTC")
    return decoder.messages(pa.array(messages, pa.binary()))


def row(id: int, name: str | None, **more: Any) -> dict[str, Any]:  # noqa: A002
    return {"id": id, "name": name, "price": Decimal("1.50"), "day": 19_753, "at": NOON, **more}


def message(server: TestRegistry, operation: str, before: Any = None, after: Any = None) -> bytes:
    number = server.register("t-value", ENVELOPE)
    value = {"before": before, "after": after, "op": operation, "source": {"db": "d"}, "ts_ms": 5}
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(ENVELOPE), value)
    return header_of(number) + file.getvalue()


def seen(found: Decoded) -> list[tuple[Any, ...]]:
    return [(r[ROW_KIND], r["id"], r["name"]) for r in found.rows.to_pylist()]


def test_messages_are_changes_of_rows(server: TestRegistry):
    table = table_of(server, COLUMNS)
    assert not validate(table, {})
    messages = [
        message(server, "c", after=row(1, "a")),
        message(server, "r", after=row(2, None, day=None)),
        message(server, "u", row(1, "a"), row(1, "b")),
        message(server, "d", before=row(2, None)),
        message(server, "x", after=row(1, "a")),
        message(server, "u", after=row(1, "a")),
        b"{}",
    ]
    found = decoded(table, *messages)
    assert seen(found) == [("+I", 1, "a"), ("+I", 2, None), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 2, None)]
    first, second = found.rows.to_pylist()[:2]
    assert (first["price"], first["day"]) == (Decimal("1.50"), date(2024, 1, 31))
    assert first["at"] == datetime(2024, 1, 31, 12, 0, 0, 1)
    assert second["day"] is None
    assert {fault.record: fault.reason for fault in found.faults} == {
        4: '"op" is "x", which is no change', 5: 'the message has no "before"',
        6: "it does not begin with a byte 0 and the id of a schema, as messages of a schema registry do",
    }  # fmt: skip


def test_numbers_that_are_times_of_debezium_are_numbers_for_columns_of_numbers(server: TestRegistry):
    found = decoded(
        table_of(server, "id BIGINT, name STRING, day INT, at BIGINT"), message(server, "c", after=row(1, "a"))
    )
    (read,) = found.rows.to_pylist()
    assert (read["id"], read["day"], read["at"]) == (1, 19_753, NOON)


@pytest.mark.parametrize(
    ("kinds", "before", "expected"),
    [
        (ALL_KINDS, row(1, "old"), [("-U", 1, "old"), ("+U", 1, "old")]),
        (ALL_KINDS, row(1, None), [("-U", 1, None), ("+U", 1, None)]),
        (ALL_KINDS, row(1, LOST), []),
        (UPSERT, row(1, "old"), [("+U", 1, "old")]),
        (UPSERT, None, []),
    ],
)
def test_values_that_are_not_in_the_message_are_those_of_before_or_a_fault(
    server: TestRegistry, kinds: frozenset[RowKind], before: Any, expected: list[Any]
):
    found = decoded(table_of(server, COLUMNS, kinds), message(server, "u", before, row(1, LOST)))
    assert seen(found) == expected
    reason = f'column "name" is not in the message: "{LOST}" (REPLICA IDENTITY FULL adds it)'
    assert [fault.reason for fault in found.faults] == ([] if expected else [reason])


def changes_of_json(kinds: frozenset[RowKind], columns: str, *messages: tuple[str, Any, Any]) -> Decoded:
    """What messages of Debezium in JSON are, each of an operation and the values of the column v."""
    table = Table(
        "t", tuple(Column(name, kind) for name, kind in parse_type(f"STRUCT<id: INT, {columns}>").fields()), "kafka",
        (("format", "debezium-json"), ("topic", "t"), ("properties.bootstrap.servers", "h:1")), changelog=kinds,
    )  # fmt: skip
    decoder = change_decoder(CHANGE_FORMATS["debezium-json"], table, ("id", "v"), Kafka().values(table), "UTC")
    rows = [(op, *({"id": 1, "v": value} if value else None for value in images)) for op, *images in messages]
    texts = [json.dumps({"op": op, "before": before, "after": after}).encode() for op, before, after in rows]
    return decoder.messages(pa.array(texts, pa.binary()))


_BASE64 = base64.b64encode(LOST.encode()).decode()


@pytest.mark.parametrize(
    ("kind", "old", "lost", "expected"),
    [
        ("BINARY", "eA==", _BASE64, b"x"),
        ("STRING", "eA==", _BASE64, "eA=="),  # bytes that the table has as their text
        ("STRING", "78", LOST.encode().hex(), "78"),
        ("STRING", '{"a":"b"}', f'{{"{LOST}":"{LOST}"}}', '{"a":"b"}'),
        ("ARRAY<STRING>", ["a", LOST], [LOST], ["a", LOST]),
        ("ARRAY<STRING>", ["a"], ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], ["a"]),  # a UUID of that text
        ("ARRAY<INT>", [7, None], [*LOST.encode()], [7, None]),
        ("ARRAY<BIGINT>", [*LOST.encode()][1:], [*LOST.encode()], [*LOST.encode()][1:]),
        ("ARRAY<DOUBLE>", [1.5], [*LOST.encode()], [1.5]),
        ("MAP<STRING, STRING>", {"a": LOST}, {LOST: LOST}, [("a", LOST)]),
    ],
)
def test_values_that_are_not_in_a_message_of_json_are_known_as_well(kind: str, old: Any, lost: Any, expected: Any):
    found = changes_of_json(ALL_KINDS, f"v: {kind}", ("u", old, lost), ("u", lost, lost))
    assert found.rows.column("v").to_pylist() == [expected, expected]
    assert [fault.record for fault in found.faults] == [1]


def test_old_rows_without_a_value_are_faults_where_they_count():
    messages = (("u", LOST, "new"), ("d", LOST, None))
    found = changes_of_json(ALL_KINDS, "v: STRING", *messages)
    assert (found.rows.num_rows, [fault.record for fault in found.faults]) == (0, [0, 1])
    by_key = changes_of_json(UPSERT, "v: STRING", *messages)
    assert [(r[ROW_KIND], r["v"]) for r in by_key.rows.to_pylist()] == [("+U", "new"), ("-D", None)]
    assert not by_key.faults


def test_a_schema_may_change_while_a_job_runs(server: TestRegistry):
    newer = {**ENVELOPE, "fields": [ENVELOPE["fields"][3], *ENVELOPE["fields"][:2]]}
    number = server.register("t-value", newer)
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(newer), {"op": "c", "before": None, "after": row(7, "new")})
    found = decoded(
        table_of(server, COLUMNS), message(server, "c", after=row(1, "a")), header_of(number) + file.getvalue()
    )
    assert seen(found) == [("+I", 1, "a"), ("+I", 7, "new")]


@pytest.mark.spark
def test_spark_writes_changes_that_are_read_again(spark: Any, server: TestRegistry, make_table: Callable[..., Table]):
    table = table_of(server, "id INT, name STRING")
    kinds = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, None), ("-D", 1, None)]
    rows = spark.createDataFrame(
        [(1, name, kind) for kind, _, name in kinds], f"id INT, name STRING, {ROW_KIND} STRING"
    )
    written = [bytes(m.value) for m in Kafka().messages_of_rows(rows, table).collect()]
    assert seen(decoded(table, *written)) == [("+I", 1, "a"), ("-D", 1, "a"), ("+I", 1, None), ("-D", 1, None)]
    messages = spark.createDataFrame(
        [(None, value, "t", 0, n) for n, value in enumerate([*written, None])],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT",
    )
    read = Kafka().rows_of_messages(messages, table, ("id", "name")).collect()
    assert [(r[ROW_KIND], r.id, r.name) for r in read] == [
        ("+I", 1, "a"),
        ("-D", 1, "a"),
        ("+I", 1, None),
        ("-D", 1, None),
    ]
