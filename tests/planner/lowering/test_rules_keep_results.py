"""The rules of the planner change plans, never rows: bound and optimized plans run side by side."""

from __future__ import annotations

import dataclasses

import pytest

from sqlstream.grammar import parse_query
from sqlstream.planner import bind_query, optimize
from sqlstream.planner.catalog import Column, TimeDomain
from tests.depth import usually
from tests.streams import sql, table

pytestmark = pytest.mark.spark

BIDS = table("bids", delay_ms=200, k="STRING", v="INT", tags="ARRAY<STRING>", ts="TIMESTAMP")
COLUMNS = tuple(dataclasses.replace(c, time=TimeDomain.EVENT) if c.name == "ts" else c for c in BIDS.columns)
DOUBLED = Column("twice", dataclasses.replace(BIDS.columns[1].type), expression=sql("v * 2"))
WITH_COMPUTED = dataclasses.replace(BIDS, columns=(*COLUMNS, DOUBLED))
ROWS = [(k, i % 7, ["x", "y"][: i % 3], i * 137 - 2000) for i in range(60) for k in ("a", None)]

QUERIES = (
    "SELECT k, twice + 1 AS x, upper(k) FROM bids WHERE twice > 6 AND 1 < 2",
    "SELECT window_start, k, SUM(v), COUNT(DISTINCT v) FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' SECOND) "
    "WHERE v > 2 GROUP BY window_start, window_end, k HAVING COUNT(*) > 1",
    "SELECT k, window_end, MAX(twice) FROM bids WHERE k = 'a' GROUP BY k, SESSION(ts, INTERVAL '0.3' SECOND)",
    "SELECT k, window_start, v FROM SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.2' SECOND) "
    "WHERE v = 3",
    "SELECT window_end, MAX(n) FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM "
    "HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND) GROUP BY window_start, window_end, k) "
    "GROUP BY window_start, window_end",
    "SELECT k, v, window_time, COUNT(*) FROM bids "
    "GROUP BY GROUPING SETS ((k), (v), ()), CUMULATE(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND)",
    "SELECT tag, v FROM bids CROSS JOIN UNNEST(tags) AS t (tag) WHERE v < 3 "
    "UNION ALL SELECT k, twice FROM bids WHERE v = 1",
)


class Bids:
    """A catalog of one table."""

    def relation(self, name):
        return WITH_COMPUTED if name.lower() == "bids" else None

    def function(self, name):
        return None

    def relation_names(self):
        return ["bids"]

    def function_names(self):
        return []

    def within(self, namespace: tuple[str, str] | None) -> Bids:
        return self

    def cached_for_view(self, view, settings, answer):
        return answer(self)

    def with_options(self, table, options, span):
        return table


@pytest.mark.parametrize("query", usually(QUERIES, *(QUERIES[i] for i in (0, 3, 5))))
def test_bound_and_optimized_plans_give_the_same_rows(streams, query):
    streams.write(BIDS, ROWS)
    plan = bind_query(parse_query(query), Bids())
    optimized = optimize(plan)
    assert optimized != plan
    rows = streams.run(plan)
    assert rows
    assert streams.run(optimized) == rows
