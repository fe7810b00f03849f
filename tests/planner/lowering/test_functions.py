"""Python functions of each kind in streaming plans."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from typing import NamedTuple

import pandas as pd
import pytest

from sqlstream.planner.nodes import Correlate, Filter, Project
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import Session, Tumble
from sqlstream.udfs.functions import scalar
from tests.streams import at, fields, in_order, item, scan, sql, table, timed

pytestmark = pytest.mark.spark

BIDS = table("bids", k="STRING", price="DECIMAL(10, 2)", ts="TIMESTAMP")
ROWS = [("a", Decimal("1.50"), -5), ("b", Decimal("2.00"), 10), ("a", None, 20), ("a", Decimal("4.00"), 999)]


class Letter(NamedTuple):
    letter: str
    position: int


def taxed(price: float, rate: float = 0.5) -> float | None:
    return price * (1 + rate) if price else None


def seven() -> int:
    return 7


@scalar(returns="STRING", vectorized=True)
def shout(text: pd.Series) -> pd.Series:
    return text.str.upper() + "!"


def later(ts: datetime) -> datetime:
    return ts.replace(year=ts.year + 1)


def letters(text: str, times: int) -> Iterator[Letter]:
    for i in range(times):
        yield Letter(text, i)


class Spread:
    """Largest minus smallest, NULL without values."""

    def create(self) -> list[float]:
        return []

    def accumulate(self, state: list[float], value: float, factor: int) -> None:
        if value is not None:
            state.append(value * factor)

    def merge(self, state: list[float], other: list[float]) -> list[float]:
        return state + other

    def finish(self, state: list[float]) -> float | None:
        return max(state) - min(state) if state else None


@pytest.fixture
def functions(streams):
    collected = (taxed, seven, shout, later, letters)
    streams.implementations.update({f.__name__: f for f in collected}, spread=Spread)
    streams.write(BIDS, ROWS)
    return streams


def test_scalar_functions_get_arguments_of_their_declared_types(functions):
    plan = Project(
        Filter(scan(BIDS), sql("taxed(price, 1) > seven() - 5 OR price IS NULL")),
        (item("a", "taxed(price)"), item("b", "shout(k)"), item("c", "later(ts)"), item("d", "seven() + 1")),
    )
    assert functions.run(plan) == in_order(
        (None if p is None else float(p) * 1.5, f"{k.upper()}!", at(ts).replace(year=at(ts).year + 1), 8)
        for k, p, ts in ROWS
    )


@pytest.mark.parametrize("session", [None, Session(10_000)])
def test_aggregate_functions_run_over_the_rows_of_a_window(functions, session):
    rows = timed(BIDS) if session else AssignWindows(timed(BIDS), Tumble(10_000), "ts", ())
    aggregates = (
        item("s", "spread(price, 2)"),
        item("f", "spread(price, 1) FILTER (WHERE price > 100)"),
        item("n", "COUNT(*)"),
    )
    actual = functions.run(WindowAggregate(rows, ("k",), aggregates, window=session, time="ts" if session else None))
    results = in_order((row[0], *row[4:]) for row in actual)
    split = [("a", 0.0, None, 1), ("a", 0.0, None, 2), ("b", 0.0, None, 1)]
    assert results == in_order([("a", 5.0, None, 3), ("b", 0.0, None, 1)] if session else split)


@pytest.mark.parametrize("outer", [True, False])
def test_table_functions_give_rows_for_each_row(functions, outer):
    call = sql("letters(k, CASE k WHEN 'a' THEN 2 ELSE 0 END)")
    plan = Correlate(Project(scan(BIDS), (item("k", "k"),)), call, fields(l="STRING", i="BIGINT"), outer)
    expected = [("a", "a", i) for i in (0, 1)] * 3 + [("b", None, None)] * outer
    assert functions.run(plan) == in_order(expected)


def test_functions_of_the_scripts_folder_and_the_modules_they_use_reach_the_workers(streams, tmp_path, monkeypatch):
    (tmp_path / "far_away_rates.py").write_text("RATE = 3\n")
    (tmp_path / "far_away.py").write_text(
        "import far_away_rates\n\n\ndef rated(x: int) -> int:\n    return x * far_away_rates.RATE\n"
    )
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        streams.implementations["rated"] = import_module("far_away").rated
        streams.write(BIDS, ROWS[:1])
        assert streams.run(Project(scan(BIDS), (item("x", "rated(14)"),))) == [(42,)]
    for name in ("far_away", "far_away_rates"):
        sys.modules.pop(name)
