"""Files of columns read the same at every door: as streams, in the exchange, as finished data, and in lookups."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc, orc

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually

pytestmark = pytest.mark.spark

AT = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
NANOS = 1_700_000_000_123_456_789
PARQUET: dict[str, tuple[str, pa.Array, list[Any]]] = {
    "u8": ("SMALLINT", pa.array([255, None], pa.uint8()), [255, None]),
    "u16": ("INT", pa.array([65535, None], pa.uint16()), [65535, None]),
    "u32": ("BIGINT", pa.array([2**32 - 1, None], pa.uint32()), [2**32 - 1, None]),
    "u32_double": ("DOUBLE", pa.array([2**32 - 1, None], pa.uint32()), [float(2**32 - 1), None]),
    "u64": ("DECIMAL(20, 0)", pa.array([2**64 - 1, None], pa.uint64()), [Decimal(2**64 - 1), None]),
    "u64_wide": ("DECIMAL(22, 2)", pa.array([2**64 - 1, None], pa.uint64()), [Decimal(2**64 - 1), None]),
    "ns": ("TIMESTAMP", pa.array([NANOS, None], pa.timestamp("ns", "UTC")), [AT, None]),
    "ns_before": ("TIMESTAMP_NTZ", pa.array([-1, None], pa.timestamp("ns")),
                  [datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    "ms": ("TIMESTAMP", pa.array([NANOS // 10**6, None], pa.timestamp("ms", "Asia/Tokyo")),
           [AT.replace(microsecond=123000), None]),
    "clock": ("TIMESTAMP", pa.array([NANOS // 1000, None], pa.timestamp("us")), [AT, None]),
    "instant": ("TIMESTAMP_NTZ", pa.array([NANOS // 1000, None], pa.timestamp("us", "UTC")),
                [AT.replace(tzinfo=None), None]),
    "day_ms": ("TIME", pa.array([3_661_123, None], pa.time32("ms")), [time(1, 1, 1, 123000), None]),
    "day_us": ("TIME", pa.array([3_661_123_456, None], pa.time64("us")), [time(1, 1, 1, 123456), None]),
    "day_ns": ("TIME", pa.array([3_661_123_456_789, None], pa.time64("ns")), [time(1, 1, 1, 123456), None]),
    "void": ("STRING", pa.nulls(2), [None, None]),
    "void_list": ("ARRAY<INT>", pa.nulls(2), [None, None]),
    "nested": (
        "ARRAY<STRUCT<a: TIMESTAMP_NTZ, b: BIGINT>>",
        pa.array([[{"a": 1_999, "b": 2**32 - 1}], None],
                 pa.list_(pa.struct([("a", pa.timestamp("ns")), ("b", pa.uint32())]))),
        [[{"a": datetime(1970, 1, 1, 0, 0, 0, 1), "b": 2**32 - 1}], None],
    ),
}  # fmt: skip
"""By column: its declared type, what is in the file, and what is read."""


def table(session: Session, name: str, columns: str, path: Path, kind: str, **options: str) -> None:
    given = {
        "connector": "filesystem",
        "path": str(path),
        "format": kind,
        **{k.replace("__", "."): v for k, v in options.items()},
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({listed})")


def rows(session: Session, query: str) -> list[Any]:
    asked = session.sql(query)
    assert isinstance(asked, Query)
    return [tuple(row) for row in asked.fetchall()]


def at_all_doors(session: Session, names: list[str]) -> dict[str, list[Any]]:
    """The rows of the table ``t`` with the key ``k``: as finished data, as a stream, and in lookups."""
    listed = ", ".join(names)
    doors = {}
    for mode in ("batch", "streaming"):
        session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
        doors[mode] = rows(session, f"SELECT k, {listed} FROM t")
    session.sql("CREATE TABLE probe (k BIGINT, pt AS PROCTIME()) WITH ('connector' = 'datagen',"
                " 'fields.k.kind' = 'sequence',"
                " 'fields.k.start' = '0', 'fields.k.end' = '1')")  # fmt: skip
    looked_up = ", ".join(f"t.{name}" for name in names)
    doors["lookup"] = rows(
        session, f"SELECT t.k AS k, {looked_up} FROM probe JOIN t FOR SYSTEM_TIME AS OF probe.pt ON t.k = probe.k"
    )
    return {door: [row[1:] for row in sorted(found, key=itemgetter(0))] for door, found in doors.items()}


@pytest.mark.long
@pytest.mark.parametrize("dictionary", usually([True, False], True))
def test_types_of_parquet_that_sql_lacks_are_read_as_what_they_are_at_every_door(spark, tmp_path, dictionary):
    columns = {"k": pa.array([0, 1], pa.int64()), **{name: values for name, (_, values, _) in PARQUET.items()}}
    pq.write_table(pa.table(columns), tmp_path / "a b.parquet", use_dictionary=dictionary)
    declared = ", ".join(["k BIGINT", *(f"{name} {kind}" for name, (kind, _, _) in PARQUET.items())])
    wanted = [*zip(*(values for _, _, values in PARQUET.values()), strict=True)]
    with Session(spark) as session:
        session.sql("SET 'table.local-time-zone' = 'Europe/Amsterdam'")
        table(session, "t", declared, tmp_path, "parquet")
        for door, found in at_all_doors(session, [*PARQUET]).items():
            by_name = {name: [row[i] for row in found] for i, name in enumerate(PARQUET)}
            assert by_name == {name: values for name, (_, _, values) in PARQUET.items()}, door
            assert len(found) == len(wanted)
        plain = [name for name, (kind, _, _) in PARQUET.items() if kind in ("BIGINT", "DOUBLE", "TIMESTAMP", "STRING")]
        firsts = ", ".join(f"FIRST_VALUE({name}) AS {name}" for name in plain)
        exchange = rows(session, f"SELECT k, {firsts} FROM t GROUP BY k COUNT WINDOW (1 ROWS)")
        assert sorted(exchange) == [(i, *(PARQUET[name][2][i] for name in plain)) for i in (0, 1)]


@pytest.mark.parametrize(
    ("found", "kind"),
    [(pa.uint8(), "TINYINT"), (pa.uint32(), "INT"), (pa.uint64(), "BIGINT"), (pa.int32(), "SMALLINT")],
)
def test_numbers_that_would_wrap_are_refused_with_column_and_file(spark, tmp_path, found, kind):
    pq.write_table(pa.table({"v": pa.array([1], found)}), tmp_path / "1.parquet")
    with Session(spark) as session:
        table(session, "t", f"v {kind}", tmp_path, "parquet")
        with pytest.raises(
            SqlStreamError, match=rf'SS467: column "v" is \w+ in file "{tmp_path}/1.parquet", not {kind}'
        ):
            rows(session, "SELECT v FROM t")


def test_a_time_of_no_day_is_named_where_spark_would_read_another_one(spark, tmp_path):
    times = pa.array([1, 86_400_000_000], pa.int64()).view(pa.time64("us"))
    pq.write_table(pa.table({"v": times}), tmp_path / "1.parquet")
    with Session(spark) as session:
        table(session, "t", "v TIME", tmp_path, "parquet")
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            with pytest.raises(SqlStreamError, match=r'SS402: column "v" of type TIME is .* in row 2 of file'):
                rows(session, "SELECT v FROM t")


def test_arrow_files_are_read_at_every_door(spark, tmp_path):
    content = pa.table({
        "k": pa.array([0, 1], pa.int64()), "s": pa.array(["x", None]).dictionary_encode(),
        "at": pa.array([NANOS, None], pa.timestamp("ns", "UTC")),
        "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
    })  # fmt: skip
    folder = tmp_path / "in" / "day=2024-01-31"
    folder.mkdir(parents=True)
    for number in (0, 1):
        row = content.slice(number, 1)
        with (ipc.new_file if number else ipc.new_stream)(str(folder / f"a {number}+ä.arrow"), row.schema) as writer:
            writer.write_table(row)
    feather.write_feather(content.slice(2), str(folder / "empty.feather"))
    columns = "k BIGINT, s STRING, at TIMESTAMP, m MAP<STRING, INT>"
    wanted = [("x", AT, {"a": 1}), (None, None, None)]
    with Session(spark) as session:
        table(session, "t", columns, tmp_path / "in", "arrow")
        for door, found in at_all_doors(session, ["s", "at", "m"]).items():
            normal = [(s, at, None if m is None else dict(m)) for s, at, m in found]
            assert sorted(normal, key=repr) == sorted(wanted, key=repr), door
        assert rows(session, "SELECT COUNT(*) AS n FROM t WHERE k > 0")[-1][-1] == 1
        names = "n STRING METADATA FROM 'file.name', p STRING METADATA FROM 'file.path'"
        table(session, "named", f"k BIGINT, day DATE, {names}",
              tmp_path / "in", "arrow", **{"partition-by": "day"})  # fmt: skip
        assert sorted(rows(session, "SELECT k, CAST(day AS STRING) AS d, n, p FROM named")) == [
            (n, "2024-01-31", f"a {n}+ä.arrow", str(folder / f"a {n}+ä.arrow")) for n in (0, 1)
        ]
        table(session, "lacking", "z BIGINT", tmp_path / "in", "arrow")
        with pytest.raises(SqlStreamError, match=r'SS524: file ".*" has no column "z"'):
            rows(session, "SELECT z FROM lacking")
        (folder / "torn.arrow").write_bytes((folder / "a 1+ä.arrow").read_bytes()[:40])
        with pytest.raises(SqlStreamError, match=r'SS528: file ".*torn.arrow" cannot be read: .+'):
            rows(session, "SELECT k FROM t")


@pytest.mark.long
def test_a_later_file_in_nanoseconds_says_so_and_is_read_by_the_next_start(spark, tmp_path):
    pq.write_table(pa.table({"v": pa.array([1], pa.timestamp("us", "UTC"))}), tmp_path / "1.parquet")
    with Session(spark) as session:
        table(session, "t", "v TIMESTAMP", tmp_path, "parquet", **{"source.monitor-interval": "100 ms"})
        session.sql("CREATE TABLE out (v TIMESTAMP) WITH ('connector' = 'memory')")
        job: Any = session.sql("INSERT INTO out SELECT v FROM t")
        job.checkpoint()
        pq.write_table(pa.table({"v": pa.array([NANOS], pa.timestamp("ns", "UTC"))}), tmp_path / ".2")
        (tmp_path / ".2").rename(tmp_path / "2.parquet")
        with pytest.raises(SqlStreamError, match=r'SS467: column "v" is in nanoseconds in file ".*2.parquet"'):
            job.wait(60)
        assert AT in [v for (v,) in rows(session, "SELECT v FROM t LIMIT 2")]


def test_orc_reads_the_timestamp_ntz_that_it_writes(spark, tmp_path):
    noon = datetime(2024, 1, 31, 12)
    with Session(spark) as session:
        table(session, "t", "k BIGINT, v TIMESTAMP_NTZ, l ARRAY<TIMESTAMP_NTZ>", tmp_path / "o", "orc")
        session.sql("CREATE TABLE one (a BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
        written: Any = session.sql(
            "INSERT INTO t SELECT CAST(0 AS BIGINT), TIMESTAMP_NTZ '2024-01-31 12:00:00',"
            " ARRAY(TIMESTAMP_NTZ '2024-01-31 12:00:00') FROM one"
        )
        written.wait()
        for door, found in at_all_doors(session, ["v", "l"]).items():
            assert found == [(noon, [noon])], door
        orc.write_table(pa.table({"v": pa.array([noon], pa.timestamp("us"))}), tmp_path / "x.orc")
        table(session, "other", "v TIMESTAMP_NTZ", tmp_path / "x.orc", "orc")
        with pytest.raises(SqlStreamError, match=r'SS467: column "v" is TIMESTAMP in file ".*x\.orc", not'):
            rows(session, "SELECT v FROM other")


def test_an_empty_partitioned_folder_has_no_rows_in_any_format(spark, tmp_path):
    with Session(spark) as session:
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            for kind in ("json", "csv", "parquet", "orc", "arrow", "debezium-json"):
                folder = tmp_path / mode / kind
                (folder / "day=2024-01-31").mkdir(parents=True)
                name = f"t_{mode}_{kind.replace('-', '_')}"
                table(session, name, "a STRING, day DATE", folder, kind, **{"partition-by": "day"})
                assert rows(session, f"SELECT a, day FROM {name}") == []


NAMES = ["a b", "ä", "a+b", "a%20b", "a#b", "100%"]


def test_names_are_those_of_the_file_system_not_of_urls(spark, tmp_path):
    for name in NAMES:
        folder = tmp_path / "in" / name / "k=a%20b%23+ä"
        folder.mkdir(parents=True)
        (folder / f"{name}.csv").write_text("1\n")
    with Session(spark) as session:
        columns = "a INT, k STRING, n STRING METADATA FROM 'file.name', p STRING METADATA FROM 'file.path'"
        found: dict[str, list[Any]] = {}
        for name in NAMES:
            path = tmp_path / "in" / name
            table(session, f"t{len(found)}", columns, path, "csv", **{"partition-by": "k"})
            found[name] = rows(session, f"SELECT k, n, p FROM t{len(found)}")
        assert found == {
            n: [("a b#+ä", f"{n}.csv", str(tmp_path / "in" / n / "k=a%20b%23+ä" / f"{n}.csv"))] for n in NAMES
        }


def test_a_colon_in_the_name_of_a_file_is_read_by_tasks_and_the_reason_where_spark_reads(spark, tmp_path):
    (tmp_path / "a:b.csv").write_text("1\n")
    with Session(spark) as session:
        table(session, "t", "a INT", tmp_path, "csv")
        assert rows(session, "SELECT a FROM t") == [(1,)]
        session.sql("SET 'sqlstream.file-reader' = 'spark'")
        with pytest.raises(SqlStreamError, match=r"SS528: .*its name has a colon"):
            rows(session, "SELECT a FROM t")


def text(*values: bytes) -> pa.Array:
    """A column of Arrow's type for texts, whatever the bytes are."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_text_that_is_no_utf8_is_named_with_column_row_and_file(spark, tmp_path, form):
    write = {"parquet": pq.write_table, "orc": orc.write_table}[form]
    names = text(b"a", b"b", b"c\xff")
    listed = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), names)
    write(pa.table({"k": [0, 1, 2], "name": names, "all": listed}), tmp_path / f"1.{form}")
    with Session(spark) as session:
        table(session, "t", "k BIGINT, name STRING", tmp_path, form)
        table(session, "nested", "k BIGINT, `all` ARRAY<STRING>", tmp_path, form)
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            for query, kind in (("SELECT k, name FROM t", "STRING"), ("SELECT `all` FROM nested", "ARRAY<STRING>")):
                with pytest.raises(SqlStreamError) as caught:
                    rows(session, query)
                assert re.fullmatch(
                    rf'SS402: column "(name|all)" of type {kind} is .+ in row 3 of file "{tmp_path}/1.{form}"\n.*',
                    str(caught.value),
                )


@pytest.mark.parametrize("form", usually(["parquet", "orc", "arrow"], "parquet"))
def test_rows_with_values_that_their_columns_lack_go_where_on_error_says(spark, tmp_path, form):
    write = {"parquet": pq.write_table, "orc": orc.write_table, "arrow": feather.write_feather}[form]
    prices = pa.array([Decimal("1.50"), Decimal("12345.00")])
    write(pa.table({"k": [0, 1], "price": prices, "name": [b"a", b"b"]}), str(tmp_path / f"1.{form}"))
    write(pa.table({"k": [2], "price": prices.slice(0, 1), "name": [b"\xff"]}), str(tmp_path / f"2.{form}"))
    columns = "k BIGINT, price DECIMAL(5, 2), name STRING"
    with Session(spark) as session:
        table(session, "t", columns, tmp_path, form, **{"on-error": "skip"})
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            assert rows(session, "SELECT k, price, name FROM t") == [(0, Decimal("1.50"), "a")], mode
        session.sql("CREATE TABLE dead (record STRING, error STRING, place STRING) WITH ('connector' = 'memory')")
        table(session, "letters", columns, tmp_path, form, **{"on-error": "dead-letter:dead"})
        session.sql(
            "CREATE TABLE sums (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'memory')"
        )
        job = session.sql("INSERT INTO sums SELECT k, COUNT(*) FROM letters GROUP BY k")
        assert isinstance(job, Job)
        job.wait()
        assert rows(session, "SELECT k, n FROM sums") == [(0, 1)]
        letters = sorted(rows(session, "SELECT error, place FROM dead"))
        assert letters == [
            ('SS402: column "name" of type STRING is "\ufffd"', f"{tmp_path}/2.{form}: row 1"),
            ('SS402: column "price" of type DECIMAL(5, 2) is 12345.00', f"{tmp_path}/1.{form}: row 2"),
        ]
        table(session, "strict", columns, tmp_path, form)
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            with pytest.raises(
                SqlStreamError, match=r'SS402: column "(price|name)" of type .* is .* in row \d of file'
            ):
                rows(session, "SELECT k, price, name FROM strict")
