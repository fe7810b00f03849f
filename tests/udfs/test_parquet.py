"""Places of Parquet files become the rows that they stand for."""

from __future__ import annotations

import os
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.udfs.event_times import EARLIEST, LATEST
from sqlstream.udfs.exchange import CLOCK, PARTS
from sqlstream.udfs.files.listed import type_name
from sqlstream.udfs.files.parquet import ParquetRows
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES, FromFile
from sqlstream.udfs.kernel import KEY_HASH

INSTANT = pa.timestamp("us", "UTC")


def places(*paths, share=0, shares=1, **constants):
    values = {SHARE: share, SHARES: shares, **constants}
    rows = [{FILE: path.as_uri(), LENGTH: path.stat().st_size, MODIFIED: 0, **values} for path in paths]
    return pa.RecordBatch.from_pylist(rows)


def read(reader, *batches):
    return pa.Table.from_batches(list(reader.rows(batches)), reader.schema)


def reader_of(kinds, **columns):
    return ParquetRows(pa.schema(kinds), columns)


@pytest.fixture
def written(tmp_path):
    def write(table, name="a b.parquet", **options):
        path = tmp_path / name
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **options)
        return path

    return write


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 1_000)), min_size=1, max_size=4), st.integers(1, 5))
def test_every_row_is_in_one_share_whatever_the_row_groups(written, files, shares):
    ends = np.cumsum([rows for rows, _ in files])
    paths = [
        written({"v": range(end - rows, end)}, f"{number}.parquet", row_group_size=group)
        for number, (end, (rows, group)) in enumerate(zip(ends, files, strict=True))
    ]
    reader = reader_of({"v": pa.int64(), PARTS[2]: pa.int64()}, v=FromFile("v", pa.int64()))
    collected = [read(reader, places(*reversed(paths), share=share, shares=shares)) for share in range(shares)]
    assert [v for of_share in collected for v in of_share.column("v").to_pylist()] == [*range(ends[-1])]
    first = pa.concat_tables(collected)
    alone = read(reader, *(places(*paths, share=share, shares=shares) for share in range(shares)))
    assert alone == first  # one task may get all shares
    for end, (rows, _) in zip(ends, files, strict=True):  # the starts of parts tell their order in the file
        starts = first.slice(end - rows, rows).column(PARTS[2]).to_pylist()
        assert starts == sorted(starts)
        assert all(start <= place for place, start in enumerate(starts))


@pytest.mark.parametrize("group", [1_000, 70_000, 1_000_000])
def test_shares_of_a_file_are_even_whatever_its_row_groups(written, group):
    path = written({"v": range(400_000)}, row_group_size=group)
    reader = reader_of({"v": pa.int64()}, v=FromFile("v", pa.int64()))
    collected = [read(reader, places(path, share=i, shares=4)).num_rows for i in range(4)]
    assert sum(collected) == 400_000
    assert max(collected) - min(collected) <= 1


def test_rows_come_with_what_is_known_of_their_place_and_file(written):
    path = written({"v": range(10)}, row_group_size=2)
    os.utime(path, ns=(0, 1_234_567_890))
    kinds = {"v": pa.int64(), CLOCK: pa.int64(), KEY_HASH: pa.int64(), PARTS[0]: pa.int64(), PARTS[1]: pa.string(),
             PARTS[2]: pa.int64()}  # fmt: skip
    reader = reader_of(kinds, v=FromFile("v", pa.int64()))
    rows_read = read(reader, places(path, share=1, shares=2, **{CLOCK: 7, PARTS[1]: "name"}))
    first = rows_read.column("v")[0].as_py()
    assert 0 < first < 9
    assert rows_read.to_pylist() == [
        dict(zip(kinds, (v, 7, 0, 1_234_000, "name", first), strict=True)) for v in range(first, 10)
    ]


@pytest.mark.parametrize(
    ("in_file", "kind", "values"),
    [
        (pa.array([1, None], pa.int8()), pa.int64(), [1, None]),
        (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
        (pa.array([3], pa.int32()), pa.float64(), [3.0]),
        (pa.array(["x"], pa.large_string()), pa.string(), ["x"]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), pa.string(), ["x", "y", "x"]),
        (pa.array([b"x"]), pa.string(), ["x"]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.decimal128(9, 2), [Decimal("1.50")]),
        (pa.nulls(1), pa.string(), [None]),
    ],
)
def test_values_become_those_of_the_type_of_the_table(written, in_file, kind, values):
    reader = reader_of({"v": kind}, v=FromFile("v", kind))
    assert read(reader, places(written({"v": in_file}))).column("v").to_pylist() == values


@pytest.mark.parametrize(
    "kind", [INSTANT, pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("us", "Asia/Tokyo")]
)
@pytest.mark.parametrize("int96", [False, True])
def test_times_are_microseconds_whatever_their_unit(written, kind, int96):
    path = written({"at": pa.array([1_700_000_000_123_000, -1_000], pa.int64()).cast(pa.timestamp("us")).cast(kind)},
                   use_deprecated_int96_timestamps=int96)  # fmt: skip
    reader = reader_of(
        {"t": pa.int64(), "at": INSTANT}, t=FromFile("at", INSTANT, micros=True), at=FromFile("at", INSTANT)
    )
    rows_read = read(reader, places(path))
    instants = pq.read_table(path).column("at").cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    assert rows_read.column("t").to_pylist() == instants.to_pylist()
    assert rows_read.column("at").cast(pa.int64()).to_pylist() == instants.to_pylist()


@pytest.mark.parametrize(
    ("in_file", "kind"),
    [(pa.int64(), pa.int32()), (pa.int64(), pa.float64()), (pa.string(), pa.int64()), (pa.float64(), pa.int64()),
     (pa.int64(), INSTANT), (pa.decimal128(9, 2), pa.int64()), (pa.date32(), INSTANT)],
)  # fmt: skip
def test_a_column_of_another_type_is_an_error_with_the_file(written, in_file, kind):
    path = written({"V": pa.array([None], in_file)})
    reader = reader_of({"v": kind}, v=FromFile("v", kind))
    message = f'SS467: column "v" is {type_name(in_file)} in file "{path}", not {type_name(kind)}'
    with pytest.raises(ExecutionError, match=re.escape(message)):
        read(reader, places(path))


def test_a_value_that_the_type_does_not_have_is_an_error(written):
    reader = reader_of({"v": pa.string()}, v=FromFile("v", pa.string()))
    with pytest.raises(
        ExecutionError, match=r'SS402: column "v" of type STRING is ".*" in row 1 of file ".*a b.parquet"'
    ):
        read(reader, places(written({"v": [b"\xff"]})))


def test_columns_are_found_in_any_case_and_are_null_where_files_may_lack_them(written):
    path = written({"Price": [1, 2]})
    columns = {"price": FromFile("price", pa.int64()), "new": FromFile("new", pa.string())}
    reader = ParquetRows(pa.schema({"price": pa.int64(), "new": pa.string()}), columns, nulls=True)
    assert read(reader, places(path)).to_pylist() == [{"price": 1, "new": None}, {"price": 2, "new": None}]


def test_a_column_that_a_file_lacks_is_an_error_with_the_file(written):
    path = written({"Price": [1, 2], "at": [0, 0]})
    reader = reader_of({"pricee": pa.int64()}, pricee=FromFile("pricee", pa.int64()))
    message = f"""SS524: file "{path}" has no column "pricee"
HINT: Columns: Price, at. With 'parquet.missing-columns' = 'null' in its WITH"""
    with pytest.raises(ConnectorError, match=re.escape(message)):
        read(reader, places(path))


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1, EARLIEST - 1, LATEST + 1])
def test_a_time_that_kernels_cannot_compute_with_is_an_error(written, time):
    path = written({"at": pa.array([0, time, None], pa.int64()).cast(pa.timestamp("us", "UTC"))})
    column = FromFile("at", INSTANT, micros=True, event_time='event time "at" of table "t"')
    rows = reader_of({"t": pa.int64()}, t=column)
    with pytest.raises(ExecutionError, match="SS401"):
        read(rows, places(path))
    path = written({"at": pa.array([0, time], pa.int64()).cast(pa.timestamp("us", "UTC"))})
    message = (
        f'SS430: event time "at" of table "t" is {time} microseconds after 1970, outside of the years -30000 to 29999'
    )
    with pytest.raises(ExecutionError, match=re.escape(message)):
        read(rows, places(path))


def test_a_time_that_is_null_is_an_error_where_it_is_required(written):
    path = written({"at": pa.array([0, None], INSTANT)})
    column = FromFile("at", INSTANT, micros=True, event_time='event time "at" of table "t"')
    with pytest.raises(ExecutionError, match='SS401: event time "at" of table "t" is NULL'):
        read(reader_of({"t": pa.int64()}, t=column), places(path))
