"""Rows through Ibis: finished data beside pandas, windows over a stream of files, jobs, functions in Python."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import sqlstream

ibis = pytest.importorskip("ibis")

import ibis.common.exceptions as com  # noqa: E402

from sqlstream.ibis.backend import Backend  # noqa: E402

_ = ibis._
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def con(spark):
    with sqlstream.connect(spark, **{"table.local-time-zone": "Europe/Berlin"}) as session:
        connection = Backend.from_connection(session)
        yield connection
        connection.disconnect()


@pytest.fixture(scope="module")
def orders():
    start = datetime(2024, 1, 31, 12)
    return pd.DataFrame(
        {
            "id": range(60),
            "ts": [start + timedelta(seconds=7 * n) for n in range(60)],
            "k": ["abc"[n % 3] for n in range(60)],
            "x": [n / 4 for n in range(60)],
        }
    )


def events(con, name, orders, folder, **options):
    """The orders as files of JSON with a watermark."""
    folder.mkdir()
    orders.to_json(folder / "a.json", orient="records", lines=True, date_format="iso")
    schema = {"id": "int64", "ts": "timestamp(3)", "k": "string", "x": "float64"}
    with_ = {"connector": "filesystem", "path": folder, "format": "json", **options}
    late = ibis.watermark("ts", ibis.interval(seconds=5))
    return con.create_table(name, schema=schema, tbl_properties=with_, watermark=late, overwrite=True)


def test_finished_data_is_that_of_pandas(con, orders):
    t = ibis.memtable(orders)
    counted = t.filter(t.x > 1).group_by("k").agg(n=_.count(), mean=_.x.mean()).order_by("k")
    kept = orders[orders.x > 1].groupby("k").agg(n=("id", "size"), mean=("x", "mean")).reset_index()
    pd.testing.assert_frame_equal(con.execute(counted), kept)
    assert con.execute(t.x.sum()) == orders.x.sum()
    assert list(con.execute(t.order_by(t.id.desc()).limit(2, offset=1).id)) == [58, 57]
    assert con.to_pyarrow(t.order_by("id")).column("ts").to_pylist() == list(orders.ts)


def test_windows_over_a_stream_of_files_are_those_of_pandas(con, orders, tmp_path):
    t = events(con, "windowed", orders, tmp_path / "in")
    windows = t.window_by(t.ts).tumble(size=ibis.interval(minutes=1)).agg(by="k", n=_.count(), x=_.x.sum())
    found = con.execute(windows).sort_values(["window_start", "k"], ignore_index=True)
    starts = orders.ts.dt.floor("min")
    expected = orders.groupby([starts, "k"]).agg(n=("id", "size"), x=("x", "sum")).reset_index()
    assert list(found.columns) == ["window_start", "window_end", "k", "n", "x"]
    # Times without a zone are what the clock of the session shows, as in the files.
    assert list(found.window_start) == list(expected.ts)
    assert list(found.window_end) == list(expected.ts + pd.Timedelta(minutes=1))
    pd.testing.assert_frame_equal(found[["k", "n", "x"]], expected[["k", "n", "x"]])


def test_a_stream_without_an_end_is_read_in_batches_and_written_by_a_job(con, orders, tmp_path):
    t = events(con, "endless", orders, tmp_path / "in", **{"source.monitor-interval": "100 ms"})
    kept = t.filter(t.k == "a").select("id", "x")
    with pytest.raises(com.UnsupportedOperationError, match="to_pyarrow_batches"):
        con.execute(kept)
    reader = con.to_pyarrow_batches(kept)
    assert reader.read_next_batch().column("id").to_pylist() == list(orders[orders.k == "a"].id)
    assert len(con.session.running) == 1
    del reader
    assert con.session.running == ()
    updating = t.group_by("k").agg(n=_.count())
    with pytest.raises(com.UnsupportedOperationError, match="source without an end"):
        con.to_pyarrow_batches(updating).read_next_batch()
    con.create_table("copied", schema={"id": "int64", "x": "float64"})
    job = con.insert("copied", kept)
    assert not job.is_bounded
    job.checkpoint()
    job.stop()
    assert con.execute(con.table("copied").count()) == 20
    assert con.session.running == ()


def test_an_updating_query_that_ends_gives_its_final_rows(con, orders, tmp_path):
    t = events(con, "updated", orders, tmp_path / "in")
    con.raw_sql("SET 'execution.runtime-mode' = 'streaming'")
    try:
        counted = t.group_by("k").agg(n=_.count())
        assert sorted(con.to_pyarrow(counted).to_pylist(), key=str) == [{"k": k, "n": 20} for k in "abc"]
    finally:
        con.raw_sql("RESET 'execution.runtime-mode'")


def test_rows_are_inserted_replaced_and_created_from_queries(con):
    con.create_table("kept", schema={"a": "int64", "b": "string"})
    con.insert("kept", {"b": ["x"], "a": [1]})
    con.insert("kept", [(2, "y")])
    con.insert("kept", ibis.memtable({"a": [3]}))
    t = con.table("kept")
    assert con.execute(t.order_by("a")).b.tolist() == ["x", "y", None]
    made = con.create_table("made", t.mutate(twice=t.a * 2))
    assert con.execute(made.twice.sum()) == 12
    con.insert("kept", pd.DataFrame({"a": [9], "b": ["z"]}), overwrite=True)
    assert con.execute(t).a.tolist() == [9]
    con.truncate_table("kept")
    assert con.execute(t.count()) == 0
    assert con.list_tables(like="^(kept|made)$") == ["kept", "made"]


def test_values_of_every_type_go_there_and_back(con):
    rows = pa.table(
        {
            "d": pa.array([Decimal("1.25"), None]),
            "u": pa.array([255, 0], pa.uint8()),
            "bin": [b"\0\xff", None],
            "at": pa.array([datetime(2024, 1, 31, 12, 0, 0, 5), None], pa.timestamp("ns")),
            "both": [{"x": 1, "y": ["a"]}, None],
            "more": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        }
    )
    t = ibis.memtable(rows)
    assert con.to_pyarrow(t.order_by(t.d.isnull())).to_pylist() == rows.to_pylist()
    view = con.create_view("of_rows", rows, temp=True)
    assert view.schema()["u"] == ibis.dtype("int16")


def test_functions_in_python_are_called_by_row_and_by_column(con):
    @ibis.udf.scalar.python
    def shout(text: str, times: int) -> str:
        return text + "!" * times

    @ibis.udf.scalar.pyarrow
    def twice(x: int) -> int:
        doubled: int = pa.compute.multiply(x, 2)
        return doubled

    @ibis.udf.scalar.pandas
    def plus_one(x: float) -> float:
        return x + 1

    @ibis.udf.scalar.builtin
    def parse_url(url: str, part: str) -> str:
        raise AssertionError("it is Spark's")

    t = ibis.memtable({"a": [1, 2], "x": [0.5, 1.5], "s": ["a", "b"]})
    result = con.execute(t.select(s=shout(t.s, t.a), a=twice(t.a), x=plus_one(t.x)).order_by("a"))
    assert result.to_dict("list") == {"s": ["a!", "b!!"], "a": [2, 4], "x": [1.5, 2.5]}
    assert con.execute(parse_url("http://example.com/p?q=1", "HOST")) == "example.com"


def test_results_are_those_of_polars_and_of_a_query_in_sql(con):
    polars = pytest.importorskip("polars")
    t = con.sql("SELECT 1 AS a, CURRENT_DATE() > DATE '2020-01-31' AS later")
    assert con.to_polars(t).equals(polars.DataFrame({"a": [1], "later": [True]}, schema_overrides={"a": polars.Int32}))
    assert con.execute(con.sql("SELECT * FROM VALUES (1), (2) AS v(n)").n.max()) == 2
