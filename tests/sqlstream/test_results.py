from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace

import narwhals
import pandas as pd
import polars
import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.query import ArrowRows, Query, in_time_zone, rows_of, shown_rows_of, with_dicts
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.types import INTERVAL_OF_MONTHS, STRING, UNKNOWN, parse_type

TABLE = pa.table(
    {
        "n": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "t": pa.array([datetime(2024, 1, 31, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
        "d": pa.array([date(2024, 1, 31), None]),
        "l": pa.array([[1, None], None], pa.list_(pa.int32())),
        "s": pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
    }
)


def test_values_are_those_of_python() -> None:
    first, second = ArrowRows.of(TABLE)
    assert first == (
        Decimal("1.50"), datetime(2024, 1, 31, tzinfo=UTC), date(2024, 1, 31), [1, None], {"a": 1, "b": "x"}, {"k": 1}
    )  # fmt: skip
    assert second == (None,) * 6


def test_arrow_and_pandas_keep_the_types() -> None:
    rows = ArrowRows.of(TABLE)
    assert rows.to_arrow() is TABLE
    frame = rows.to_pandas()
    assert frame["n"][0] == Decimal("1.50")
    assert isinstance(frame["t"].dtype, pd.DatetimeTZDtype)
    assert [t.ddl() for t in rows.types] == [
        "DECIMAL(10, 2)", "TIMESTAMP", "DATE", "ARRAY<INT>", "STRUCT<a: BIGINT, b: STRING>", "MAP<STRING, INT>",
    ]  # fmt: skip


def test_texts_become_arrow_strings_also_without_rows() -> None:
    rows = Rows.of_text(("a", "a"), [])
    assert rows.to_arrow().schema.types == [pa.string(), pa.string()]
    assert (len(rows), rows.fetchall(), rows.fetchone()) == (0, [], None)


@pytest.mark.parametrize(
    "rows", [Rows.of_text(("a",), [("1",), ("2",), ("3",)]), ArrowRows.of(pa.table({"a": ["1", "2", "3"]}))]
)
def test_rows_are_fetched_one_after_the_other(rows: Rows) -> None:
    assert rows.fetchone() == ("1",)
    assert rows.fetchmany(1) == [("2",)]
    assert rows.fetchall() == list(rows) == [("1",), ("2",), ("3",)]
    assert (rows.fetchmany(5), rows.fetchone(), rows.fetchone()) == ([("3",)], None, None)


def test_a_query_gives_the_next_row_until_it_ends() -> None:
    job = SimpleNamespace(results=lambda: iter([pa.table({"a": ["1", "2"]}), pa.table({"a": ["3"]})]))
    query = Query(job, (("a", STRING),), "UTC")  # type: ignore[arg-type]
    assert [query.fetchone() for _ in range(4)] == [("1",), ("2",), ("3",), None]


def _query(*tables: pa.Table, bounded: bool = True) -> Query:
    job = SimpleNamespace(results=lambda: iter(tables), is_bounded=bounded)
    return Query(job, (("a", STRING),), "UTC")  # type: ignore[arg-type]


def test_results_are_streams_of_arrows_c_interface() -> None:
    assert pa.table(ArrowRows.of(TABLE)) == TABLE
    rows = Rows.of_text(("a", "b"), [("1", None)])
    assert polars.DataFrame(rows).rows() == [("1", None)]
    assert narwhals.from_native(polars.DataFrame(rows)).columns == ["a", "b"]
    batches = [pa.table({"a": ["1", "2"]}), pa.table({"a": ["3"]})]
    assert polars.DataFrame(_query(*batches))["a"].to_list() == ["1", "2", "3"]
    assert narwhals.DataFrame.from_arrow(_query(*batches), backend="polars")["a"].to_list() == ["1", "2", "3"]
    assert pa.table(_query()).schema.types == [pa.string()]


def test_a_column_that_only_spark_knows_is_one_of_nulls_without_rows() -> None:
    job = SimpleNamespace(results=lambda: iter([]), is_bounded=True)
    columns = (("op", STRING), ("m", UNKNOWN), ("i", INTERVAL_OF_MONTHS))
    for updating in (False, True):
        query = Query(job, columns, "UTC", updating=updating)  # type: ignore[arg-type]
        assert query.table().to_arrow().schema.types[-2:] == [pa.null(), pa.null()]


def test_a_query_without_end_is_no_stream_of_arrow() -> None:
    with pytest.raises(ExecutionError, match="SS480"):
        pa.table(_query(bounded=False))


def test_each_result_is_fetched_for_itself() -> None:
    with Session() as session:
        for name in ("a", "b"):
            made = session.sql(f"CREATE DATABASE {name}")
            assert isinstance(made, Rows) and (made.fetchone(), made.fetchone()) == (("OK",), None)


def test_python_values_become_arrow_of_the_declared_type() -> None:
    rows = Rows(("a",), (parse_type("DECIMAL(4, 1)"),), ((Decimal("1.5"),), (None,)))
    assert rows.to_arrow().column("a").to_pylist() == [Decimal("1.5"), None]
    assert rows.to_arrow().schema.types == [pa.decimal128(4, 1)]


def test_columns_of_the_same_name_stay_apart() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert rows_of(table) == [(1, 2)]


def test_a_table_for_the_eye_aligns_and_counts() -> None:
    text = repr(Rows.of_text(("name", "n"), [("x", "1"), ("longer", None)]))
    assert text == "name   | n\n-------+-----\nx      | 1\nlonger | NULL\n(2 rows)".replace(
        "n\n-------+-----", "n\n-------+-----"
    )


def test_a_long_table_shows_its_first_rows() -> None:
    text = repr(Rows.of_text(("n",), [(str(i),) for i in range(25)]))
    assert text.endswith("19\n(25 rows, the first 20 shown)")


def test_notebooks_get_escaped_html() -> None:
    actual = Rows.of_text(("<n>",), [("a & b",)])._repr_html_()
    assert "<th>&lt;n&gt;</th>" in actual and "<td>a &amp; b</td>" in actual and "(1 row)" in actual


@pytest.mark.parametrize("count", [0, 1, 5])
def test_rows_are_counted_without_being_fetched(count: int) -> None:
    assert len(ArrowRows.of(pa.table({"a": list(range(count))}))) == count


def test_timestamps_move_to_a_zone_also_inside_of_structs() -> None:
    moment = datetime(2024, 1, 31, 3, tzinfo=UTC)
    utc, plain = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    struct = pa.struct([("at", utc), ("n", pa.int32())])
    columns = {
        "a": pa.array([moment], utc),
        "b": pa.array([[{"at": moment, "n": 1}]], pa.list_(struct)),
        "c": pa.array([datetime(2024, 1, 31, 3)], plain),
    }
    ((a, b, c),) = rows_of(in_time_zone(pa.table(columns), "Asia/Tokyo"))
    assert a.isoformat() == b[0]["at"].isoformat() == "2024-01-31T12:00:00+09:00" and a == moment
    assert c == datetime(2024, 1, 31, 3)


WILD = [10**18, -(10**17), None, 0]


def test_times_that_python_does_not_have_are_shown_as_texts_and_are_errors_as_values():
    table = pa.table(
        {
            "at": pa.array(WILD, pa.timestamp("us", "Asia/Tokyo")),
            "wall": pa.array([1, 2, 3, 4], pa.timestamp("us")),
            "day": pa.array([10**7, -(10**6), None, 0], pa.int32()).cast(pa.date32()),
        }
    )
    assert [row[0] for row in shown_rows_of(table)] == [
        "+33658-09-27 10:46:40",
        "-1199-02-15 23:32:19",
        None,
        "1970-01-01 09:00:00",
    ]
    assert [row[2] for row in shown_rows_of(table)] == ["+29349-01-26", "-0768-02-04", None, "1970-01-01"]
    assert shown_rows_of(table)[0][1] == datetime(1970, 1, 1, 0, 0, 0, 1)
    rows = ArrowRows.of(table)
    assert "+33658-09-27 10:46:40" in repr(rows)
    assert "-1199-02-15 23:32:19" in rows._repr_html_()
    message = (
        'SS469: a value of column "at" is a time beyond the years 1 to 9999, which Python\'s datetime does not have'
    )
    with pytest.raises(ExecutionError, match=message) as error:
        rows.fetchall()
    assert "CAST(… AS STRING)" in str(error.value)
    assert rows.to_arrow() is table


def test_a_time_that_only_its_zone_takes_out_of_range_is_shown():
    last = pa.table({"at": pa.array([253_402_300_799_000_000], pa.timestamp("us", "Asia/Tokyo"))})
    assert shown_rows_of(last) == [("+10000-01-01 08:59:59",)]
    with pytest.raises(ExecutionError, match="SS469"):
        rows_of(last)


def test_maps_are_dicts_wherever_they_are_also_with_pyarrow_18_which_knows_them_as_pairs():
    of_lists = pa.map_(pa.string(), pa.list_(pa.map_(pa.int32(), pa.string())))
    nested = pa.struct([("m", of_lists), ("n", pa.int32())])
    pairs = [{"m": [("a", [[(1, "x")], None]), ("b", None)], "n": 1}, None, {"m": None, "n": None}]
    dicts = [{"m": {"a": [{1: "x"}, None], "b": None}, "n": 1}, None, {"m": None, "n": None}]
    column = pa.array(pairs, nested)
    assert [with_dicts(value, nested) for value in column.to_pylist()] == dicts
    assert rows_of(pa.table({"s": column, "l": pa.array([[1], None, []])})) == list(
        zip(dicts, [[1], None, []], strict=True)
    )
