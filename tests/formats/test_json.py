"""JSON is read in columns as it would be read value by value, and what cannot be read is named."""

from __future__ import annotations

import json
import pickle
import re
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.decoder import Decoded, Fault, Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.json_alike import split
from sqlstream.formats.json_records import RAW_JSON, with_raw_json
from sqlstream.formats.json_text import Text
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType, parse_type
from tests.depth import depth

NO_OBJECT, GOES_ON, NO_UTF8 = (
    "the record is no JSON object",
    "something follows the JSON object",
    "it is no UTF-8",
)


def decoder(columns: str, **options: Any) -> JsonDecoder:
    named = (column.strip().split(" ", 1) for column in columns.split(";"))
    return JsonDecoder(tuple(Field(name, parse_type(kind)) for name, kind in named), **options)


def of_block(reader: JsonDecoder, data: bytes) -> Decoded:
    return reader.block(pa.py_buffer(data))


def row(columns: str, record: str, **options: Any) -> Any:
    """The values of a record, or why it is none; read in both ways."""
    reader = decoder(columns, **options)
    read = [of_block(r, record.encode()) for r in (reader, replace(reader, exactly=True))]
    read += [r.messages(pa.array([record.encode()])) for r in (reader, replace(reader, exactly=True))]
    values = [r.faults[0].reason if r.faults else tuple(r.rows.to_pylist()[0].values()) for r in read]
    assert values[1:] == values[:-1]
    return values[0]


# --- records --------------------------------------------------------------------------------------------------


def test_rows_are_those_of_the_wanted_columns_and_all_are_checked() -> None:
    fields = (Field("a", parse_type("INT"), wanted=False), Field("b", parse_type("STRING")))
    read = of_block(JsonDecoder(fields), b'{"a":1,"b":"x"}\r\n\n  \t\r\n{"a":"?","b":"y"}\r\n{"b":"z"}')
    assert read.rows.to_pydict() == {"b": ["x", "z"]}
    assert (read.records, list(read.faults)) == (
        3,
        [Fault(1, 23, b'{"a":"?","b":"y"}', 'column "a" of type INT is "?"')],
    )
    assert read.rows.schema == JsonDecoder(fields).schema == pa.schema([("b", pa.string())])


def test_records_are_counted_where_no_column_is_wanted() -> None:
    reader = JsonDecoder((Field("a", parse_type("INT"), wanted=False),))
    read = of_block(reader, b'{"a":1}\n{\'a\':1}\n{"a":{}}\n')
    assert (read.rows.num_rows, read.rows.num_columns, read.records) == (2, 0, 3)
    assert of_block(JsonDecoder(()), b"{}\n{}").rows.num_rows == 2


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t\n"])
def test_nothing_but_empty_lines_is_no_record(data: bytes) -> None:
    read = of_block(decoder("a INT; l ARRAY<STRUCT<x: INT>>; m MAP<STRING, INT>"), data)
    assert (read.rows.num_rows, read.records, read.faults) == (0, 0, [])


def test_messages_may_have_line_breaks_and_must_not_be_empty() -> None:
    values = pa.array([b'{\n "a": 1,\n "s": "x\ny"\n}\n', None, b"", b"{}", b"\xff", b'{"s":"\xc3', b'\xa9"}'])
    read = decoder("a INT; s STRING").messages(values)
    assert read.rows.to_pydict() == {"a": [1, None], "s": ["x\ny", None]}
    assert [(f.record, f.text, f.reason) for f in read.faults] == [
        (1, b"", NO_OBJECT),
        (2, b"", NO_OBJECT),
        (4, b"\xff", NO_UTF8),
        (5, b'{"s":"\xc3', NO_UTF8),
        (6, b'\xa9"}', NO_UTF8),
    ]
    assert decoder("a INT").messages(values.slice(3, 1)).rows.num_rows == 1
    assert [f.record for f in decoder("a INT").messages(values.slice(3, 3)).faults] == [1, 2]


def test_a_byte_order_mark_is_a_fault_wherever_a_block_begins() -> None:
    marked = b'\xef\xbb\xbf{"a":1}'  # as files that were joined have it; that of a file itself is in no block
    for before in (b"", b'{"a":0}\n'):
        read = of_block(decoder("a INT"), before + marked + b'\n{"a":2}')
        assert [(f.start, f.text, f.reason) for f in read.faults] == [(len(before), marked, NO_OBJECT)]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'{"a": 1}{"a": 2}', GOES_ON),
        (b'{"a": 1},', GOES_ON),
        (b'{"a": 1}}', GOES_ON),
        (b'{"a": 1, "o": {"x": 1}} # {}', GOES_ON),
        (b'{"s": "\xff"}', NO_UTF8),
        (b'{"caf\xe9": 1}', NO_UTF8),
        (b'[{"a": 1},{"a": 2}]', NO_OBJECT),
        (b'{"a": 1', NO_OBJECT),
        (b"no json", NO_OBJECT),
        (b"null", NO_OBJECT),
        (b'{"a": 1,}', NO_OBJECT),
        (b'{"a": [1,]}', NO_OBJECT),
        (b'{"a": 01}', NO_OBJECT),
        (b'{"a": 1.}', NO_OBJECT),
        (b'{"a": .5}', NO_OBJECT),
        (b'{"a": +1}', NO_OBJECT),
        (b'{"a": 0x1F}', NO_OBJECT),
        (b'{"a": TRUE}', NO_OBJECT),
        (b'{"a": 1 /* one */}', NO_OBJECT),
        (b"{a: 1}", NO_OBJECT),
        (b'{"more": "\\x"}', NO_OBJECT),
        (b'{"more": "\\u12g4"}', NO_OBJECT),
        (b'{"more": {"x": [}]}', NO_OBJECT),
        (b'{"more": [1 2]}', NO_OBJECT),
        (b'{"more": {"x" 1}}', NO_OBJECT),
        (b'{"a": 1, "s": "not closed}', NO_OBJECT),
        (b'{"more": ' + b"[" * 1001 + b"]" * 1000 + b"}", NO_OBJECT),
    ],
)
def test_what_is_no_object_is_a_fault_and_harms_no_other_record(record: bytes, reason: str) -> None:
    good = [b'{"a": 1, "s": "}"}', b'{"s": "\\"", "more": {"x": [{}, "{", []]}, "a": 2}', b'  {"a":3}\t']
    read = of_block(decoder("a INT; s STRING"), b"\n".join([good[0], record, *good[1:], record]))
    assert read.rows.to_pydict() == {"a": [1, 2, 3], "s": ["}", '"', None]}
    assert [(f.record, f.text, f.reason) for f in read.faults] == [(1, record, reason), (4, record, reason)]


def test_records_of_a_few_forms_are_read_in_order() -> None:
    forms = [
        '{"a":%d,"s":"x%d"}',
        '{"a":%d,"s":null,"x":%d}',
        '{ "s": "%d\\n", "a": %d }',
        '{"s":{"x":%d},"a":"%d"}',
        "%d%d",
        '{"s":"\\u00e9%d","a":1.5,"a":%d}',
        '{"a":%d,"s":[%d]}',
    ]
    lines = [forms[(i * i + i // 700) % len(forms)] % (i, i + 1) for i in range(4000)]
    reader = decoder("a INT; s STRING")
    read, exact = (of_block(r, "\n".join(lines).encode()) for r in (reader, replace(reader, exactly=True)))
    assert read.rows.to_pylist() == exact.rows.to_pylist()
    assert list(read.faults) == list(exact.faults)
    assert 0 < len(read.faults) < 2000


def test_large_blocks_are_read_in_pieces() -> None:
    lines = [f'{{"a":{i},"s":"{"x" * 500}"}}' if i % 777 else "?" for i in range(8000)]
    read = of_block(decoder("a INT; s STRING"), "\n".join(lines).encode())
    assert read.rows["a"].to_pylist() == [i for i in range(8000) if i % 777]
    assert (read.records, [f.record for f in read.faults]) == (8000, list(range(0, 8000, 777)))
    assert read.faults[7].start == len("\n".join(lines[: 7 * 777])) + 1


# --- values ---------------------------------------------------------------------------------------------------

EXAMPLES: list[tuple[str, str, Any]] = [
    ("INT", "7.9", (7,)),
    ("INT", "-0.9", (0,)),
    ("INT", "1.5e3", (1500,)),
    ("INT", "12345678.9e-4", (1234,)),
    ("INT", "0e999999999999", (0,)),
    ("INT", '" 8 "', (8,)),
    ("INT", '"7.9"', 'column "v" of type INT is "7.9"'),
    ("INT", "3000000000", 'column "v" of type INT is "3000000000"'),
    ("INT", "true", 'column "v" of type INT is "true"'),
    ("INT", "{}", 'column "v" of type INT is "{}"'),
    ("TINYINT", "-128", (-128,)),
    ("TINYINT", "200", 'column "v" of type TINYINT is "200"'),
    ("TINYINT", "1.0", 'column "v" of type TINYINT is "1.0"'),
    ("BIGINT", "-9223372036854775808", (-(2**63),)),
    ("BIGINT", "9223372036854775807.99", (2**63 - 1,)),
    ("BIGINT", "9223372036854775808", 'column "v" of type BIGINT is "9223372036854775808"'),
    ("DOUBLE", "1e400", (float("inf"),)),
    ("DOUBLE", '"-Infinity"', (float("-inf"),)),
    ("DOUBLE", "-Infinity", (float("-inf"),)),
    ("DOUBLE", "12345678901234567890123", (12345678901234567890123.0,)),
    ("FLOAT", "0.1", (0.10000000149011612,)),
    ("DECIMAL(4, 2)", "1.235", (Decimal("1.24"),)),
    ("DECIMAL(4, 2)", "100", 'column "v" of type DECIMAL(4, 2) is "100"'),
    ("BOOLEAN", "true", (True,)),
    ("BOOLEAN", '" TRUE "', (True,)),
    ("BOOLEAN", '"yes"', (False,)),
    ("BOOLEAN", "1", (False,)),
    ("BOOLEAN", "{}", (False,)),
    ("STRING", "1.10", ("1.10",)),
    ("STRING", "1234567890123456789012", ("1234567890123456789012",)),
    ("STRING", "false", ("false",)),
    ("STRING", '[1.10, {"a":  "\\u00e9"}]', ('[1.10, {"a":  "\\u00e9"}]',)),
    ("STRING", '"\\u00e9\\ud83d\\ude00\\n"', ("é😀\n",)),
    ("STRING", '"\\ud83d"', ("?",)),
    ("STRING", '"a\ttab"', ("a\ttab",)),
    ("STRING", "'single \\' \" '", ("single ' \" ",)),
    ("STRING", "NaN", ("NaN",)),
    ("BINARY", '"AAH/"', (b"\x00\x01\xff",)),
    ("DATE", '"20191112"', 'column "v" of type DATE is "20191112"'),
    ("DATE", "9999", 'column "v" of type DATE is "9999"'),
    ("TIMESTAMP", "1706702400000", 'column "v" of type TIMESTAMP is "1706702400000"'),
    ("TIMESTAMP_NTZ", "1706702400", 'column "v" of type TIMESTAMP_NTZ is "1706702400"'),
    ("TIMESTAMP_NTZ", '"2024-01-31 12:00:00Z"', 'column "v" of type TIMESTAMP_NTZ is "2024-01-31 12:00:00Z"'),
    ("TIME", "12", 'column "v" of type TIME is "12"'),
    ("ARRAY<BIGINT>", '["1", 2.5, null]', ([1, 2, None],)),
    ("ARRAY<INT>", '[1,"x",2,{}]', 'column "v[1]" of type INT is "x", column "v[3]" of type INT is "{}"'),
    ("ARRAY<INT>", '"none"', 'column "v" of type ARRAY<INT> is "none"'),
    ("ARRAY<STRING>", "[1.10, [2.20], {}]", (["1.10", "[2.20]", "{}"],)),
    ("ARRAY<ARRAY<INT>>", "[[], [1], null, [[]]]", 'column "v[3][0]" of type INT is "[]"'),
    ("STRUCT<x: DOUBLE, y: STRING>", '{"y": {"z":1}, "x": "0.5"}', ({"x": 0.5, "y": '{"z":1}'},)),
    ("STRUCT<x: INT>", '{"x": "?"}', 'column "v.x" of type INT is "?"'),
    ("STRUCT<x: INT>", "{}", ({"x": None},)),
    ("STRUCT<x: INT>", "[]", 'column "v" of type STRUCT<x: INT> is "[]"'),
    ("MAP<STRING, INT>", '{"k": 1, "j": null, "k": 2}', ([("j", None), ("k", 2)],)),
    ("MAP<STRING, STRUCT<x: INT>>", '{"k": {"x": 1, "x": 2}}', ([("k", {"x": 2})],)),
    ("MAP<STRING, INT>", '{"k": [1]}', 'column "v.k" of type INT is "[1]"'),
    ("VOID", "1", (None,)),
]


@pytest.mark.parametrize(("kind", "spelled", "expected"), EXAMPLES)
def test_values_are_read_as_in_flink(kind: str, spelled: str, expected: Any) -> None:
    assert row(f"v {kind}", f'{{"v": {spelled}}}') == expected


RAW = ['{"a": [1.10, "x"]}', '"a\\"b"', "null", "1.10", "[]", "true", "'q'", "NaN", '{"a": {"b": "\\u0041"}}']


def test_the_json_of_values_is_kept_for_variants() -> None:
    kinds = {"v": RAW_JSON, "l": DataType("ARRAY", (RAW_JSON,)), "s": DataType("STRUCT", (("m", RAW_JSON),))}
    reader = JsonDecoder(tuple(Field(name, kind) for name, kind in kinds.items()))
    records = [f'{{"v": {raw}, "l": [{raw}, 5], "s": {{"m": {raw}}}}}' for raw in RAW] + ['{"l": [], "s": {}}']
    rows = reader.messages(pa.array([record.encode() for record in records])).rows.to_pylist()
    exact = replace(reader, exactly=True).messages(pa.array([record.encode() for record in records])).rows.to_pylist()
    assert rows[-1] == exact[-1] == {"v": None, "l": [], "s": {"m": None}}
    for found in (rows, exact):
        wanted = [*RAW[:6], '"q"', '"NaN"', RAW[8]]
        for row, raw in zip(found[:-1], wanted, strict=True):
            texts = [row["v"], *row["l"], row["s"]["m"]]
            assert [json.loads(text) for text in texts] == [json.loads(raw), json.loads(raw), 5, json.loads(raw)]


def test_of_a_field_that_is_there_twice_the_last_counts() -> None:
    assert row("a INT; b INT", '{"a": "?", "b": 1, "a": 2, "b": null}') == (2, None)


def test_names_are_compared_byte_by_byte() -> None:
    columns = 'a INT; A INT; customer_number_1_of_2 INT; customer_number_2_of_2 INT; `q\\"` INT'.replace("`", "")
    record = '{"A":1,"customer_number_2_of_2":2,"\\u0061":3,"q\\\\\\"":5,"customer_number_3_of_2":6}'
    assert row(columns, record) == (3, 1, None, 2, 5)


def test_missing_fields_are_faults_where_the_table_says_so() -> None:
    columns, options = "a INT; s STRUCT<x: INT, y: INT>", {"fails_on_missing": True}
    assert row(columns, '{"a": null, "s": {"x": 1, "y": null}, "more": 1}', **options) == (None, {"x": 1, "y": None})
    assert row(columns, '{"a": 1, "s": null}', **options) == (1, None)
    assert row(columns, '{"s": {"y": 1}}', **options) == 'it has no field "a", "s.x"'
    assert row(columns, "{}", **options) == 'it has no field "a", "s"'


def test_values_that_do_not_fit_are_null_where_errors_are_ignored() -> None:
    columns = "a INT; b INT; c ARRAY<INT>; d DATE; m MAP<STRING, INT>"
    record = '{"a": "bad", "b": 1, "c": [1, "x"], "d": 5, "m": 1}'
    assert row(columns, record, ignores_errors=True) == (None, 1, [1, None], None, None)
    assert row(columns, record + "1", ignores_errors=True) == GOES_ON


def test_timestamps_are_spelled_as_the_table_says_and_in_the_zone_of_the_session() -> None:
    record = '{"v": "2024-07-01T12:00:00"}'
    assert row("v TIMESTAMP", record, standard="SQL") == 'column "v" of type TIMESTAMP is "2024-07-01T12:00:00"'
    (value,) = row("v TIMESTAMP", record, standard="ISO-8601", zone="Europe/Berlin")
    assert value.isoformat() == "2024-07-01T10:00:00+00:00"


def test_decoders_say_what_they_hold_and_are_sent_to_workers() -> None:
    assert all(JsonDecoder.holds(parse_type(kind)) for kind, _, _ in EXAMPLES)
    assert not any(JsonDecoder.holds(parse_type(t)) for t in ("VARIANT", "ARRAY<VARIANT>", "MAP<INT, INT>"))
    reader = decoder("a INT; s STRUCT<x: INT>", zone="Europe/Berlin")
    of_block(reader, b'{"a": 1}')
    assert pickle.loads(pickle.dumps(reader)) == reader


# --- VARIANT: the JSON of any value, of which Spark makes it ------------------------------------------------------


def with_variants(columns: str, **options: Any) -> JsonDecoder:
    given = decoder(columns, **options)
    return replace(given, fields=tuple(replace(f, type=with_raw_json(f.type)) for f in given.fields))


VARIANTS = [
    ("1.10", "1.10"), ("1234567890123456789012", "1234567890123456789012"), ("1e400", "1e400"), ("true", "true"),
    ("null", "null"), ('"a"', '"a"'), ('"a\tb"', '"a\\tb"'), ("{ }", "{ }"),
    ('{"x": 1.0, "y": [ ]}', '{"x": 1.0, "y": [ ]}'),
    ('{"x": 1, "x": 2.50}', '{"x":2.50}'), ('[1, {"y": {"k": 1, "k": 2}}]', '[1,{"y":{"k":2}}]'),
    ('{"x": "a\tb"}', '{"x":"a\\tb"}'), ("'q\"'", '"q\\""'), ("[NaN]", '["NaN"]'), ('{"\\u0061": 1}', '{"a":1}'),
    ("[" * 300 + "1" + "]" * 300, "[" * 300 + "1" + "]" * 300),
]  # fmt: skip


def test_a_variant_is_given_as_json_that_spark_reads() -> None:
    records = [f'{{"n": {n}, "v": {spelled}}}'.encode() for n, (spelled, _) in enumerate(VARIANTS)]
    expected = [json_ for _, json_ in VARIANTS]
    for exactly in (False, True):
        reader = with_variants("n INT; v VARIANT", exactly=exactly)
        for decoded in (of_block(reader, b"\n".join(records)), reader.messages(pa.array(records, pa.binary()))):
            assert not decoded.faults
            given = decoded.rows.column("v").to_pylist()
            assert [json.loads(text) for text in given] == [json.loads(text) for text in expected]
            assert exactly or given == expected
    assert of_block(with_variants("v VARIANT"), b'{"w": 1}').rows.column("v").to_pylist() == [None]


def test_variants_within_other_types_are_json_as_well() -> None:
    reader = with_variants("l ARRAY<VARIANT>; m MAP<STRING, VARIANT>; s STRUCT<x: VARIANT, y: INT>")
    good = b'{"l": [1.10, null, {"a": 1, "a": 2}], "m": {"k": 1, "k": "x"}, "s": {"x": [1.0]}}'
    decoded = of_block(reader, good + b'\n{"l": {"a": 1}}\n{"s": {"y": "z"}}')
    assert decoded.rows.to_pylist() == [
        {"l": ["1.10", "null", '{"a":2}'], "m": [("k", '"x"')], "s": {"x": "[1.0]", "y": None}}
    ]
    assert [fault.reason for fault in decoded.faults] == [
        'column "l" of type ARRAY<VARIANT> is "{"a": 1}"', 'column "s.y" of type INT is "z"'
    ]  # fmt: skip


def test_a_variant_that_spark_would_not_read_is_a_fault() -> None:
    deep = b'{"a": 1, "v": ' + b"[" * 1001 + b"]" * 1001 + b"}"
    (fault,) = of_block(with_variants("a INT; v VARIANT"), deep + b'\n{"a": 2, "v": 3}').faults
    assert (fault.record, fault.reason) == (0, "it is nested too deeply for a VARIANT")
    assert not of_block(with_variants("a INT"), deep).faults


# --- any record -----------------------------------------------------------------------------------------------

COLUMNS = (
    "a INT; b BIGINT; c TINYINT; d DOUBLE; e DECIMAL(5, 2); f BOOLEAN; s STRING; t TIMESTAMP; n TIMESTAMP_NTZ; "
    "l ARRAY<INT>; m MAP<STRING, STRING>; r STRUCT<a: INT, l: ARRAY<STRING>>; rs ARRAY<STRUCT<x: INT, s: STRING>>; "
    "a_name_that_is_long_1 INT; a_name_that_is_long_2 STRING"
)
FIELDS = decoder(COLUMNS).fields
NAMES = [*(f.name for f in FIELDS), "x", "more", "A", "\\u0061", "é"]
SCALARS = [
    "1", "0", "-1", "127", "128", "-0", "1.5", "-2.75", "1e2", "1E-2", "12345678", "123456789", "3000000000",
    "9223372036854775807", "9223372036854775808", "99999999999999999999", "1.10", "0.005", "1e400", "true", "false",
    "null", '""', '"x"', '"true"', '"1"', '" 2 "', '"1.5"', '"NaN"', '"2024-01-31"', '"2024-01-31 12:30:00"',
    '"2024-01-31T12:30:00.5Z"', '"é☃😀"', '"a\\nb"', '"\\""', '"\\\\"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"',
    '"{"', '"}"', '",\\":"', '"a\tb"', '"\x7f|"', "NaN", "Infinity", "-Infinity", "01", "1.", "-", "tru", "nulll",
    "'x'",
]  # fmt: skip
SPACES = st.sampled_from(["", "", "", "", " ", "\t", "  ", "\r"])


@st.composite
def spelled(draw: st.DrawFn, nesting: int = 3) -> str:
    """A value of JSON, or of something like it."""
    kind = draw(st.integers(0, 8 if nesting else 5))
    if kind < 6:
        return draw(st.sampled_from(SCALARS))
    if kind == 6:
        elements = draw(st.lists(spelled(nesting - 1), max_size=3))
        return "[" + ",".join(draw(SPACES) + e + draw(SPACES) for e in elements) + "]"
    members = draw(st.lists(st.tuples(st.sampled_from(NAMES), spelled(nesting - 1)), max_size=4))
    colon = draw(SPACES)
    return "{" + ",".join(f'{draw(SPACES)}"{k}"{colon}:{colon}{v}{draw(SPACES)}' for k, v in members) + "}"


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record, as it should be or changed somewhere."""
    members = draw(st.lists(st.tuples(st.sampled_from(NAMES), spelled()), max_size=5))
    colon = draw(SPACES)
    record = ("{" + ",".join(f'"{name}":{colon}{value}' for name, value in members) + "}").encode()
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(record)))
        removed = draw(st.integers(0, 2))
        record = (
            record[:at]
            + draw(st.sampled_from([b"", *(bytes([c]) for c in b'{}[]",:\\ 1x\xff\xc3#')]))
            + record[at + removed :]
        )
    return draw(SPACES).encode() + record + draw(SPACES).encode()


class Number(str):
    """A number as it is spelled."""


class Special(str):
    """NaN or an infinite number."""


READER = json.JSONDecoder(
    strict=False, parse_int=Number, parse_float=Number, parse_constant=Special, object_pairs_hook=dict
)


class Misfit(Exception):
    """Values that do not fit, each with path and type."""


def model(record: bytes) -> tuple[Any, ...] | str | list[str]:
    """The values of a record by Python's own reader; or why it is none, for values that do not fit the beginnings of
    the messages.
    """
    try:
        text = record.decode().strip(" \t\r\n")
    except UnicodeDecodeError:
        return NO_UTF8
    if not text.startswith("{"):
        return NO_OBJECT
    try:
        value, end = READER.raw_decode(text)
    except (json.JSONDecodeError, RecursionError):
        return NO_OBJECT
    if end < len(text):
        return GOES_ON
    misfits: list[str] = []
    values = tuple(convert(value.get(f.name), f.type, f.name, misfits) for f in FIELDS)
    return misfits or values


def convert(value: Any, kind: DataType, path: str, misfits: list[str]) -> Any:
    if value is None:
        return None
    inner = [t for t in kind.args if isinstance(t, DataType)]
    if kind.name == "ARRAY" and isinstance(value, list):
        return [convert(v, inner[0], f"{path}[{i}]", misfits) for i, v in enumerate(value)]
    if kind.name == "MAP" and isinstance(value, dict):
        return {key(k): convert(v, inner[1], f"{path}.{key(k)}", misfits) for k, v in value.items()}
    if kind.name == "STRUCT" and isinstance(value, dict):
        return {n: convert(value.get(n), t, f"{path}.{n}", misfits) for n, t in kind.fields()}
    text = str(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else "{"
    is_number = isinstance(value, Number)
    if kind.name == "STRING":
        return READER.decode(json.dumps(value)) if isinstance(value, dict | list) else key(text)
    if kind.name in ("INT", "BIGINT") and is_number and abs(Decimal(text)) < 10**20:
        text = str(int(Decimal(text)))
    if kind.name not in ("ARRAY", "MAP", "STRUCT") and not (is_number and kind.is_timestamp):
        values, wrong = text_rule(kind).read(pa.array([key(text)]))
        if not wrong[0]:
            return values[0].as_py()
    shown = "" if isinstance(value, list | dict) else f'{key(text)}"'
    misfits.append(f'column "{path}" of type {kind} is "{shown}')
    return None


def key(text: str) -> str:
    return text.encode(errors="replace").decode()


def alike(read: Any, expected: Any, kind: DataType) -> bool:
    """Whether values are equal; NaN is, and a nested value in a STRING is what it says."""
    if read is None or expected is None:
        return read is expected
    inner = [t for t in kind.args if isinstance(t, DataType)]
    if kind.name == "ARRAY":
        return len(read) == len(expected) and all(map(alike, read, expected, inner * len(read)))
    if kind.name == "MAP":
        return dict(read).keys() == expected.keys() and all(alike(v, expected[k], inner[1]) for k, v in read)
    if kind.name == "STRUCT":
        return all(alike(read[n], expected[n], t) for n, t in kind.fields())
    if kind.name == "STRING" and not isinstance(expected, str):
        return str(READER.decode(read)) == str(expected) or "'" in read or "\\ud83d" in read
    return bool(read == expected or (read != read and expected != expected))


@settings(max_examples=depth(120, 5000))
@given(st.lists(records(), min_size=1, max_size=8), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_any_records_are_read_in_columns_as_one_by_one(lines: list[bytes], end: bytes) -> None:
    reader = decoder(COLUMNS)
    exact = replace(reader, exactly=True)
    in_blocks = of_block(reader, end.join(lines))
    as_messages = reader.messages(pa.array(lines, pa.binary()))
    for read, one_by_one in (
        (in_blocks, of_block(exact, end.join(lines))),
        (as_messages, exact.messages(pa.array(lines, pa.binary()))),
    ):
        assert repr(read.rows.to_pylist()) == repr(one_by_one.rows.to_pylist())
        assert (read.records, list(read.faults)) == (one_by_one.records, list(one_by_one.faults))
    read_rows, faults = iter(as_messages.rows.to_pylist()), {f.record: f.reason for f in as_messages.faults}
    for number, line in enumerate(lines):
        if b"'" in line:  # what Python's reader does not know
            if number not in faults:
                next(read_rows)
            continue
        expected = model(line)
        if isinstance(expected, tuple):
            assert number not in faults, faults[number]
            values = next(read_rows)
            assert all(alike(values[f.name], v, f.type) for f, v in zip(FIELDS, expected, strict=True))
        elif isinstance(expected, str):
            assert faults[number] == expected
        else:
            assert all(misfit in faults[number] for misfit in expected)
            assert len(re.findall(r'(?:^|", )column "[^"]+" of type ', faults[number])) == len(expected)


@settings(max_examples=depth(40, 1000))
@given(st.lists(st.sampled_from(SCALARS), min_size=8, max_size=8), st.lists(records(), max_size=7), st.randoms())
def test_lines_of_one_form_are_read_around_others(values: list[str], others: list[bytes], random: Any) -> None:
    names = [f.name for f in FIELDS[:8]]
    lines = [("{" + ", ".join(f'"{n}": {v}' for n, v in zip(names, values, strict=True)) + "}").encode()] * 20
    for other in others:
        lines.insert(random.randrange(20), other)
    reader = decoder(COLUMNS)
    exact = of_block(replace(reader, exactly=True), b"\n".join(lines))
    # In pieces of some records, of which those that are unlike others are read together, in one way or another.
    bounds = {"_PIECE": random.choice([1 << 20, 600]), "_FEW": random.choice([0, 64]), "_FEWEST": random.choice([0, 4]),
              "_RUN": random.choice([1, 64])}  # fmt: skip
    with patch.multiple("sqlstream.formats.json", **bounds), patch("sqlstream.formats.decoder._FEW", bounds["_RUN"]):
        read = of_block(reader, b"\n".join(lines))
        as_messages = reader.messages(pa.array(lines, pa.binary()))
    assert repr(read.rows.to_pylist()) == repr(exact.rows.to_pylist())
    assert (read.records, list(read.faults)) == (exact.records, list(exact.faults))
    one_by_one = replace(reader, exactly=True).messages(pa.array(lines, pa.binary()))
    assert repr(as_messages.rows.to_pylist()) == repr(one_by_one.rows.to_pylist())
    assert (as_messages.records, list(as_messages.faults)) == (one_by_one.records, list(one_by_one.faults))


def test_deep_nesting_is_read_in_time_that_grows_with_its_length() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    begun = time.process_time()
    assert of_block(decoder("v STRING"), f'{{"v":{deep}}}'.encode()).rows.to_pylist() == [{"v": deep}]
    assert time.process_time() - begun < 4  # eight where each level has a copy of all that is in it


# --- records that are alike, with objects and arrays in them ----------------------------------------------------


def test_the_last_record_may_be_far_shorter_than_the_others() -> None:
    read = of_block(decoder("a INT"), f'{{"a":1,"{"k" * 200}":1}}\n{{"a":2,"b":1}}\n'.encode())
    assert read.rows.to_pylist() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("ARRAY<INT>", ["[]", "[1]", "[1, -2, null, 4]", "[5, 6]"]),
        ("ARRAY<STRING>", ["[]", '["a"]', '["a\\"b", "c,d"]', '["", "é", "x"]']),
        ("ARRAY<STRUCT<a: INT, b: STRING>>", ["[]", '[{"a": 1, "b": "x"}]', '[{"a": 2, "b": ""}, {"a": 3, "b": "}"}]']),
        ("STRUCT<c: ARRAY<DOUBLE>, d: INT>", ['{"c": [], "d": 1}', '{"c": [1.5, 2], "d": 2}']),
    ],
)
def test_arrays_of_other_lengths_are_alike(kind: str, values: list[str]) -> None:
    lines = [f'{{"k": {n}, "v": {value}, "w": "x{n}"}}' for n, value in enumerate(values * 2)]
    _, rest, _, _ = split(Text("\n".join(lines).encode(), ord("\n")))
    assert not len(rest)
    reader = decoder(f"k INT; v {kind}; w STRING")
    read = of_block(reader, "\n".join(lines).encode())
    assert read.rows == of_block(replace(reader, exactly=True), "\n".join(lines).encode()).rows
    assert json.loads(json.dumps(read.rows.column(1).to_pylist())) == [json.loads(value) for value in values * 2]


def test_a_fault_in_an_array_of_records_that_are_alike_has_its_place() -> None:
    lines = [f'{{"k":{n},"v":[{{"a":1}},{{"a":{3 if n else 3_000_000_000}}}]}}' for n in range(4)]
    read = of_block(decoder("k INT; v ARRAY<STRUCT<a: INT>>"), "\n".join(lines).encode())
    assert [fault.reason for fault in read.faults] == ['column "v[1].a" of type INT is "3000000000"']
    assert read.rows.column(0).to_pylist() == [1, 2, 3]


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(st.sampled_from(["a", "b", "c", "long_name_1"]), inner), min_size=1, max_size=4)


SHAPES = st.recursive(
    st.sampled_from(["text", "scalar", ("array", "text"), ("array", "scalar")]),
    lambda inner: _objects(inner) | _objects(inner).map(lambda shape: ("array", shape)),
    max_leaves=8,
)
OF_SHAPE = (
    "ARRAY<STRING>", "ARRAY<STRUCT<a: INT, b: STRING>>", "STRUCT<a: ARRAY<INT>, b: ARRAY<STRUCT<a: STRING, c: INT>>>",
    "INT", "STRING", "DOUBLE", "VARIANT", "ARRAY<INT>", "MAP<STRING, STRING>", "MAP<STRING, MAP<STRING, INT>>",
    "MAP<STRING, STRUCT<a: INT, b: STRING>>", "STRUCT<a: INT, b: STRING, long_name_1: BIGINT>",
    "STRUCT<a: STRUCT<a: INT, c: STRING>, b: MAP<STRING, STRING>, c: STRUCT<b: STRUCT<a: STRING>>>",
)  # fmt: skip


@settings(max_examples=depth(60, 3000))
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "v"]), SHAPES), min_size=1, max_size=4),
    st.data(),
    st.sampled_from(["", " "]),
    st.lists(st.sampled_from(OF_SHAPE), min_size=2, max_size=2),
)
def test_nested_records_that_are_alike_are_read_as_others(
    shape: Any, data: st.DataObject, space: str, kinds: list[str]
) -> None:
    values = {
        "text": st.sampled_from(['"x"', '"12"', '""', '"a\\nb"', '"}"', '"é"', '"a\tb"']),
        "scalar": st.sampled_from(["1", "-20", "1.10", "true", "null", "01", "3000000000", "}", "1}"]),
    }

    def spelled(part: Any) -> str:
        if isinstance(part, str):
            return data.draw(values[part])
        if isinstance(part, tuple):
            elements = [spelled(part[1]) for _ in range(data.draw(st.integers(0, 3)))]
            return "[" + f"{data.draw(st.sampled_from(['', space]))},{space}".join(elements) + "]"
        members = (f'{space}"{name}"{space}:{space}{spelled(inner)}' for name, inner in part)
        return "{" + f"{space},".join(members) + space + "}"

    records = [spelled(shape).encode() for _ in range(data.draw(st.integers(1, 6)))]
    fields = tuple(Field(n, with_raw_json(parse_type(kind))) for n, kind in zip("va", kinds, strict=True))
    for fails in (False, True):
        reader = JsonDecoder(fields, fails_on_missing=fails)
        read = [of_block(r, b"\n".join(records)) for r in (reader, replace(reader, exactly=True))]
        assert read[0].records == read[1].records
        assert read[0].faults == read[1].faults
        of_variants = [
            json_of(kind, read_.rows.column(n).to_pylist()) for n, kind in enumerate(kinds) for read_ in read
        ]
        assert of_variants[::2] == of_variants[1::2]


def json_of(kind: str, values: list[Any]) -> list[Any]:
    """The values; of VARIANT what their JSON says, which is spelled in two ways."""
    return values if kind != "VARIANT" else [None if v is None else json.loads(v) for v in values]
