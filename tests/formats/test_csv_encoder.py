"""CSV that is written is read again: the same rows, or an error that names the value."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_encoder import CsvEncoder, NotRepresentable
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Field
from sqlstream.types import parse_type
from tests.depth import depth

PIECES = [*" \t\n\r\0,;|\"'\\#-.:0aé\ufeff", "\r\n", "n/a", '""', "\\,", "\\\\"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)) | st.sampled_from(
    [datetime(2024, 10, 27, h, 30) for h in range(4)] + [datetime(2040, 7, 1), datetime(1893, 3, 31, 23, 10)]
)
FLOATS = st.floats(width=32)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "STRING": TEXTS,
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": FLOATS,
    "DOUBLE": st.floats() | FLOATS,
    "DECIMAL(20, 5)": st.decimals(-(10**15) + 1, 10**15 - 1, places=5),
    "DATE": st.dates(date(1, 1, 2)),
    "TIME": st.times(),
    "TIMESTAMP": MOMENTS.map(lambda t: t.replace(tzinfo=UTC)),
    "TIMESTAMP_NTZ": MOMENTS,
    "VOID": st.none(),
}
DIALECTS = st.builds(
    Dialect,
    st.sampled_from([",", ",", "\t", "|", "-", "."]),
    st.sampled_from(['"', '"', "'", None]),
    st.sampled_from([None, "\\"]),
    st.sampled_from([None, None, "n/a", "0", "x,y"]),
    st.booleans(),
    st.booleans(),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Field], list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from([*VALUES, "STRING", "STRING"]), min_size=1, max_size=4))
    fields = [Field(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)]
    size = draw(st.integers(0, 4))
    return fields, [draw(st.lists(st.none() | VALUES[k], min_size=size, max_size=size)) for k in kinds]


def batch(fields: list[Field], columns: list[list[Any]]) -> pa.RecordBatch:
    arrays = [pa.array(v, f.type.to_arrow()) for f, v in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [f.name for f in fields])


refused: list[bool] = []


@settings(max_examples=depth(120, 6_000), deadline=None)
@given(tables(), DIALECTS, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))
def test_what_is_written_is_read_again(table: Any, dialect: Dialect, zone: str) -> None:
    fields, columns = table
    rows = batch(fields, columns)
    try:
        encoder = CsvEncoder(fields, dialect, zone)
        data, messages = encoder.block(rows), encoder.messages(rows)
    except NotRepresentable as error:
        refused.append(True)
        assert error.column is None or error.column in rows.schema.names
        return
    refused.append(False)
    decoder = CsvDecoder(fields, dialect, zone)
    for decoded in (decoder.block(data), decoder.messages(messages)):
        assert (decoded.faults, decoded.records) == ([], rows.num_rows)
        assert str(decoded.rows.to_pylist()) == str(rows.to_pylist())


def test_most_tables_are_held() -> None:
    assert not refused or sum(refused) < len(refused) * 0.8


@pytest.mark.parametrize(
    ("kinds", "row", "options", "text"),
    [
        ("INT STRING", (1, "x, y"), {}, '1,"x, y"\n'),
        ("INT STRING", (1, None), {}, "1,\n"),
        ("STRING STRING", ("", None), {}, '"",\n'),
        ("INT STRING", (1, None), {"null": "n/a"}, "1,n/a\n"),
        ("INT STRING", (1, "a'b"), {"quote": "'"}, "1,'a''b'\n"),
        ("INT STRING", (1, 'a"b\\'), {"escape": "\\"}, '1,"a\\"b\\\\"\n'),
        ("INT STRING", (1, "a,b"), {"escape": "\\", "quote": None}, "1,a\\,b\n"),
        ("STRING INT", ("#a", 1), {"comments": True}, '"#a",1\n'),
        ("INT STRING", (1, "a\r\nb"), {"multi_line": True}, '1,"a\r\nb"\n'),
        ("DOUBLE FLOAT", (float("nan"), float("-inf")), {}, "NaN,-Infinity\n"),
        ("DATE TIME", (date(2024, 1, 31), time(12, 30)), {}, "2024-01-31,12:30:00.000000\n"),
        ("DATE TIME", (date(2024, 1, 31), None), {"delimiter": "-"}, '"2024-01-31"-\n'),
        ("TIMESTAMP", (datetime(2024, 10, 27, 0, 30, tzinfo=UTC),), {}, "2024-10-27 02:30:00.000000\n"),
        ("TIMESTAMP", (datetime(2024, 10, 27, 1, 30, tzinfo=UTC),), {}, "2024-10-27 01:30:00.000000Z\n"),
    ],
)
def test_rows_are_written(kinds: str, row: tuple[Any, ...], options: dict[str, Any], text: str) -> None:
    fields = [Field(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds.split())]
    encoder = CsvEncoder(fields, Dialect(**options), "Europe/Berlin")
    assert encoder.block(batch(fields, [[value] for value in row])).to_pybytes().decode() == text


@pytest.mark.parametrize(
    ("kinds", "row", "options", "reason"),
    [
        ("INT STRING", (1, "a\nb"), {}, 'a value of column "c1", "a\\nb", has a line break'),
        ("INT STRING", (1, "a\rb"), {"quote": None, "escape": "\\", "multi_line": True}, "has a line break"),
        ("INT STRING", (1, "n/a"), {"null": "n/a"}, "is the text that stands for NULL"),
        ("INT STRING", (0, "a"), {"null": "0"}, 'a value of column "c0", "0", is the text that stands for NULL'),
        ("INT STRING", (1, "a,b"), {"quote": None}, "has a delimiter, and no quotes are allowed"),
        ("INT STRING", (1, ""), {"quote": None}, "is empty, which without quotes is NULL"),
        ("STRING", ("#a",), {"quote": None, "comments": True}, "makes a line that is skipped"),
        ("STRING", (" ",), {"quote": None}, "makes a line that is skipped"),
        ("STRING", (None,), {}, 'a value of column "c0", NULL, makes a line without content'),
        ("STRING", ("a",), {"null": "x\ny"}, 'the text that stands for NULL, "x\\ny", has a line break'),
        ("STRING", ("a",), {"null": "x,y", "quote": None}, "the text that stands for NULL, .* has a delimiter"),
    ],
)
def test_what_would_not_come_back_is_refused(kinds: str, row: Any, options: dict[str, Any], reason: str) -> None:
    fields = [Field(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds.split())]
    with pytest.raises(NotRepresentable, match=reason.replace("\\", "\\\\")):
        CsvEncoder(fields, Dialect(**options)).block(batch(fields, [[value] for value in row]))


def test_nested_columns_are_refused() -> None:
    for kind in ("ARRAY<INT>", "STRUCT<a: INT>", "BINARY", "VARIANT"):
        with pytest.raises(TypeError, match='cannot hold column "c"'):
            CsvEncoder([Field("c", parse_type(kind))])
