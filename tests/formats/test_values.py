"""Values in texts: what the page of formats says, the short cut beside the exact rule, and both beside Python."""

from __future__ import annotations

import pickle
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.values import text_rule
from sqlstream.types import parse_type
from tests.depth import depth

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| ([A-Z_ ()0-9,]+) \| `([^`]*)` \| (?:`([^`]*)`|a fault) \|$", PAGE, re.MULTILINE)
KINDS = sorted({kind for kind, _, _ in EXAMPLES})
ZONE = "Europe/Berlin"


def shown(values: pa.Array) -> list[str | None]:
    if pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_decimal(values.type):
        return [None if v is None else format(v, "f") for v in values.to_pylist()]
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_formats_is_true(kind: str) -> None:
    examples = [(t.replace("␣", " "), v.replace("␣", " ") or None) for k, t, v in EXAMPLES if k == kind]
    rule = text_rule(parse_type(kind), ZONE)
    texts = pa.array([text for text, _ in examples])
    for values in (rule.read(texts)[0], rule.each(texts)):
        assert values.type == parse_type(kind).to_arrow()
        assert dict(zip(texts.to_pylist(), shown(values), strict=True)) == dict(examples)
    for text, value in examples:  # alone, so that it is read as a whole column where it can be
        values, misfits = rule.read(pa.array([text]))
        assert (shown(values), misfits.tolist()) == ([value], [value is None])


def test_the_page_has_examples_of_every_type() -> None:
    assert len(EXAMPLES) > 70
    words = "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE STRING BINARY DATE TIME TIMESTAMP TIMESTAMP_NTZ"
    assert {*words.split(), "DECIMAL(5, 2)", "INTERVAL DAY TO SECOND"} == {*KINDS}


@pytest.mark.parametrize(
    ("standard", "text", "read"),
    [
        ("SQL", "2024-01-31 12:30:00.5", True),
        ("SQL", "2024-01-31 12:30:00", True),
        ("SQL", "2024-01-31T12:30:00", False),
        ("SQL", "2024-01-31 12:30", False),
        ("SQL", "2024-01-31 12:30+01:00", False),
        ("SQL", "2024-1-31 12:30:00", False),
        ("SQL", "2024-01-31", False),
        ("ISO-8601", "2024-01-31T12:30:00.5", True),
        ("ISO-8601", "2024-01-31T12:30", True),
        ("ISO-8601", "2024-01-31T12+01:00", False),
        ("ISO-8601", "2024-01-31 12:30:00", False),
        ("ISO-8601", "2024-01-31T12", False),
    ],
)
def test_a_standard_is_enforced(standard: str, text: str, read: bool) -> None:
    for kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        rule = text_rule(parse_type(kind), ZONE, standard)
        given = pa.array([text, None])
        (value, _), misfits = rule.read(given)
        assert (value.is_valid, misfits.tolist()) == (read, [not read, False])
        assert rule.each(given)[0] == value


@pytest.mark.parametrize("kind", [*KINDS, "VOID"])
def test_nulls_pieces_and_other_kinds_of_columns_are_read(kind: str) -> None:
    rule = pickle.loads(pickle.dumps(text_rule(parse_type(kind), ZONE)))
    good = next((text.replace("␣", " ") for k, text, value in EXAMPLES if k == kind and value), "x")
    texts = pa.array([None, *[good] * 300, "#", *[good] * 300, None])
    values, misfits = rule.read(texts)
    assert values.to_pylist() == rule.each(texts).to_pylist()
    odd = 0 if kind in ("VOID", "STRING", "BOOLEAN") else 1
    assert (misfits.nonzero()[0].tolist(), len(values)) == ([301] * odd, len(texts))
    assert rule.read(pa.chunked_array([texts.slice(0, 7), texts.slice(7)]))[0].equals(values)
    assert rule.read(texts.cast(pa.large_string()))[0].equals(values)
    assert rule.read(texts.slice(299, 4))[0].to_pylist() == values.slice(299, 4).to_pylist()
    for empty in (texts.slice(0, 0), pa.nulls(3, pa.string())):
        values, misfits = rule.read(empty)
        assert (values.null_count, misfits.any()) == (len(empty), False)


def test_nested_types_are_no_texts() -> None:
    for kind in ("ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<a: INT>", "VARIANT", "INTERVAL YEAR TO MONTH"):
        with pytest.raises(TypeError, match="no text is read as"):
            text_rule(parse_type(kind))


# --- beside Python --------------------------------------------------------------------------------------------

DIGITS = st.text("0123456789", max_size=6)
TEXTS = st.one_of(
    st.text("0123456789+-.eExX_ \tnaifNAIF(),:TZdD", max_size=12),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "-", "+"]), DIGITS, DIGITS, st.integers(-50, 50)),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), st.text("0459", max_size=40), st.text("0459", max_size=40)),
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(repr),
    st.builds(
        "{}-{:02}-{:02}{}{:02}:{:02}:{:02}{}{}".format,
        *(st.integers(0, most) for most in (40000, 13, 32)),
        st.sampled_from("T T_"),
        *(st.integers(0, most) for most in (24, 60, 60)),
        st.sampled_from(["", ".5", ".123456789", "."]),
        st.sampled_from(["", "Z", "+01:00", "-0930", " UTC", " Europe/Paris", " Europe/Nowhere", "+24"]),
    ),
    st.builds("{:02}:{:02}:{:02}".format, *(st.integers(0, most) for most in (24, 60, 60))),
    st.text(max_size=4),
)


@settings(max_examples=depth(25, 3000))
@given(st.lists(TEXTS | st.none(), max_size=8))
def test_the_short_cut_reads_what_the_rule_says(texts: list[str | None]) -> None:
    for kind in KINDS:
        rule = text_rule(parse_type(kind), ZONE)
        column = pa.array(texts, pa.string())
        values, misfits = rule.read(column)
        alone = [rule.read(column.slice(i, 1))[0].to_pylist() if pa.types.is_string(values.type) else
                 rule.read(column.slice(i, 1))[0] for i in range(len(texts))]  # fmt: skip
        exact = rule.each(column)
        assert str(exact) == str(values), kind
        if not pa.types.is_string(values.type):
            assert str(pa.concat_arrays([exact.slice(0, 0), *alone])) == str(exact), kind
        expected = [text is not None and not value.is_valid for text, value in zip(texts, exact, strict=True)]
        assert misfits.tolist() == expected


BIGGEST = Context(prec=500, Emax=10**6, Emin=-(10**6))


@settings(max_examples=depth(100, 5000))
@given(TEXTS, st.sampled_from([(5, 2), (38, 0), (38, 38), (1, 1), (20, 5), (10, 0)]))
def test_decimals_are_those_of_python(text: str, size: tuple[int, int]) -> None:
    precision, scale = size
    expected = None
    bare = text.strip("".join(map(chr, range(33))))
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", bare):
        number = BIGGEST.create_decimal(bare)
        if number.adjusted() < 100:
            rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, BIGGEST)
            expected = rounded if abs(rounded) < Decimal(10) ** (precision - scale) else None
    (value,) = text_rule(parse_type(f"DECIMAL({precision}, {scale})")).read(pa.array([text]))[0].to_pylist()
    assert value == expected


@settings(max_examples=depth(100, 5000))
@given(TEXTS)
def test_numbers_are_those_of_python(text: str) -> None:
    bare = text.strip("".join(map(chr, range(33))))
    for kind, bits in (("TINYINT", 8), ("BIGINT", 64)):
        whole = int(bare) if re.fullmatch(r"[+-]?[0-9]+", bare) else None
        expected = whole if whole is not None and -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1) else None
        assert text_rule(parse_type(kind)).read(pa.array([text]))[0].to_pylist() == [expected]
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", bare):
        assert text_rule(parse_type("DOUBLE")).read(pa.array([text]))[0].to_pylist() == [float(bare)]


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
AROUND_CHANGES = st.sampled_from([datetime(2024, m, d) for m, d in ((3, 10), (3, 31), (10, 27), (11, 3))]).flatmap(
    lambda day: st.integers(0, 8 * 60).map(lambda minutes: day + timedelta(minutes=minutes))
)


@settings(max_examples=depth(60, 5000))
@given(st.lists(MOMENTS | AROUND_CHANGES), st.sampled_from([ZONE, "UTC", "America/New_York"]))
def test_local_times_are_the_instants_of_python(moments: list[datetime], zone: str) -> None:
    texts = [moment.isoformat(" ") for moment in moments]
    read, misfits = text_rule(parse_type("TIMESTAMP"), zone).read(pa.array(texts, pa.string()))
    assert not misfits.any()
    expected = [moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for moment in moments]
    assert read.to_pylist() == expected
    local = text_rule(parse_type("TIMESTAMP_NTZ"), zone).read(pa.array(texts, pa.string()))[0]
    assert local.to_pylist() == moments


def test_the_hours_that_a_zone_has_twice_or_not_are_those_of_java() -> None:
    start = datetime(2024, 3, 31, 0, 30)
    texts = [(start + timedelta(minutes=30 * i)).isoformat() for i in range(8)]
    read, _ = text_rule(parse_type("TIMESTAMP"), ZONE).read(pa.array(texts))
    expected = [23.5, 24, 24.5, 25, 25.5, 25, 25.5, 26]  # hours since the midnight of UTC before
    day = datetime(2024, 3, 30, tzinfo=UTC)
    assert [(value - day) / timedelta(hours=1) for value in read.to_pylist()] == expected
