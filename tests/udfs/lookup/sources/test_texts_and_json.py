"""Values, their texts and their JSON; paths and templates."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.types import DataType, parse_type
from sqlstream.udfs.lookup.sources.json_paths import parse_path
from sqlstream.udfs.lookup.sources.json_values import (
    JsonDocument,
    Misfit,
    from_field,
    has_json,
    json_object,
    read_text,
    to_field,
    to_json,
)
from sqlstream.udfs.lookup.sources.scalars import from_text, parse_json_template, parse_template, to_text
from tests.depth import depth

_STRUCT = DataType("STRUCT", (("a", DataType("INT")), ("two words", DataType("STRING"))))
_MICROS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_VALUES: dict[str, tuple[DataType, st.SearchStrategy]] = {
    "boolean": (DataType("BOOLEAN"), st.booleans()),
    "tinyint": (DataType("TINYINT"), st.integers(-128, 127)),
    "bigint": (DataType("BIGINT"), st.integers(-(2**63), 2**63 - 1)),
    "float": (DataType("FLOAT"), st.floats(width=32, allow_nan=False)),
    "double": (DataType("DOUBLE"), st.floats(allow_nan=False)),
    "decimal": (DataType("DECIMAL", (38, 9)), st.decimals(-(10**28), 10**28, places=9)),
    "string": (DataType("STRING"), _TEXTS),
    "binary": (DataType("BINARY"), st.binary()),
    "date": (DataType("DATE"), st.dates()),
    "time": (DataType("TIME"), st.times()),
    "timestamp": (DataType("TIMESTAMP"), _MICROS.map(lambda t: t.replace(tzinfo=UTC))),
    "timestamp_ntz": (DataType("TIMESTAMP_NTZ"), _MICROS),
    "array": (DataType("ARRAY", (DataType("INT"),)), st.lists(st.none() | st.integers(-9, 9))),
    "map": (
        DataType("MAP", (DataType("DATE"), DataType("STRING"))),
        st.dictionaries(st.dates(), st.none() | _TEXTS).map(lambda d: list(d.items())),
    ),
    "struct": (_STRUCT, st.fixed_dictionaries({"a": st.integers(-9, 9), "two words": st.none() | _TEXTS})),
}


@pytest.mark.parametrize("name", _VALUES)
@given(data=st.data())
def test_what_is_written_is_read_again(name, data):
    kind, values = _VALUES[name]
    value = data.draw(values)
    assert from_field(to_field(value, kind), "c", kind, "Asia/Tokyo") == value
    document = to_json(value, kind)
    json.loads(document, parse_constant=lambda word: pytest.fail(word))
    assert read_text(document, "c", kind, "Asia/Tokyo") == value
    assert pa.array([value], kind.to_arrow()).to_pylist() == [value]


def test_not_a_number_is_written_as_text():
    kind = parse_type("DOUBLE")
    assert to_json(math.nan, kind) == '"NaN"'
    actual = read_text('"NaN"', "c", kind, "UTC")
    assert isinstance(actual, float) and math.isnan(actual)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (" 12 ", "INT", 12),
        ("12.345", "DECIMAL(10, 2)", Decimal("12.35")),
        ("1e3", "DECIMAL(10, 2)", Decimal("1000.00")),
        ("yes", "BOOLEAN", True),
        ("0", "BOOLEAN", False),
        ("0.1", "FLOAT", 0.10000000149011612),
        ("2024-01-31", "DATE", date(2024, 1, 31)),
        ("12:30", "TIME", time(12, 30)),
        ("2024-01-31 12:30:00.5", "TIMESTAMP", datetime(2024, 1, 31, 3, 30, 0, 500_000, UTC)),
        ("2024-01-31T12:30:00+02:00", "TIMESTAMP", datetime(2024, 1, 31, 10, 30, tzinfo=UTC)),
        ("1706704200500", "TIMESTAMP", datetime(2024, 1, 31, 12, 30, 0, 500_000, UTC)),
        ("2024-01-31T12:30:00", "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 30)),
    ],
)
def test_texts_are_cast(text, kind, value):
    assert from_text(text, parse_type(kind), ZoneInfo("Asia/Tokyo")) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "INT"), ("1.5", "INT"), ("1_0", "INT"), ("128", "TINYINT"), ("9" * 5000, "BIGINT"), ("1_0", "DOUBLE"),
        ("123.4", "DECIMAL(4, 2)"), ("1e999999999", "DECIMAL(4, 2)"), ("maybe", "BOOLEAN"), ("20240131", "DATE"),
        ("2024-02-30", "DATE"), ("12:30Z", "TIME"), ("now", "TIMESTAMP"), ("9" * 30, "TIMESTAMP"),
        ("2024-01-31T12:30:00Z", "TIMESTAMP_NTZ"), ("a b", "BINARY"), ("1e999", "FLOAT"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_value_is_named(text, kind):
    if (text, kind) == ("1e999", "FLOAT"):  # too large for the type is infinity, as when Spark casts
        assert from_text(text, parse_type(kind), UTC) == math.inf
        return
    with pytest.raises(ValueError, match=f"is no {parse_type(kind)}".replace("(", r"\(").replace(")", r"\)")):
        from_text(text, parse_type(kind), UTC)


def test_long_texts_are_cut_in_messages():
    with pytest.raises(ValueError) as error:
        from_text("x" * 1000, parse_type("INT"), UTC)
    assert str(error.value) == f'"{"x" * 60}…" is no INT'


@pytest.mark.parametrize(
    ("document", "kind", "value"),
    [
        ("1.0", "INT", 1),
        ("1.10", "STRING", "1.10"),
        ("1e2", "STRING", "1e2"),
        ("12345678901234567890.12", "STRING", "12345678901234567890.12"),
        ('{"a": [1.10, "x"]}', "STRING", '{"a": [1.10, "x"]}'),
        ('[1.10, {"b": 2}, "x"]', "ARRAY<STRING>", ["1.10", '{"b": 2}', "x"]),
        ('{"a": 1.10}', "MAP<STRING, STRING>", [("a", "1.10")]),
        ('{"2024-01-31": 1.5}', "MAP<DATE, INT>", [(date(2024, 1, 31), 1)]),
        ('"\\ud800"', "STRING", "?"),
        ("1.9", "INT", 1),
        ("1", "BOOLEAN", False),
        ('"yes"', "BOOLEAN", False),
        ('["True", 1]', "ARRAY<BOOLEAN>", [True, False]),
        ("'x'", "STRING", "x"),
        ('"2040-07-01 12:00:00"', "TIMESTAMP", datetime(2040, 7, 1, 10, tzinfo=UTC)),
        ("0.1", "DECIMAL(38, 20)", Decimal("0.10000000000000000000")),
        ('"12.50"', "DECIMAL(10, 2)", Decimal("12.50")),
        ("1706704200500", "TIMESTAMP", datetime(2024, 1, 31, 12, 30, 0, 500_000, UTC)),
        ('"1706704200500"', "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 30, 0, 500_000)),
        ('[{"at": -1}]', "ARRAY<STRUCT<at: TIMESTAMP_NTZ>>", [{"at": datetime(1969, 12, 31, 23, 59, 59, 999_000)}]),
        ('{"a": 1, "b": 2}', "STRUCT<a: INT, c: STRING>", {"a": 1, "c": None}),
        ('[{"a": 1}, null]', "ARRAY<STRUCT<a: BIGINT>>", [{"a": 1}, None]),
        ("null", "INT", None),
    ],
)
def test_json_becomes_values(document, kind, value):
    assert read_text(document, "c", parse_type(kind), "Europe/Berlin") == value


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ("1.5", "TINYINT"), ("1e999999999", "BIGINT"), ("true", "INT"), ("{}", "ARRAY<INT>"),
        ("[]", "STRUCT<a: INT>"), ("1", "DATE"), ("1", "BINARY"), ("1706704200.5", "TIMESTAMP"), ("1e30", "TIMESTAMP"),
        ('"x"', "ARRAY<INT>"), ("NaN", "INT"), ("Infinity", "BIGINT"), ('"12024-01-31"', "DATE"),
        ('{"x": 1}', "MAP<DATE, INT>"),
    ],
)  # fmt: skip
def test_json_of_another_type_is_named(document, kind):
    with pytest.raises(Misfit, match=f'column "c" of type {re.escape(str(parse_type(kind)))} is '):
        read_text(document, "c", parse_type(kind), "UTC")


_PARTS = st.recursive(
    st.none() | st.booleans() | st.integers(-300, 300) | st.integers() | st.floats() | _TEXTS
    | st.sampled_from(["true", "1.5", " 7 ", "NaN", "2024-01-31", "2024-10-27 02:30:00", "2024-01-31T12:00:00Z", "-1"])
    | st.dates().map(str) | st.datetimes().map(lambda at: f"{at.isoformat()}Z")
    | st.integers(-(10**12), 10**12).map(lambda n: n / 1000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "two words", "1"]), inner),
    max_leaves=6,
)  # fmt: skip
_KINDS = st.sampled_from([kind for kind, _ in _VALUES.values()] + [parse_type("MAP<STRING, ARRAY<DOUBLE>>")])


@settings(max_examples=depth(150, 3000))
@given(st.lists(_PARTS, min_size=1, max_size=3), _KINDS)
def test_values_are_the_same_whichever_parser_reads_them(parts, kind):
    def read(exactly: bool) -> object:
        document = JsonDocument(json.dumps([{"v": part} for part in parts]))
        if exactly:
            document.document, document.is_plain = document.exact, False
        try:
            values = document.rows(parse_path("$")).column(parse_path("$.v"), "v", kind, "Europe/Berlin")
            return pa.array(values, kind.to_arrow()).to_pylist()
        except Misfit as misfit:
            return (misfit.node, str(misfit))

    assert repr(read(False)) == repr(read(True))


def test_types_without_texts_are_known():
    assert has_json(parse_type("MAP<STRING, ARRAY<STRUCT<a: TIMESTAMP>>>"))
    for kind in ("VARIANT", "INTERVAL DAY TO SECOND", "MAP<ARRAY<INT>, INT>", "ARRAY<VARIANT>"):
        assert not has_json(parse_type(kind))


def test_rows_are_objects():
    kinds = {"a b": DataType("DECIMAL", (4, 2)), "t": DataType("STRING")}
    assert json_object({"a b": Decimal("1.50"), "t": 'é"'}, kinds) == '{"a b":1.50,"t":"é\\""}'


def test_documents_nested_too_deeply_are_refused():
    with pytest.raises(ValueError):
        JsonDocument("[" * 1_000_000)


# --- paths ----------------------------------------------------------------------------------------------------

_DOCUMENT = {"a": {"b": [{"c": 1}, {"c": 2}, {}]}, "two words": 3, "n": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", _DOCUMENT),
        ("$.a.b[0].c", 1),
        ("$.a.b[-2].c", 2),
        ("$.a.b[7].c", None),
        ("$.a.b[*].c", [1, 2]),
        ("$.a.*", [[{"c": 1}, {"c": 2}, {}]]),
        ("$['two words']", 3),
        ("$.n.x", None),
        ("$.a[0]", None),
    ],
)
def test_paths_lead_into_documents(path, value):
    assert parse_path(path).value(_DOCUMENT) == value


@pytest.mark.parametrize("path", ["", "a.b", "$a", "$.", "$..a", "$.a[", "$.a[x]", "$.a b", "$[?(@.a)]"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError):
        parse_path(path)


# --- templates ------------------------------------------------------------------------------------------------


def test_templates_are_filled():
    template = parse_template("t{{{a b}}}:{c}{a b}-${SECRET}")
    assert template.names == ("a b", "c")
    assert template.filled({"a b": "1", "c": "{x}"}) == "t{1}:{x}1-${SECRET}"
    assert template.start == "t{"
    assert template.resolved(lambda text: text.replace("${SECRET}", "{a b}")).names == ("a b", "c")


@given(_TEXTS, st.integers())
def test_json_templates_stay_json(text, number):
    template = parse_json_template('{"a": {"b": [{n}]}, "q": "\\"x{t}{n}", "t": {t}, "k": "${SECRET}", "e": {}}')
    assert template.names == ("n", "t")
    document = json.loads(template.filled_json({"t": json.dumps(text), "n": str(number)}))
    secret = "${SECRET}"
    assert document == {"a": {"b": [number]}, "q": f'"x{text}{number}', "t": text, "k": secret, "e": {}}


def test_numbers_too_large_for_a_type_do_not_fit():
    with pytest.raises(ValueError, match='"1000" is no TINYINT'):
        from_text("1000", parse_type("TINYINT"), UTC)
    assert to_text(Decimal("1E+3"), parse_type("DECIMAL(10, 0)")) == "1000"
