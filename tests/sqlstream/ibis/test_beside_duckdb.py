"""Expressions of Ibis over one small table: our rows are those of Ibis's backend for DuckDB."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

ibis = pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")

import ibis.selectors as sel  # noqa: E402

from sqlstream.ibis.backend import Backend  # noqa: E402
from sqlstream.testing.spark import LocalSession  # noqa: E402

_ = ibis._
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning"),  # Ibis asks DuckDB by older names
]

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6, 7, 8], pa.int64()),
        "k": ["a", "b", "a", "c", "b", "a", None, "c"],
        "s": [
            "Hello world",
            "",
            "  trim me ",
            "äöü ß",
            "a,b,,c",
            None,
            "https://u:p@example.com:8080/x/y.html?q=1&r=2#frag",
            "abcabc",
        ],
        "n": pa.array([3, -7, None, 0, 12, 5, -1, 100], pa.int64()),
        "i": pa.array([1, 2, 3, None, 5, 6, 7, 8], pa.int32()),
        "x": pa.array([0.5, -1.25, 2.0, None, 3.75, -0.0, 100.125, 7.0], pa.float64()),
        "f": pa.array([1.5, float("nan"), float("inf"), None, float("-inf"), 0.0, -2.5, 1e300], pa.float64()),
        "d": pa.array(
            [
                Decimal("1.25"),
                Decimal("-3.50"),
                None,
                Decimal("0.00"),
                Decimal("99999.99"),
                Decimal("2.50"),
                Decimal("7.10"),
                Decimal("0.01"),
            ],
            pa.decimal128(10, 2),
        ),
        "b": [True, False, None, True, False, True, True, False],
        "ts": pa.array(
            [
                datetime(2024, 1, 31, 12, 0, 0, 123456),
                datetime(2023, 12, 31, 23, 59, 59),
                None,
                datetime(1969, 7, 20, 20, 17, 40),
                datetime(2024, 2, 29, 0, 0),
                datetime(2024, 3, 31, 2, 30),
                datetime(2000, 1, 1),
                datetime(2024, 12, 30, 8, 15, 30, 500000),
            ],
            pa.timestamp("us"),
        ),
        "day": [
            date(2024, 1, 31),
            date(2023, 12, 31),
            None,
            date(1969, 7, 20),
            date(2024, 2, 29),
            date(2024, 3, 31),
            date(2000, 1, 1),
            date(2024, 12, 30),
        ],
        "tm": pa.array(
            [
                time(12, 0, 0, 123456),
                time(23, 59, 59),
                None,
                time(0),
                time(6, 30),
                time(1, 2, 3),
                time(20, 0),
                time(8, 15, 30, 500000),
            ],
            pa.time64("us"),
        ),
        "arr": pa.array(
            [[3, 1, 2], [], None, [5], [1, 1, 2], [None, 4], [10, 20, 30, 40], [7, 7]], pa.list_(pa.int64())
        ),
        "tags": pa.array(
            [["x", "y"], ["y"], [], None, ["z", "x"], ["x", None], ["a"], ["b", "b"]], pa.list_(pa.string())
        ),
        "st": pa.array(
            [
                {"a": 1, "b": "u"},
                {"a": 2, "b": None},
                None,
                {"a": None, "b": "w"},
                {"a": 5, "b": "v"},
                {"a": 6, "b": "x"},
                {"a": 7, "b": "y"},
                {"a": 8, "b": "z"},
            ],
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
        ),
        "m": pa.array(
            [[("p", 1), ("q", 2)], [], None, [("p", 3)], [("r", None)], [("q", 5), ("s", 6)], [("p", 7)], [("t", 8)]],
            pa.map_(pa.string(), pa.int64()),
        ),
        "blob": [b"abc", b"", None, b"\x00\xff", b"a", b"b", b"c", b"d"],
    }
)
OTHER = pa.table(
    {
        "k": ["a", "b", "d", "a", None],
        "w": pa.array([10, 20, 40, 11, 0], pa.int64()),
        "at": pa.array(
            [
                datetime(2024, 1, 1),
                datetime(2023, 1, 1),
                datetime(2024, 5, 1),
                datetime(2024, 2, 1),
                datetime(2020, 1, 1),
            ],
            pa.timestamp("us"),
        ),
    }
)


COLUMNS = {
    "s.length": lambda t: t.s.length(),
    "s.lower": lambda t: t.s.lower(),
    "s.reverse": lambda t: t.s.reverse(),
    "strip": lambda t: t.s.strip(),
    "capitalize": lambda t: t.s.capitalize(),
    "contains": lambda t: t.s.contains("b"),
    "hexdigest": lambda t: t.s.hexdigest(),
    "substr": lambda t: t.s.substr(1, 3),
    "slice": lambda t: t.s[1:4],
    "index": lambda t: t.s[0],
    "right": lambda t: t.s.right(3),
    "repeat": lambda t: t.s.repeat(2),
    "translate": lambda t: t.s.translate("abc", "xyz"),
    "find": lambda t: t.s.find("b"),
    "find start": lambda t: t.s.find("b", 2),
    "lpad": lambda t: t.k.lpad(5, "-"),
    "find_in_set": lambda t: t.k.find_in_set(["b", "a"]),
    "join": lambda t: ibis.literal("-").join([t.k, t.s]),
    "endswith": lambda t: t.s.endswith("c"),
    "ilike": lambda t: t.s.ilike("HELLO%"),
    "like list": lambda t: t.s.like(["a%", "H%"]),
    "re_search": lambda t: t.s.re_search("[a-c]{2}"),
    "re_extract": lambda t: t.s.re_extract("([a-z])([a-z])", 2),
    "re_split": lambda t: t.s.re_split("[, ]"),
    "re_replace": lambda t: t.s.re_replace("([a-c])", "<\\1>"),
    "replace": lambda t: t.s.replace("b", "BB"),
    "split": lambda t: t.s.split(","),
    "concat": lambda t: t.k + t.s,
    "as_date": lambda t: ibis.literal("2024-01-31").as_date("%Y-%m-%d"),
    "as_timestamp": lambda t: ibis.literal("31/01/2024 10:11:12").as_timestamp("%d/%m/%Y %H:%M:%S"),
    "as_time": lambda t: ibis.literal("10:11:12").as_time("%H:%M:%S"),
    "s notin": lambda t: t.k.notin(["a"]),
    "n-x": lambda t: t.n - t.x,
    "n/2": lambda t: t.n / 2,
    "n//2": lambda t: t.n // 2,
    "n%3": lambda t: t.n % 3,
    "n**2": lambda t: t.n**2,
    "x//2": lambda t: t.x // 2,
    "abs": lambda t: t.n.abs(),
    "floor": lambda t: t.x.floor(),
    "round1": lambda t: t.x.round(1),
    "exp": lambda t: t.x.clip(upper=5).exp(),
    "ln": lambda t: (t.x.abs() + 1).ln(),
    "log3": lambda t: (t.x.abs() + 1).log(3),
    "sign": lambda t: t.n.sign(),
    "tan": lambda t: t.x.tan(),
    "atan": lambda t: t.x.atan(),
    "atan2": lambda t: t.x.atan2(t.n),
    "radians": lambda t: t.x.radians(),
    "clip": lambda t: t.n.clip(lower=0, upper=10),
    "isnan": lambda t: t.f.isnan(),
    "isinf": lambda t: t.f.isinf(),
    "f isnull": lambda t: t.f.isnull(),
    "f notnull": lambda t: t.f.notnull(),
    "f ==": lambda t: t.f == t.f,
    "f >": lambda t: t.f > 0,
    "between": lambda t: t.n.between(0, 10),
    "bucket": lambda t: t.n.bucket([0, 5, 10, 50]),
    "bit|": lambda t: t.n | 6,
    "bit^": lambda t: t.n ^ 6,
    ">>": lambda t: t.i >> 1,
    "least": lambda t: ibis.least(t.n, t.i, t.id),
    "cast x str": lambda t: t.x.cast("string"),
    "cast b int": lambda t: t.b.cast("int32"),
    "cast n dec": lambda t: t.n.cast("decimal(10,2)"),
    "try_cast": lambda t: t.s.try_cast("int64"),
    "ts str": lambda t: t.ts.cast("string"),
    "ts date": lambda t: t.ts.cast("date"),
    "day ts": lambda t: t.day.cast("timestamp"),
    "n ts": lambda t: t.n.cast("timestamp"),
    "xor": lambda t: t.b ^ (t.n > 0),
    "not": lambda t: ~t.b,
    "ibis.ifelse": lambda t: ibis.ifelse(t.n > 0, t.n, 0),
    "cases": lambda t: ibis.cases((t.n > 10, "big"), (t.n > 0, "small"), else_="neg"),
    "value cases": lambda t: t.k.cases(("a", 1), ("b", 2), else_=0),
    "coalesce": lambda t: ibis.coalesce(t.n, t.i, -1),
    "fill_null": lambda t: t.n.fill_null(0),
    "identical": lambda t: t.n.identical_to(t.i),
    "substitute": lambda t: t.k.substitute({"a": "A"}),
    "year": lambda t: t.ts.year(),
    "second": lambda t: t.ts.second(),
    "ms": lambda t: t.ts.millisecond(),
    "us": lambda t: t.ts.microsecond(),
    "doy": lambda t: t.ts.day_of_year(),
    "week": lambda t: t.ts.week_of_year(),
    "iso_year": lambda t: t.ts.iso_year(),
    "dow name": lambda t: t.ts.day_of_week.full_name(),
    "strftime": lambda t: t.ts.strftime("%Y/%m/%d %H:%M:%S"),
    "bucket ts": lambda t: t.ts.bucket(minutes=5),
    "bucket ts off": lambda t: t.ts.bucket(hours=1, offset=ibis.interval(minutes=15)),
    "bucket days": lambda t: t.ts.bucket(days=2),
    "date()": lambda t: t.ts.date(),
    "time()": lambda t: t.ts.time(),
    "ts+1M": lambda t: t.ts + ibis.interval(months=1),
    "ts+w": lambda t: t.ts + ibis.interval(weeks=1),
    "ts+ms": lambda t: t.ts + ibis.interval(milliseconds=5),
    "ts+ns interval": lambda t: t.ts + t.i.as_interval("D"),
    "delta d": lambda t: t.ts.delta(ibis.timestamp("2024-01-01"), unit="day"),
    "delta month": lambda t: t.day.delta(ibis.date("2024-01-01"), unit="month"),
    "day+M": lambda t: t.day + ibis.interval(months=1),
    "tm sec": lambda t: t.tm.second(),
    "tm us": lambda t: t.tm.microsecond(),
    "tm cmp": lambda t: t.tm > ibis.time(7, 0, 0),
    "tm delta": lambda t: t.tm.delta(ibis.time(0, 0, 0), unit="second"),
    "ibis.date": lambda t: ibis.date(2024, 1, t.i + 1),
    "ibis.timestamp": lambda t: ibis.timestamp(2024, 1, 1, t.i, 0, 0),
    "ibis.time": lambda t: ibis.time(1, t.i, 0),
    "as_timestamp ms": lambda t: t.n.as_timestamp("ms"),
    "ts between": lambda t: t.ts.between(ibis.timestamp("2023-01-01"), ibis.timestamp("2024-06-01")),
    "a.length": lambda t: t.arr.length(),
    "a[0]": lambda t: t.arr[0],
    "a[1:3]": lambda t: t.arr[1:3],
    "a[-1]": lambda t: t.arr[-1],
    "a[9]": lambda t: t.arr[9],
    "a contains": lambda t: t.arr.contains(1),
    "a index": lambda t: t.arr.index(2),
    "a remove": lambda t: t.arr.remove(1),
    "a unique": lambda t: t.arr.unique().sort(),
    "a sort": lambda t: t.arr.sort(),
    "a concat": lambda t: t.arr + t.arr,
    "a filter": lambda t: t.arr.filter(lambda v: v > 1),
    "a map idx": lambda t: t.arr.map(lambda v, i: v + i),
    "a zip": lambda t: t.arr.zip(t.tags),
    "a sums": lambda t: t.arr.sums(),
    "a means": lambda t: t.arr.means(),
    "a maxs": lambda t: t.arr.maxs(),
    "a anys": lambda t: ibis.array([t.b, False]).anys(),
    "ibis.array": lambda t: ibis.array([t.n, 1, 2]),
    "range ts": lambda t: ibis.range(ibis.timestamp("2024-01-01"), ibis.timestamp("2024-01-03"), ibis.interval(days=1)),
    "array lit": lambda t: ibis.literal([1, 2, 3]),
    "array empty lit": lambda t: ibis.literal([], type="array<int64>"),
    "st[b]": lambda t: t.st["b"],
    "ibis.struct": lambda t: ibis.struct({"x": t.n, "y": t.k}),
    "m get": lambda t: t.m.get("p", -1),
    "m length": lambda t: t.m.length(),
    "m contains": lambda t: t.m.contains("q"),
    "m values": lambda t: t.m.values(),
    "st isnull": lambda t: t.st.isnull(),
    "lit dec": lambda t: ibis.literal("1.50", type="decimal(10,2)"),
    "lit str quote": lambda t: ibis.literal('it\'s \\ "q" \n x'),
    "json get": lambda t: ibis.literal('{"a": {"b": [1, 2]}}', type="json")["a"]["b"][1].cast("string"),
    "row_number": lambda t: ibis.row_number().over(order_by=t.id),
    "rank": lambda t: t.k.rank(),
    "ntile": lambda t: ibis.ntile(3).over(order_by=t.id),
    "lead2": lambda t: t.n.lead(2, -1).over(order_by=t.id),
    "last over": lambda t: t.n.last().over(group_by=t.k, order_by=t.id),
    "nth": lambda t: t.n.nth(1).over(order_by=t.id),
    "cummean": lambda t: t.x.cummean(order_by=t.id),
    "rolling prec": lambda t: t.n.mean().over(ibis.window(preceding=2, following=0, order_by=t.id)),
    "demean g": lambda t: t.x - t.x.mean().over(group_by=t.k),
    "over range interval": lambda t: t.n.sum().over(ibis.trailing_range_window(ibis.interval(days=40), order_by=t.ts)),
    "collect over": lambda t: t.n.collect().over(group_by=t.k, order_by=t.id),
    "any over": lambda t: t.b.any().over(group_by=t.k),
    "isin sub": lambda t: t.k.isin(t.filter(t.n > 10).k),
    "scalar sub": lambda t: t.n - t.n.max().as_scalar(),
}
"""Columns of the table, which one query selects."""

AGGREGATES = {
    "count col": lambda t: t.n.count(),
    "count where": lambda t: t.count(where=t.n > 0),
    "nunique where": lambda t: t.k.nunique(where=t.n > 0),
    "sum where": lambda t: t.n.sum(where=t.b),
    "sum bool": lambda t: t.b.sum(),
    "sum dec": lambda t: t.d.sum(),
    "mean": lambda t: t.x.mean(),
    "mean bool": lambda t: t.b.mean(),
    "mean dec": lambda t: t.d.mean(),
    "max": lambda t: t.ts.max(),
    "std pop": lambda t: t.x.std(how="pop"),
    "var where": lambda t: t.x.var(where=t.b),
    "corr pop": lambda t: t.x.corr(t.n, how="pop"),
    "median": lambda t: t.x.median(),
    "median where": lambda t: t.x.median(where=t.n > 0),
    "quantile": lambda t: t.x.quantile(0.25),
    "quantiles": lambda t: t.x.quantile([0.25, 0.75]),
    "mode": lambda t: t.k.mode(),
    "argmin": lambda t: t.k.argmin(t.n),
    "argmin where": lambda t: t.k.argmin(t.n, where=t.b),
    "first": lambda t: t.n.first(order_by=t.id),
    "last": lambda t: t.n.last(order_by=t.id),
    "first null": lambda t: t.s.first(order_by=t.id.desc(), include_null=True),
    "notany": lambda t: t.b.notany(),
    "any where": lambda t: (t.n > 50).any(where=t.b),
    "all int": lambda t: (t.n > -100).all(),
    "collect distinct": lambda t: t.k.collect(distinct=True).sort(),
    "collect null": lambda t: t.n.collect(include_null=True, order_by=t.id),
    "group_concat": lambda t: t.k.group_concat("-", order_by=t.id),
    "group_concat where": lambda t: t.k.group_concat("-", order_by=t.id, where=t.n > 0),
    "bit_and": lambda t: t.n.bit_and() if hasattr(t.n, "bit_and") else t.n.sum(),
    "max of empty where": lambda t: t.n.max(where=t.n > 1000),
    "count distinct where none": lambda t: t.n.nunique(where=t.n > 1000),
}
"""Values of the whole table, which one query computes."""

TABLES = {
    "distinct rows": lambda t, o: t["k", "b"].nunique().as_table(),
    "sum of no rows": lambda t, o: t.filter(t.n > 1000).n.sum().as_table(),
    "group expr": lambda t, o: t.group_by(y=t.ts.year()).agg(c=_.count()),
    "having": lambda t, o: t.group_by("k").having(_.count() > 1).agg(m=_.n.max()),
    "group mutate": lambda t, o: t.group_by("k").mutate(m=_.n.mean()).select("id", "m"),
    "distinct": lambda t, o: t[["k", "b"]].distinct(),
    "limit off": lambda t, o: t.order_by(ibis.desc("id")).limit(3, offset=2).select("id"),
    "order nulls": lambda t, o: t.order_by(_.n.asc(nulls_first=True)).limit(1).select("id"),
    "left": lambda t, o: t.left_join(o, "k").select("id", "w"),
    "right": lambda t, o: t.right_join(o, "k").select("id", "w"),
    "outer": lambda t, o: t.outer_join(o, "k").select("id", "w", kr="k_right"),
    "anti": lambda t, o: t.anti_join(o, "k").select("id"),
    "join ineq": lambda t, o: t.join(o, [t.n > o.w]).select("id", "w"),
    "asof": lambda t, o: t.asof_join(o, on=t.ts >= o.at, predicates="k").select("id", "w"),
    "asof on": lambda t, o: t.asof_join(o.rename(ts="at"), on="ts").select("id", "w"),
    "multi join": lambda t, o: t.join(o, "k").join(o.rename(w2="w"), "k").select("id", "w", "w2"),
    "union distinct": lambda t, o: t.select("k").union(o.select("k"), distinct=True),
    "difference": lambda t, o: t.select("k").difference(o.select("k")),
    "intersect all": lambda t, o: t.select("k").intersect(o.select("k"), distinct=False),
    "difference all": lambda t, o: t.select("k").difference(o.select("k"), distinct=False),
    "filter window": lambda t, o: t.filter(_.n == _.n.max()).select("id"),
    "qualify": lambda t, o: t.filter(ibis.row_number().over(group_by=_.k, order_by=_.id) == 0).select("id"),
    "selectors": lambda t, o: t.select(sel.numeric() & ~sel.cols("d", "f")),
    "across": lambda t, o: t.agg(sel.across(sel.cols("n", "x"), {"mn": _.min(), "mx": _.max()})),
    "across mutate": lambda t, o: t.mutate(sel.across(sel.cols("n", "i"), _.fill_null(0))).select("id", "n", "i"),
    "sel.of_type": lambda t, o: t.select(sel.of_type("string")),
    "if_any": lambda t, o: t.filter(sel.if_any(sel.cols("n", "i"), _ > 50)).select("id"),
    "t.unnest": lambda t, o: t.select("id", "arr").unnest("arr", offset="o"),
    "t.unnest keep": lambda t, o: t.select("id", "arr").unnest("arr", keep_empty=True),
    "unpack": lambda t, o: t.select("id", "st").unpack("st"),
    "pivot_longer": lambda t, o: t.select("id", "n", "i").mutate(i=_.i.cast("int64")).pivot_longer(["n", "i"]),
    "pivot_wider": lambda t, o: (
        t.filter(_.k.notnull())
        .select("id", "k", "n")
        .pivot_wider(names_from="k", values_from="n", names=["a", "b", "c"])
    ),
    "drop_null all": lambda t, o: t.select("id", "n", "x").drop_null(),
    "fill_null": lambda t, o: t.select("id", "n", "x").fill_null({"n": 0, "x": 0.0}),
    "memtable join": lambda t, o: t.join(ibis.memtable({"k": ["a"], "z": [1]}), "k").select("id", "z"),
    "exists": lambda t, o: t.filter((t.k == o.k).any()).select("id"),
    "cumsum group": lambda t, o: t.select("id", c=_.n.cumsum(group_by=_.k, order_by=_.id)),
    "order in sub": lambda t, o: t.order_by("id").select("id").limit(4).order_by(_.id.desc()).limit(2),
    "window group agg": lambda t, o: t.group_by("k").agg(s=_.n.sum()).mutate(t=_.s.sum()),
}
"""Tables made of the table and another one."""


@pytest.fixture(scope="module")
def tables(spark):
    """The table and the other one of both backends: ours first."""
    ours = Backend.from_connection(LocalSession({"table.local-time-zone": "UTC"}))
    duck = ibis.duckdb.connect()
    for name, rows in (("t", ROWS), ("o", OTHER)):
        ours.create_table(name, rows, temp=True)
        duck.con.register(f"rows_of_{name}", rows)
        duck.raw_sql(f"CREATE TABLE {name} AS SELECT * FROM rows_of_{name}")
    yield [(con.table("t"), con.table("o")) for con in (ours, duck)]
    ours.disconnect()


def plain(value: Any) -> Any:
    """A value that equals one that is computed in another order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | tuple) else value


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(map(plain, table.to_pyarrow().to_pylist()), key=repr)


@pytest.mark.long
def test_columns_are_those_of_duckdb(tables):
    ours, theirs = (rows_of(t.select("id", **{n: make(t) for n, make in COLUMNS.items()})) for t, _ in tables)
    differing = {
        name: [(a["id"], a[name], b[name]) for a, b in zip(ours, theirs, strict=True) if a[name] != b[name]]
        for name in COLUMNS
    }
    assert not {name: rows for name, rows in differing.items() if rows}


def test_aggregates_are_those_of_duckdb(tables):
    ((ours,), (theirs,)) = (rows_of(t.agg(**{n: make(t) for n, make in AGGREGATES.items()})) for t, _ in tables)
    assert ours == theirs


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_duckdb(tables, name):
    ours, theirs = (rows_of(TABLES[name](t, o)) for t, o in tables)
    assert ours == theirs


def test_urls_and_digests_which_duckdb_lacks(tables):
    t = tables[0][0]
    (row,) = t.filter(t.id == 7).select(
        scheme=t.s.protocol(), host=t.s.host(), path=t.s.path(), q=t.s.query("q"), fragment=t.s.fragment(),
        user=t.s.userinfo(), base=t.id.convert_base(10, 2), digest=t.k.hashbytes("md5"), type=t.id.typeof(),
    ).to_pyarrow().to_pylist()  # fmt: skip
    assert row == {
        "scheme": "https", "host": "example.com", "path": "/x/y.html", "q": "1", "fragment": "frag", "user": "u:p",
        "base": "111", "digest": None, "type": "bigint",
    }  # fmt: skip
    assert t.filter(t.id == 1).s.host().to_pyarrow().to_pylist() == [None]
