"""Rows of Parquet, ORC and Arrow files with values that their columns do not have, where the table tolerates them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats.decoder import Field
from sqlstream.types import parse_type
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.files.columnar import ColumnarFiles
from sqlstream.udfs.files.columnar_records import ColumnarFormat
from sqlstream.udfs.files.records import RecordRows
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES
from sqlstream.udfs.messages import BAD_TYPE

WRITERS = {"parquet": pq.write_table, "orc": orc.write_table, "arrow": feather.write_feather}
FORMATS = pytest.mark.parametrize("form", [*WRITERS])
PRICES = pa.array([Decimal("1.10"), Decimal("12345.00"), None, Decimal("2.00"), Decimal("-99999.99")])
NAMES = pa.array([b"a", b"b", b"c", b"\xff!", b"\xc3"])
ROWS = pa.table({
    "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
    "Price": PRICES,
    "all": pa.array([[p] for p in PRICES.to_pylist()], pa.list_(PRICES.type)),
    "name": NAMES,
})  # fmt: skip


def written(form: str, folder: Path, rows: pa.Table = ROWS) -> Path:
    path = folder / f"t.{form}"
    WRITERS[form](rows, str(path))
    return path


def format_of(form: str, wanted: str, *others: str, nulls: bool = False) -> ColumnarFormat:
    columns = ((*text.partition(" ")[::2], text not in others) for text in (*wanted.split("; "), *others))
    return ColumnarFormat(form, tuple(Field(n, parse_type(k), is_wanted) for n, k, is_wanted in columns), nulls)


def read(form: ColumnarFormat, path: Path, shares: int = 1) -> list[dict[str, Any]]:
    reader = RecordRows(form.schema.append(pa.field(BAD, BAD_TYPE)), {}, form)
    file = {FILE: path.as_uri(), LENGTH: path.stat().st_size, MODIFIED: 0, SHARES: shares}
    places = (pa.RecordBatch.from_pylist([file | {SHARE: share}]) for share in range(shares))
    return [row for place in places for batch in reader.rows([place]) for row in batch.to_pylist()]


@FORMATS
@pytest.mark.parametrize("shares", [1, 3])
def test_a_value_that_its_column_lacks_makes_the_row_a_bad_one(form: str, shares: int, tmp_path: Path) -> None:
    path = written(form, tmp_path)
    rows = read(format_of(form, "id BIGINT; price DECIMAL(5, 2); name STRING"), path, shares)
    assert [(row["id"], row["price"]) for row in rows] == [
        (1, Decimal("1.10")), (None, None), (3, None), (None, None), (None, None)
    ]  # fmt: skip
    bad = [row[BAD] for row in rows if row[BAD] is not None]
    assert [(b["error"], b["place"]) for b in bad] == [
        ('SS402: column "price" of type DECIMAL(5, 2) is 12345.00', f"{path}: row 2"),
        ('SS402: column "name" of type STRING is "\ufffd!"', f"{path}: row 4"),
        (
            'SS402: column "price" of type DECIMAL(5, 2) is -99999.99, column "name" of type STRING is "\ufffd"',
            f"{path}: row 5",
        ),
    ]
    assert json.loads(bad[0]["record"])["id"] == 2


@FORMATS
def test_values_within_others_and_columns_that_are_not_read_count_too(form: str, tmp_path: Path) -> None:
    path = written(form, tmp_path)
    within = read(format_of(form, "id BIGINT; all ARRAY<DECIMAL(5, 2)>"), path)
    assert [row["id"] for row in within] == [1, None, 3, 4, None]
    assert within[1][BAD]["error"] == "SS402: column \"all\" of type ARRAY<DECIMAL(5, 2)> is [Decimal('12345.00')]"
    unread = read(format_of(form, "id BIGINT", "name STRING"), path)
    assert [row["id"] for row in unread] == [1, 2, 3, None, None]
    # A column of another type is no matter of rows: it counts where it is read.
    assert len(read(format_of(form, "id BIGINT", "name DATE"), path)) == 5
    with pytest.raises(ExecutionError, match=r'SS467: column "name" is BINARY in file ".*", not DATE'):
        read(format_of(form, "id BIGINT; name DATE"), path)
    with pytest.raises(ConnectorError, match=r'SS524: file ".*" has no column "more"'):
        read(format_of(form, "id BIGINT; more DATE"), path)
    assert read(format_of(form, "id BIGINT; more DATE", nulls=True), path)[0]["more"] is None


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_views_of_texts_beside_a_bad_value(form: str, tmp_path: Path) -> None:
    rows = pa.table({"price": PRICES, "name": pa.array(["a", "b", None, "c", "d"], pa.string_view())})
    there = read(format_of(form, "price DECIMAL(5, 2); name STRING"), written(form, tmp_path, rows))
    assert [row["name"] for row in there if row[BAD] is None] == ["a", None, "c"]
    assert [row[BAD]["error"] for row in there if row[BAD] is not None] == [
        f'SS402: column "price" of type DECIMAL(5, 2) is {value}' for value in ("12345.00", "-99999.99")
    ]


def test_parquet_is_read_in_shares_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    names = [b"\xff" if n % 100 == 7 else b"x" for n in range(1_000)]
    pq.write_table(pa.table({"id": range(1_000), "name": names}), path, row_group_size=130)
    form = format_of("parquet", "id BIGINT; name STRING")
    for shares in (1, 2, 7):
        rows = read(form, path, shares)
        assert [row["id"] for row in rows] == [None if n % 100 == 7 else n for n in range(1_000)]
        assert [r[BAD]["place"] for r in rows if r[BAD]] == [f"{path}: row {n}" for n in range(8, 1_000, 100)]


@FORMATS
def test_good_rows_have_their_place_for_what_is_checked_later(form: str, tmp_path: Path) -> None:
    path = written(form, tmp_path)
    rows = read(replace(format_of(form, "id BIGINT; name STRING"), keeps_records=True), path)
    assert [(row["id"], row[BAD]["place"]) for row in rows] == [
        (number if number < 4 else None, f"{path}: row {number}") for number in range(1, 6)
    ]
    assert rows[0][BAD] == {"record": None, "error": None, "place": f"{path}: row 1"}


TEXTS = pa.array([b"a", b"\xff", None]).view(pa.string())
HOURS = pa.array([86_400_000_000, 1, None]).view(pa.time64("us"))
OF_NO_TYPE: dict[str, tuple[pa.Array, list[int], str]] = {
    "TIME": (HOURS, [1], "86400000000"),
    "ARRAY<STRING>": (pa.ListArray.from_arrays([0, 1, 2, 3], TEXTS), [2], '["\ufffd"]'),
    "ARRAY<TIME>": (pa.LargeListArray.from_arrays([0, 1, 2, 3], HOURS), [1], "[86400000000]"),
    "MAP<STRING, STRING>": (pa.MapArray.from_arrays([0, 1, 2, 2], ["k", "l"], TEXTS[:2]), [2], '[["l","\ufffd"]]'),
    "STRUCT<s: STRING, t: TIME>": (
        pa.StructArray.from_arrays([TEXTS, HOURS], ["s", "t"]),
        [1, 2],
        '{"s":"a","t":86400000000}',
    ),
    "STRING": (TEXTS.dictionary_encode(), [2], '"\ufffd"'),
    " STRING ": (pa.array([b"a", b"\xff", None], pa.binary_view()).view(pa.string_view()), [2], '"\ufffd"'),
}
"""Types, values of which Arrow and Python refuse some, the numbers of these rows, and the first one as JSON."""


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", [*OF_NO_TYPE])
def test_values_that_arrow_refuses_are_bad_and_stand_in_the_record(form: str, kind: str, tmp_path: Path) -> None:
    values, wrong, shown = OF_NO_TYPE[kind]
    path = written(form, tmp_path, pa.table({"v": values}))
    rows = read(format_of(form, f"v {kind.strip()}"), path)
    bad = [row[BAD] for row in rows if row[BAD] is not None]
    assert (len(rows), [b["place"] for b in bad]) == (3, [f"{path}: row {n}" for n in wrong])
    assert bad[0]["record"].decode() == f'{{"v":{shown}}}'
    whole = ColumnarFiles(form, (("v", parse_type(kind.strip())),))
    with pytest.raises(ExecutionError, match=rf'SS402: column "v" of type .* in row {wrong[0]} of file'):
        list(whole.batches(str(path)))


def test_a_timestamp_of_orc_is_called_what_it_is_read_as(tmp_path: Path) -> None:
    path = written("orc", tmp_path, pa.table({"v": pa.array([0], pa.timestamp("us"))}))
    with pytest.raises(ExecutionError, match=r'SS467: column "v" is TIMESTAMP in file ".*", not TIMESTAMP_NTZ'):
        list(ColumnarFiles("orc", (("v", parse_type("TIMESTAMP_NTZ")),)).batches(str(path)))


@FORMATS
def test_a_record_has_its_values_in_the_order_of_the_file_whatever_is_read(form: str, tmp_path: Path) -> None:
    path = written(form, tmp_path, ROWS.select(["id", "name"]).slice(3, 1))
    (bad,) = (row[BAD] for row in read(format_of(form, "id BIGINT", "name STRING"), path))
    assert bad["record"].decode() == '{"id":4,"name":"\ufffd!"}'
