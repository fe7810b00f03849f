"""The benchmark of joins: its data, its queries and what it says of them."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from examples.throughput import stream_joins
from examples.throughput.queries import FILES
from examples.throughput.stream_joins import QUERIES, RECENT_S, write_auctions
from examples.throughput.windows import Steady
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.join import RegularJoin
from sqlstream.planner.operators.over import Over
from tests.planner.plans import plan

_TABLES = "".join(
    f"{stream_joins._TABLE.format(name=name, columns=columns, folder='/tmp')};"
    for name, columns in (("bids", "bidder BIGINT, price BIGINT"), ("auctions", "seller BIGINT"))
)


@pytest.mark.parametrize(
    ("query", "kind"), [*zip(QUERIES, (IntervalJoin, RegularJoin, Over), strict=True)], ids=list(QUERIES)
)
def test_queries_are_what_they_are_called(query, kind):
    assert any(isinstance(node, kind) for node in plan(QUERIES[query], _TABLES).walk())


def test_bids_are_for_auctions_of_the_last_seconds(tmp_path):
    write_auctions(tmp_path, rows=100_000, keys=1_000)
    bids, auctions = (pq.read_table(tmp_path / name) for name in ("bids", "auctions"))
    assert bids.num_rows + auctions.num_rows == 100_000
    assert len(list((tmp_path / "bids").iterdir())) == FILES
    opened = dict(zip(auctions["auction"].to_pylist(), auctions["at"].to_pylist(), strict=True))
    assert len(opened) == 1_000
    bid_on = [*zip(bids["auction"].to_pylist(), bids["at"].to_pylist(), strict=True)]
    late = [(at - opened[auction]).total_seconds() for auction, at in bid_on[::50]]
    assert max(late) <= RECENT_S + 1


def test_a_row_says_what_was_wanted():
    measured = {"sqlstream": Steady(600_000, 3.0, 1000, 2), "Spark": Steady(150_000, 12.0, 900, 2)}
    ours, theirs = (stream_joins._row("interval join", name, measured[name], measured) for name in measured)
    assert ours[:2] == ["600,000", "3.00"]
    assert ours[3] == "≥ 500,000 rows/s: holds"
    assert theirs[2:4] == ["4.0 × slower", "≥ 3 ×: holds"]
