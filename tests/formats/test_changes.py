"""Messages of changes: what they do to rows, which of them are faults, and the values of Debezium's logical types."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.changes import DELETE, INSERT, SKIPPED, UPDATE, ChangeDecoder, Envelope
from sqlstream.formats.decoder import Field
from sqlstream.types import parse_type
from tests.depth import depth

DEBEZIUM = Envelope(
    "op",
    (("c", INSERT), ("r", INSERT), ("u", UPDATE), ("d", DELETE)),
    hint=" (where?)",
    number_hint=", and nothing says what it counts",
)
NESTED = Envelope(DEBEZIUM.operation, DEBEZIUM.operations, nested=True)
MAXWELL = Envelope("type", (("insert", INSERT), ("update", UPDATE), ("delete", DELETE)), "data", "old", old=True)
CANAL = Envelope(
    "type",
    (("INSERT", INSERT), ("UPDATE", UPDATE), ("DELETE", DELETE), ("CREATE", SKIPPED)),
    "data",
    "old",
    lists=True,
    old=True,
    ddl="isDdl",
)
UPDATED = {"before": {"id": 1, "v": "a"}, "after": {"id": 1, "v": "b"}, "op": "u"}
WITHOUT_BEFORE = {"before": None, "after": {"id": 1, "v": "b"}, "op": "u"}
AT = datetime(2024, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
MICROS = 1_706_702_400_123_456


def fields(columns: str, *unwanted: str) -> tuple[Field, ...]:
    pairs = (column.split(" ", 1) for column in columns.split("; "))
    return tuple(Field(name, parse_type(kind), name not in unwanted) for name, kind in pairs)


def decode(decoder: ChangeDecoder, *messages: object):
    texts = [m if isinstance(m, bytes) else (m if isinstance(m, str) else json.dumps(m)).encode() for m in messages]
    return decoder.messages(pa.array(texts, pa.binary()))


def rows(decoded) -> list[tuple[Any, ...]]:
    return [(row["kind"], *(v for k, v in row.items() if k != "kind")) for row in decoded.rows.to_pylist()]


def test_messages_are_rows_with_kinds_and_the_number_of_their_message() -> None:
    decoder = ChangeDecoder(fields("id INT; v STRING"), DEBEZIUM, "kind")
    came, gone = {"op": "r", "after": {"id": 0}}, {"op": "d", "before": {"id": 2, "v": "z"}, "after": None}
    decoded = decode(decoder, came, UPDATED, "oops", gone)
    assert rows(decoded) == [("+I", 0, None), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 2, "z")]
    assert (decoded.records, decoded.numbers.tolist(), [f.record for f in decoded.faults]) == (4, [0, 1, 1, 3], [2])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("no json", "the record is no JSON object"),
        (b'{"op": "c", "after": {"v": "\xff"}}', "it is no UTF-8"),
        ('{"op": "c", "after": {"id": 1}} {}', "something follows the JSON object"),
        ('{"op": "x", "after": {"id": 1}}', '"op" is "x", which is no change'),
        ('{"after": {"id": 1}}', 'the message has no "op" (where?)'),
        ('{"op": "c"}', 'the message has no "after"'),
        ('{"op": "d", "after": {"id": 1}}', 'the message has no "before"'),
        ('{"op": "c", "after": {"id": "one"}}', 'column "id" of type INT is "one"'),
        ('{"op": "c", "after": {"id": 1, "d": "much"}}', 'column "d" of type DECIMAL(5, 2) is "much"'),
        ('{"op": "u", "before": {"id": "one"}, "after": {"id": 1}}', 'column "id" of type INT is "one"'),
        ('{"op": "c", "after": {"n": {"x": [1, "y"]}}}', 'column "n.x[1]" of type INT is "y"'),
        ('{"op": "c", "after": {"at": 5}}', 'column "at" of type DATE is "5", and nothing says what it counts'),
        ('{"op": "c", "after": {"at": "x"}}', 'column "at" of type DATE is "x"'),
        (WITHOUT_BEFORE, 'the message has no "before"'),
    ],
)
def test_a_bad_message_is_a_fault_as_a_whole(message: object, reason: str) -> None:
    columns = fields("id INT; v STRING; d DECIMAL(5, 2); n STRUCT<x: ARRAY<INT>>; at DATE", "id", "d", "n", "at")
    decoded = decode(ChangeDecoder(columns, DEBEZIUM, "kind"), UPDATED, message, UPDATED)
    assert [(f.record, f.reason) for f in decoded.faults] == [(1, reason)]
    assert rows(decoded) == [("-U", "a"), ("+U", "b")] * 2


def test_changes_by_key_need_no_row_of_before() -> None:
    columns = fields("id INT; v STRING")
    gone = {"op": "d", "before": {"id": 1}}
    assert rows(decode(ChangeDecoder(columns, DEBEZIUM, "kind", with_before=False), WITHOUT_BEFORE, gone)) == [
        ("+U", 1, "b"), ("-D", 1, None),
    ]  # fmt: skip
    canal = {"type": "UPDATE", "data": [{"id": "1", "v": "b"}], "old": None}
    assert rows(decode(ChangeDecoder(columns, CANAL, "kind", with_before=False), canal)) == [("+U", 1, "b")]


def test_old_rows_hold_what_has_changed() -> None:
    """A field that is not there is as in the new row; one with null was NULL."""
    row = {"id": 1, "v": "b", "d": 1.25, "m": {"a": 1}, "l": [1]}
    columns = fields("id INT; v STRING; d DECIMAL(5, 2); m MAP<STRING, INT>; l ARRAY<INT>", "id")
    decoder = ChangeDecoder(columns, MAXWELL, "kind")
    update = {"type": "update", "data": row, "old": {"v": None, "d": 799.92, "m": {"b": 2}}}
    now = ("b", Decimal("1.25"), [("a", 1)], [1])
    assert rows(decode(decoder, update, {"type": "delete", "data": row}, {"type": "insert", "data": row})) == [
        ("-U", None, Decimal("799.92"), [("b", 2)], [1]),
        ("+U", *now),
        ("-D", *now),
        ("+I", *now),
    ]


def test_lists_of_rows_are_changes_of_each() -> None:
    decoder = ChangeDecoder(fields("id INT; v STRING"), CANAL, "kind")
    two = {"type": "UPDATE", "data": [{"id": "1"}, {"id": "2", "v": "q"}], "old": [{"v": "x"}, {"id": "7"}]}
    decoded = decode(decoder, {"type": "INSERT", "data": [{"id": 5}, {"id": 6}]}, {"type": "INSERT", "data": []}, two)
    assert rows(decoded) == [
        ("+I", 5, None), ("+I", 6, None), ("-U", 1, "x"), ("+U", 1, None), ("-U", 7, "q"), ("+U", 2, "q"),
    ]  # fmt: skip
    assert decoded.numbers.tolist() == [0, 0, 2, 2, 2, 2]
    wrong = [
        {"type": "UPDATE", "data": [{"id": "1"}, {"id": "2"}], "old": [{"v": "x"}]},
        {"type": "INSERT", "data": None},
        {"type": "INSERT", "data": [None]},
        {"type": "UPDATE", "data": [{"id": 1}], "old": [{}, {}]},
    ]
    reasons = [fault.reason for fault in decode(decoder, *wrong).faults]
    assert reasons == [f'the message has no "{name}"' for name in ("old", "data", "data", "data")]


def test_statements_change_no_rows_whatever_is_in_them() -> None:
    decoder = ChangeDecoder(fields("id INT"), CANAL, "kind")
    statements = [{"type": "ALTER", "isDdl": True, "data": None}, {"type": "CREATE", "data": [{"id": "x"}]}]
    decoded = decode(decoder, *statements, {"type": "ALTER"})
    assert [(f.record, f.reason) for f in decoded.faults] == [(2, '"type" is "ALTER", which is no change')]


def test_values_that_do_not_fit_are_null_where_errors_are_ignored() -> None:
    decoder = ChangeDecoder(fields("id INT; at DATE; n ARRAY<INT>"), DEBEZIUM, "kind", ignores_errors=True, unit="ms")
    decoded = decode(decoder, {"op": "c", "after": {"id": "x", "at": "y", "n": [1, "z"]}}, {"op": "c", "after": 7})
    assert rows(decoded) == [("+I", None, None, [1, None])]
    assert [f.reason for f in decoded.faults] == ['the message has no "after"']


def test_fields_of_the_envelope_are_columns() -> None:
    metadata = (
        ("of", Field("source", parse_type("MAP<STRING, STRING>"))),
        ("s", Field("schema", parse_type("STRING"))),
    )
    message = UPDATED | {"source": {"table": "t", "ts_ms": 5}, "schema": {"x": 1.10}}
    source = [("table", "t"), ("ts_ms", "5")]
    flat = ChangeDecoder(fields("id INT; v STRING", "v"), DEBEZIUM, "kind", metadata)
    assert rows(decode(flat, message)) == [("-U", 1, source, None), ("+U", 1, source, None)]
    nested = ChangeDecoder(fields("id INT; v STRING", "v"), NESTED, "kind", metadata)
    text = f'{{"payload": {json.dumps(message)}, "schema": {{"x": 1.10}}}}'
    assert rows(decode(nested, text)) == [("-U", 1, source, '{"x": 1.10}'), ("+U", 1, source, '{"x": 1.10}')]


def test_lines_are_messages() -> None:
    decoder = ChangeDecoder(fields("id INT"), DEBEZIUM, "kind")
    text = b'{"op": "c", "after": {"id": 1}}\n\noops\r\n{"op": "c", "after": {"id": 2}}'
    decoded = decoder.block(pa.py_buffer(text))
    assert [row["id"] for row in decoded.rows.to_pylist()] == [1, 2]
    assert [(f.record, f.start, f.text) for f in decoded.faults] == [(1, text.index(b"oops"), b"oops")]
    assert decoder.block(pa.py_buffer(b"")).records == decode(decoder).records == 0


# --- a plain model --------------------------------------------------------------------------------------------

OGG = Envelope("op_type", (("I", INSERT), ("U", UPDATE), ("D", DELETE)))
ROWS = st.none() | st.fixed_dictionaries(
    {},
    optional={"id": st.sampled_from([None, 1, "2", 3.9, "x"]), "v": st.sampled_from([None, "a", "b"]), "w": st.just(1)},
)
LISTS = st.none() | st.lists(ROWS, max_size=3)


class Fault(Exception):
    """A message that is none."""


def value(row: dict[str, Any]) -> tuple[int | None, str | None]:
    number = row.get("id")
    if number == "x":
        raise Fault
    return None if number is None else int(number), row.get("v")


def changes(
    envelope: Envelope, operation: int, after: dict[str, Any] | None, before: dict[str, Any] | None, with_before: bool
) -> list[tuple[Any, ...]]:
    for row in (after, before):
        value(row or {})
    deleted = after if envelope.old else before
    needed = {INSERT: [after], DELETE: [deleted], UPDATE: [after, *([before] if with_before else [])]}[operation]
    if any(row is None for row in needed):
        raise Fault
    if operation == DELETE:
        return [("-D", *value(deleted or {}))]
    now = value(after or {})
    if operation == INSERT:
        return [("+I", *now)]
    old = (after or {}) | (before or {}) if envelope.old else before or {}
    return [*([("-U", *value(old))] if with_before else []), ("+U", *now)]


def modelled(envelope: Envelope, message: dict[str, Any], with_before: bool) -> list[tuple[Any, ...]]:
    operation = dict(envelope.operations).get(message.get(envelope.operation, ""))
    if operation == SKIPPED or (envelope.ddl and message.get(envelope.ddl)):
        return []
    after, before = message.get(envelope.after), message.get(envelope.before)
    if operation is None:
        raise Fault
    if not envelope.lists:
        return changes(envelope, operation, after, before, with_before)
    if after is None or len(before or []) > len(after):
        raise Fault
    pairs = zip_longest(after, before or [])
    return [change for a, b in pairs for change in changes(envelope, operation, a, b, with_before)]


@settings(max_examples=depth(150, 3000))
@given(st.data(), st.sampled_from([DEBEZIUM, NESTED, OGG, MAXWELL, CANAL]), st.booleans())
def test_messages_are_what_a_plain_model_makes_of_each(data: Any, envelope: Envelope, with_before: bool) -> None:
    rows_of = LISTS if envelope.lists else ROWS
    fields_of = {envelope.after: rows_of, envelope.before: rows_of}
    words = st.sampled_from([*(word for word, _ in envelope.operations), "?"])
    more = {envelope.ddl: st.booleans()} if envelope.ddl else {}
    one = st.fixed_dictionaries({}, optional={envelope.operation: words, **fields_of, **more})
    messages = data.draw(st.lists(one, max_size=8))
    decoder = ChangeDecoder(fields("id INT; v STRING"), envelope, "kind", with_before=with_before)
    decoded = decode(decoder, *({"payload": m} if envelope.nested else m for m in messages))
    expected: list[tuple[int, tuple[Any, ...]]] = []
    faults = []
    for number, message in enumerate(messages):
        try:
            expected += [(number, change) for change in modelled(envelope, message, with_before)]
        except Fault:
            faults.append(number)
    assert [f.record for f in decoded.faults] == faults
    assert list(zip(decoded.numbers.tolist(), rows(decoded), strict=True)) == expected


# --- logical types --------------------------------------------------------------------------------------------


def unscaled(number: int) -> str:
    size = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


LOGICAL = [
    ("DATE", "io.debezium.time.Date", 9999, date(1997, 5, 18)),
    ("DATE", "org.apache.kafka.connect.data.Date", -1, date(1969, 12, 31)),
    ("DATE", "io.debezium.time.Timestamp", 1, "fault"),
    ("DATE", "io.debezium.time.Date", 10**9, "fault"),
    ("DATE", "io.debezium.time.Date", 1.5, "fault"),
    ("TIMESTAMP", "io.debezium.time.Timestamp", MICROS // 1000, AT.replace(microsecond=123000)),
    ("TIMESTAMP_NTZ", "io.debezium.time.MicroTimestamp", str(MICROS), AT.replace(tzinfo=None)),
    ("TIMESTAMP_NTZ", "io.debezium.time.NanoTimestamp", MICROS * 1000 + 999, AT.replace(tzinfo=None)),
    ("TIMESTAMP", "io.debezium.time.NanoTimestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("TIMESTAMP", "org.apache.kafka.connect.data.Timestamp", 10**18, "fault"),
    ("TIMESTAMP", "io.debezium.time.ZonedTimestamp", "2024-01-31T13:00:00.123456+01:00", AT),
    ("TIMESTAMP", "io.debezium.time.ZonedTimestamp", 5, "fault"),
    ("TIMESTAMP", "io.debezium.time.MicroTimestamp", None, None),
    ("TIMESTAMP", None, MICROS, "fault"),
    ("TIME", "io.debezium.time.Time", 3_661_123, time(1, 1, 1, 123000)),
    ("TIME", "io.debezium.time.MicroTime", 3_661_123_456, time(1, 1, 1, 123456)),
    ("TIME", "io.debezium.time.NanoTime", 3_661_123_456_789, time(1, 1, 1, 123456)),
    ("TIME", "org.apache.kafka.connect.data.Time", 86_400_000, "fault"),
    ("TIME", "org.apache.kafka.connect.data.Time", -1, "fault"),
    ("TIME", None, "12:30:00", time(12, 30)),
    ("DECIMAL(10, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(12345), Decimal("123.45")),
    ("DECIMAL(10, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(-1), Decimal("-0.01")),
    ("DECIMAL(10, 1)", "org.apache.kafka.connect.data.Decimal", unscaled(12345), Decimal("123.5")),
    ("DECIMAL(38, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(10**36 + 7), Decimal("1" + 34 * "0" + ".07")),
    ("DECIMAL(38, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(-(10**36)), Decimal(-(10**34))),
    ("DECIMAL(4, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(12345), "fault"),
    ("DECIMAL(38, 2)", "org.apache.kafka.connect.data.Decimal", unscaled(1 << 140), "fault"),
    ("DECIMAL(10, 2)", "org.apache.kafka.connect.data.Decimal", "", "fault"),
    ("DECIMAL(10, 2)", None, 1.5, Decimal("1.50")),
]  # fmt: skip
"""The type of a column, the logical type and the value in a message, and what is read."""


@pytest.mark.parametrize(("kind", "logical", "value", "wanted"), LOGICAL)
def test_logical_types_are_read_by_the_schema_of_each_message(kind, logical, value, wanted) -> None:
    item = {"field": "c", "name": logical, "parameters": {"scale": "2"}}
    schema = {"fields": [{"field": "before", "fields": [item]}, {"field": "after", "fields": [item]}]}
    message = {"schema": schema, "payload": {"op": "u", "before": {"c": value}, "after": {"c": value}}}
    text = {"schema": None, "payload": {"op": "c", "after": {"c": None}}}
    decoded = decode(ChangeDecoder(fields(f"c {kind}"), NESTED, "kind", logical=True), text, message, text)
    found = [row[1] for row in rows(decoded)]
    if wanted == "fault":
        assert [(f.record, f.reason) for f in decoded.faults] == [(1, f'column "c" of type {kind} is "{value}"')]
        assert found == [None, None]
    else:
        assert (found, decoded.faults) == ([None, wanted, wanted, None], [])


@pytest.mark.parametrize(("unit", "per_second"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_an_option_says_what_numbers_count(unit: str, per_second: int) -> None:
    decoder = ChangeDecoder(fields("d DATE; t TIMESTAMP; n TIMESTAMP_NTZ; c TIME"), DEBEZIUM, "kind", unit=unit)
    row = {"d": 9999, "t": 86_400 * per_second, "n": -per_second, "c": 61 * per_second}
    assert rows(decode(decoder, {"op": "c", "after": row})) == [
        ("+I", date(1997, 5, 18), datetime(1970, 1, 2, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59), time(0, 1, 1))
    ]
    (fault,) = decode(decoder, {"op": "c", "after": {"t": 1.5, "d": "no"}}).faults
    assert fault.reason == (
        'column "d" of type DATE is "no", column "t" of type TIMESTAMP is "1.5", and nothing says what it counts'
    )
