"""The benchmark of skew and scale: what it reads, its queries, and the tables that it makes of measurements."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from examples.throughput import scale
from examples.throughput.bids import write_bids
from examples.throughput.measure import Batches
from examples.throughput.scale import PARTS, QUERIES, USUAL, Measurement, Model
from examples.throughput.windows import Steady
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.join import RegularJoin
from tests.planner.plans import plan

_TABLES = "".join(
    f"{scale._TABLE.format(name=name, columns=columns, folder='/tmp')};" for name, columns in scale._COLUMNS.items()
)
_TINY = ("--rows", "400", "--batch", "100", "--events", "100", "400", "--keys", "10", "300", "--year-batches", "20")


def _chosen(*words: str):
    return scale.parser().parse_args([*_TINY, "--year-rows", "50", *words])


class _Measured:
    """Stands in for Spark: notes what is measured, and answers with as many micro-batches as there are files."""

    def __init__(self) -> None:
        self.asked: list[Measurement] = []

    def __call__(self, measurement: Measurement) -> Batches:
        self.asked.append(measurement)
        files = sorted((Path(measurement.folder) / "bids").iterdir())
        rows = [pq.read_metadata(file).num_rows for file in files]
        count = len(rows)
        return Batches(rows, [10] * count, [0.02] * count, 700, 3 << 20, [500] * count, [4096] * count, [7] * count)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_makes_its_table_of_what_is_measured(part):
    measure = _Measured()
    (table,) = PARTS[part](_chosen(), measure)
    assert table.row_count == {"skew": 8, "tasks": 8, "events": 4, "keys": 2, "year": 10, "cluster": 4}[part]
    assert {measurement.query for measurement in measure.asked} <= QUERIES.keys()
    assert Measurement(**json.loads(json.dumps(asdict(measure.asked[0])))) == measure.asked[0]


def test_the_usual_run_needs_no_cluster():
    assert _chosen().only == USUAL == ["skew", "tasks", "events", "keys", "year"]
    assert _chosen("--only", "year").only == ["year"]


@pytest.mark.parametrize(("query", "kind"), [("interval join", IntervalJoin), ("regular join", RegularJoin)])
def test_joins_are_what_they_are_called(query, kind):
    assert any(isinstance(node, kind) for node in plan(QUERIES[query], _TABLES).walk())


def test_a_hot_key_has_half_of_the_rows_and_each_bid_has_one_auction(tmp_path):
    files = scale.bids_in(tmp_path, 40_000, _chosen("--batch", "10000"), keys=1_000, hot=0.5)
    scale.write_auctions(tmp_path / "auctions", 1_000, files, 10_000)
    bids, auctions = pq.read_table(tmp_path / "bids"), pq.read_table(tmp_path / "auctions")
    assert len(bids) == 40_000
    assert pc.sum(pc.equal(bids["auction"], 0)).as_py() == pytest.approx(20_000, rel=0.05)
    assert len(bids.join(auctions, "auction", join_type="inner")) == 40_000
    opened = dict(zip(auctions["auction"].to_pylist(), auctions["at"].to_pylist(), strict=True))
    seen = [*zip(bids["auction"].to_pylist(), bids["at"].to_pylist(), strict=True)]
    assert all(0 <= (at - opened[auction]).total_seconds() <= 24 * 3600 for auction, at in seen[::40])


def test_the_bids_of_a_year_are_as_far_apart(tmp_path):
    write_bids(tmp_path / "bids", 4, 100, 10, per_second=400 / scale.YEAR_S)
    times = pq.read_table(tmp_path / "bids")["at"]
    assert (pc.max(times).as_py() - pc.min(times).as_py()).days == pytest.approx(364, abs=1)


def test_a_hot_key_is_judged_beside_uniform_ones():
    figures = {"uniform": Steady(600_000, 3.0, 1000, 2), "one hot": Steady(100_000, 9.0, 900, 2)}
    assert [row[3:5] for row in scale._skew_rows("regular join", figures)] == [
        ["", ""],
        ["0.17 × as fast", "≤ 5 × slower: missed"],
    ]
    assert [row[4] for row in scale._skew_rows("GROUP BY", figures)] == ["", ""]


def test_a_micro_batch_has_a_share_of_a_row_for_each_core_and_one_that_is_not_shared():
    model = Model.of((100, 1.2), (400, 1.8))
    assert model is not None
    assert (model.fixed_s, model.per_row_s) == pytest.approx((1.0, 0.002))
    assert model.rows_per_second(1000, 2) == pytest.approx(500)


def test_nothing_is_predicted_where_more_rows_took_no_longer():
    assert Model.of((100, 1.2), (400, 1.2)) is None
    assert scale._cluster_row("GROUP BY", None, 400, 50.0)[4:] == ["–", "50", "–"]
    assert scale._cluster_row("GROUP BY", Model(1.0, 0.002), 1000, 250.0)[4:] == ["500", "250", "0.50"]
