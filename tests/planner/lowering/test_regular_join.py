"""Regular joins on Spark: columns of both sides, conditions, rows without a key, time to live."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

from sqlstream.planner.lowering.columnar.joins import with_hash
from sqlstream.planner.operators.join import Equality, RegularJoin
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND
from tests.streams import in_order, scan, sql, table

ORDERS = table("orders", id="BIGINT", item="STRING", amount="DOUBLE", tags="ARRAY<INT>")
SENT = table("sent", order_id="INT", city="STRING", cost="DOUBLE", places="MAP<STRING, INT>")


EQUAL = Equality(sql("id"), sql("CAST(order_id AS BIGINT)"))


def join(kind: JoinKind = JoinKind.FULL, **more: Any) -> RegularJoin:
    return replace(RegularJoin(scan(ORDERS), scan(SENT), kind, (EQUAL,)), **more)


@pytest.mark.spark
def test_rows_of_both_sides_meet(streams):
    streams.engine = "columnar"
    streams.write(ORDERS, [(1, "a", 2.0, [1]), (2, "b", 1.0, None), (None, "c", 0.0, [])])
    streams.write(
        SENT, [(1, "Rome", 1.0, {"x": 1}), (1, "Bonn", 3.0, None), (3, "Oslo", 0.0, {}), (None, "Ulm", 0.0, {})]
    )
    condition = sql("upper(item) < city AND amount > cost")
    assert streams.run(join(condition=condition)) == in_order([
        (1, "a", 2.0, [1], 1, "Rome", 1.0, [("x", 1)], "+I"),
        (2, "b", 1.0, None, None, None, None, None, "+I"),
        (None, "c", 0.0, [], None, None, None, None, "+I"),
        (None, None, None, None, 1, "Bonn", 3.0, None, "+I"),
        (None, None, None, None, 3, "Oslo", 0.0, [], "+I"),
        (None, None, None, None, None, "Ulm", 0.0, [], "+I"),
    ])  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize(("null_safe", "hashes"), [(False, 100), (True, 1)])
def test_inserts_with_a_null_that_equals_nothing_are_in_many_key_groups(spark, null_safe, hashes):
    schema = "id BIGINT, item STRING, amount DOUBLE, tags ARRAY<INT>, __key_0 BIGINT"
    rows = spark.createDataFrame([(None, str(i), 0.0, [i], None) for i in range(100)], schema)
    node = join(equal=(replace(EQUAL, null_safe=null_safe),))
    assert with_hash(node, rows, ("__key_0",)).select(KEY_HASH).distinct().count() == hashes
    updating = rows.withColumn(ROW_KIND, F.lit("+I"))
    assert with_hash(node, updating, ("__key_0",)).select(KEY_HASH).distinct().count() == 1, "in the order of changes"


def test_texts_and_facts_tell_how_long_rows_live():
    node = join(JoinKind.LEFT, ttl_ms=(0, 60_000))
    assert node.describe() == (
        "RegularJoin(LEFT; id = CAST(order_id AS BIGINT); rows of the left side live for ever, of the right side 1 min)"
    )
    facts = dict(node.state_facts())
    assert facts["time to live of the left side"] == "for ever"
    assert facts["time to live of the right side"] == "1 min"
    assert node.uses_processing_time and not join().uses_processing_time
