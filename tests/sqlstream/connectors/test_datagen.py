"""Generated rows: their number, their values, their pace, and that a restart makes the same ones."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from itertools import pairwise

import pytest

from sqlstream.connectors import source_connector

pytestmark = pytest.mark.spark

ALL_TYPES = (
    "b BOOLEAN; t TINYINT; s SMALLINT; i INT; l BIGINT; f FLOAT; d DOUBLE; m DECIMAL(10, 2); w DECIMAL(38, 4); "
    "c STRING; x BINARY; a DATE; ts TIMESTAMP; n TIMESTAMP_NTZ"
)


def test_a_bounded_table_has_its_number_of_rows_of_all_types(make_table, read_all) -> None:
    rows = read_all(make_table("datagen", ALL_TYPES, number_of_rows=50))
    assert len(rows) == 50
    assert all(value is not None for row in rows for value in row)
    by_column = list(zip(*rows, strict=True))
    assert {len(set(values)) for values in by_column[2:11]} == {50}
    assert set(by_column[0]) == {True, False}
    assert {(len(c), len(x)) for c, x in zip(by_column[9], by_column[10], strict=True)} == {(100, 100)}
    assert (min(by_column[3]) < 0 < max(by_column[3])) and (min(by_column[7]) < 0 < max(by_column[7]))


def test_options_of_fields_shape_their_values(make_table, read_all) -> None:
    columns = "i INT; l BIGINT; d DOUBLE; m DECIMAL(4, 2); c STRING; z INT; q STRING"
    options = {
        "fields__i__min": -2, "fields__i__max": 2, "fields__l__min": 5, "fields__l__max": 5, "fields__d__min": 0.5,
        "fields__d__max": 0.75, "fields__m__min": "-0.1", "fields__m__max": "0.1", "fields__c__length": 33,
        "fields__z__null_rate": 0.5, "fields__q__kind": "sequence", "fields__q__start": 10, "fields__q__end": 209,
    }  # fmt: skip
    rows = read_all(make_table("datagen", columns, **options))
    i, ls, d, m, c, z, q = zip(*rows, strict=True)
    assert set(i) == {-2, -1, 0, 1, 2}
    assert set(ls) == {5}
    assert 0.5 <= min(d) < 0.55 and 0.7 < max(d) <= 0.75
    assert min(m) == Decimal("-0.10") and max(m) == Decimal("0.10")
    assert {len(text) for text in c} == {33} and len(set(c)) == 200
    assert 60 < sum(value is None for value in z) < 140
    assert list(q) == [str(n) for n in range(10, 210)]


def test_rows_arrays_and_maps_are_made_of_their_parts(make_table, read_all) -> None:
    columns = (
        "buyer STRUCT<name: STRING, age: INT, at: TIMESTAMP, n: BIGINT>; tags ARRAY<STRING>; "
        "m MAP<INT, DOUBLE>; deep ARRAY<STRUCT<xs: ARRAY<INT>>>; a INT"
    )
    options = {
        "fields__buyer.name.length": 5, "fields__buyer.age.min": 18, "fields__buyer.age.max": 20,
        "fields__buyer.n.kind": "sequence", "fields__buyer.n.start": 1, "fields__buyer.n.end": 40,
        "fields__buyer.age.null-rate": 0.5, "fields__tags.length": 4, "fields__tags.element.length": 2,
        "fields__m.key.min": 1, "fields__m.key.max": 2, "fields__deep.element.xs.length": 2, "fields__m.length": 5,
        "fields__m.null-rate": 0.5,
    }  # fmt: skip
    rows = read_all(make_table("datagen", columns, **options))
    buyers, tags, maps, deep, _ = zip(*rows, strict=True)
    assert [b.n for b in buyers] == [*range(1, 41)] and {len(b.name) for b in buyers} == {5}
    assert {b.age for b in buyers} == {None, 18, 19, 20} and all(b.at for b in buyers)
    assert {len(t) for t in tags} == {4} and len({text for t in tags for text in t}) > 50
    assert {text for t in tags for text in t if len(text) != 2} == set()
    assert None in maps and {key for m in maps if m for key in m} == {1, 2}
    assert {len(d) for d in deep} == {3} and len({x for d in deep for e in d for x in e.xs}) == 40 * 3 * 2
    alone = make_table("datagen", "a INT", number_of_rows=40)
    assert len(read_all(alone, checkpoint="alone")) == 40


def test_timestamps_lie_in_the_past_that_was_asked_for(make_table, read_all) -> None:
    options = {"number_of_rows": 20, "fields__past__max_past": "1 h"}
    before = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=1)
    rows = read_all(make_table("datagen", "now TIMESTAMP; past TIMESTAMP", **options))
    assert all(now >= before and 0 <= (now - past).total_seconds() <= 3600 for now, past in rows)
    assert len({past for _, past in rows}) == 20


def test_timestamps_have_the_rate_of_the_rows_wherever_micro_batches_end(make_table, read_all) -> None:
    """A window of a second has the rows of a second, also where a slow machine takes those of many at once."""
    rows = read_all(make_table("datagen", "at TIMESTAMP", rows_per_second=10, number_of_rows=25))
    times = sorted(at for (at,) in rows)
    assert {later - sooner for sooner, later in pairwise(times)} == {timedelta(milliseconds=100)}


def test_values_depend_on_the_seed_and_not_on_the_columns_that_are_read(make_table, read_all) -> None:
    def table(**options: object):
        return make_table("datagen", "a BIGINT; b BIGINT", number_of_rows=5, **options)

    both = read_all(table(), checkpoint="1")
    assert read_all(table(seed=0), "b", checkpoint="2") == [(b,) for _, b in both]
    assert read_all(table(seed=1), "b", checkpoint="3") != [(b,) for _, b in both]


def test_a_restart_goes_on_where_it_stopped(make_table, read_all) -> None:
    sequence = {"fields__a__kind": "sequence", "fields__a__start": 0, "fields__a__end": 1000}
    assert read_all(make_table("datagen", "a INT", number_of_rows=3, **sequence)) == [(0,), (1,), (2,)]
    assert read_all(make_table("datagen", "a INT", number_of_rows=5, **sequence)) == [(3,), (4,)]
    assert read_all(make_table("datagen", "a INT", number_of_rows=5, **sequence)) == []


@pytest.mark.skipif(
    version("pyspark").startswith("4.1."), reason="PySpark 4.1 lets no source in Python wait in a bounded run"
)
def test_rows_keep_the_rate(make_table, environment, tmp_path) -> None:
    table = make_table("datagen", "a INT", rows_per_second=10, number_of_rows=25)
    read = source_connector("datagen").read
    sizes: list[tuple[int, float]] = []
    writer = read(environment, table, ("a",)).writeStream.foreachBatch(
        lambda rows, _: sizes.append((rows.count(), time.monotonic()))
    )
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    total = sum(size for size, _ in sizes)
    # A slow machine may have several seconds due at once, but never more than the rate allows.
    assert (total, sizes[0][0]) == (25, 10) and len(sizes) in (2, 3)


def test_of_an_endless_table_a_second_is_there(make_table, read_all) -> None:
    table = make_table("datagen", "a INT", rows_per_second=50)
    assert [len(read_all(table)) for _ in range(2)] == [50, 50], "a job that is drained, or keeps pauses, ends"


def test_an_endless_table_goes_on(make_table, environment, tmp_path) -> None:
    table = make_table("datagen", "a INT", rows_per_second=50)
    read = source_connector("datagen").read
    sizes: list[int] = []
    writer = read(environment, table, ("a",)).writeStream.foreachBatch(lambda rows, _: sizes.append(rows.count()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        deadline = time.monotonic() + 20
        while sum(1 for size in sizes if size) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sum(sizes) >= 100 and all(size % 50 == 0 for size in sizes)
    finally:
        query.stop()


def test_each_of_several_sessions_of_spark_has_the_source(make_table, environment) -> None:
    read, table = source_connector("datagen").read, make_table("datagen", "n BIGINT")
    other = environment.spark.newSession()
    for spark in (environment.spark, other, environment.spark, other):
        assert read(replace(environment, spark=spark), table, ("n",)).isStreaming
