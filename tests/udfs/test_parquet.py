"""Places of Parquet files become the rows that they stand for."""

from __future__ import annotations

import os
import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.udfs.exchange import CLOCK, PARTS
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.parquet import FILE, FIRST, ROWS_PER_PLACE, FromFile, ParquetRows

INSTANT = pa.timestamp("us", "UTC")


def places(*found, **constants):
    """Of pairs of a path and the number of a row."""
    files, first = zip(*found, strict=True)
    columns = {FILE: [path.as_uri() for path in files], FIRST: list(first)}
    columns |= {name: [value] * len(found) for name, value in constants.items()}
    return pa.RecordBatch.from_pydict(columns)


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 5 * ROWS_PER_PLACE), st.integers(700, 20_000), st.data())
def test_every_place_is_read_once_whatever_the_row_groups(written, rows, group, data):
    path = written({"v": range(rows)}, row_group_size=group)
    first = range(0, rows, ROWS_PER_PLACE)
    task_of = data.draw(st.lists(st.integers(0, 2), min_size=len(first), max_size=len(first)))
    reader = reader_of({"v": pa.int64()}, v=FromFile("v", pa.int64()))
    for task in range(3):
        mine = [start for start, chosen in zip(first, task_of, strict=True) if chosen == task]
        wanted = [v for start in mine for v in range(start, min(start + ROWS_PER_PLACE, rows))]
        found = read(reader, places(*((path, start) for start in mine))) if mine else None
        assert ([] if found is None else found.column("v").to_pylist()) == wanted


def test_rows_come_with_what_is_known_of_their_place_and_file(written):
    path = written({"v": range(ROWS_PER_PLACE + 1)})
    os.utime(path, ns=(0, 1_234_567_890))
    kinds = {"v": pa.int64(), CLOCK: pa.int64(), KEY_HASH: pa.int64(), PARTS[0]: pa.int64(), PARTS[1]: pa.string(),
             PARTS[2]: pa.int64()}  # fmt: skip
    reader = reader_of(kinds, v=FromFile("v", pa.int64()))
    last = read(reader, places((path, ROWS_PER_PLACE), **{CLOCK: 7, PARTS[1]: "name"}))
    assert last.to_pylist() == [
        dict(zip(kinds, (ROWS_PER_PLACE, 7, 0, 1_234_000, "name", ROWS_PER_PLACE), strict=True))
    ]


def test_places_of_several_files_follow_one_another(written):
    paths = [written({"v": [number]}, f"{number}.parquet") for number in range(3)]
    reader = reader_of({"v": pa.int64()}, v=FromFile("v", pa.int64()))
    assert read(reader, places(*((path, 0) for path in paths))).column("v").to_pylist() == [0, 1, 2]
    assert read(reader, places((paths[0], 0)).slice(1)).num_rows == 0


@pytest.mark.parametrize(
    ("found", "kind", "values"),
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
def test_values_become_those_of_the_type_of_the_table(written, found, kind, values):
    reader = reader_of({"v": kind}, v=FromFile("v", kind))
    assert read(reader, places((written({"v": found}), 0))).column("v").to_pylist() == values


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
    found = read(reader, places((path, 0)))
    instants = pq.read_table(path).column("at").cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    assert found.column("t").to_pylist() == instants.to_pylist()
    assert found.column("at").cast(pa.int64()).to_pylist() == instants.to_pylist()


@pytest.mark.parametrize(
    ("found", "kind"),
    [(pa.int64(), pa.int32()), (pa.int64(), pa.float64()), (pa.string(), pa.int64()), (pa.float64(), pa.int64()),
     (pa.int64(), INSTANT), (pa.decimal128(9, 2), pa.int64()), (pa.date32(), INSTANT)],
)  # fmt: skip
def test_a_column_of_another_type_is_an_error_with_the_file(written, found, kind):
    path = written({"V": pa.array([None], found)})
    reader = reader_of({"v": kind}, v=FromFile("v", kind))
    with pytest.raises(ExecutionError, match=re.escape(f'SS467: column "v" is {found} in file "{path}", not {kind}')):
        read(reader, places((path, 0)))


def test_a_value_that_the_type_does_not_have_is_an_error(written):
    reader = reader_of({"v": pa.string()}, v=FromFile("v", pa.string()))
    with pytest.raises(ExecutionError, match='SS467: column "v" is binary'):
        read(reader, places((written({"v": [b"\xff"]}), 0)))


def test_columns_are_found_in_any_case_and_are_null_where_files_have_none(written):
    path = written({"Price": [1, 2]})
    reader = reader_of(
        {"price": pa.int64(), "new": pa.string()},
        price=FromFile("price", pa.int64()),
        new=FromFile("new", pa.string()),
    )
    assert read(reader, places((path, 0))).to_pylist() == [{"price": 1, "new": None}, {"price": 2, "new": None}]


def test_a_time_that_is_null_is_an_error_where_it_is_required(written):
    path = written({"at": pa.array([0, None], INSTANT)})
    column = FromFile("at", INSTANT, micros=True, required='event time "at" of table "t" is NULL')
    with pytest.raises(ExecutionError, match='SS401: event time "at" of table "t" is NULL'):
        read(reader_of({"t": pa.int64()}, t=column), places((path, 0)))
