"""The kernel against a model that tries one mapping after the other."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.grammar import match_recognize_of, parse_query
from sqlstream.grammar import nodes as n
from sqlstream.planner.match_patterns import automaton_of
from sqlstream.udfs.aggregates import AggregateCall
from sqlstream.udfs.expressions.tree import And, Column, Compared, Comparison, Expression, IsNull, Or
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, LATE_ROWS, Domain
from sqlstream.udfs.match import search
from sqlstream.udfs.match.automaton import Skip, SkipTo
from sqlstream.udfs.match.definitions import Aggregated, Classifier, Current, Definition, Mapped, MatchNumber
from sqlstream.udfs.match.kernel import MatchKernel
from sqlstream.udfs.over.line import Tie
from sqlstream.udfs.state.keyed import KeyedState
from tests.depth import depth
from tests.udfs.match.model import Condition, Model

MS = 1000
SCHEMA = pa.schema([
    (KEY_HASH, pa.int64()),
    ("k", pa.string()),
    ("ts", pa.timestamp("us", "UTC")),
    ("v", pa.int64()),
    *((f"c{i}", pa.int64()) for i in range(6)),
])  # fmt: skip

PAST, NEXT = Skip(SkipTo.PAST_LAST_ROW), Skip(SkipTo.NEXT_ROW)


def pattern_of(text: str) -> n.Pattern:
    query = parse_query(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN ({text}) DEFINE z AS TRUE)")
    clause = match_recognize_of(query)
    assert clause is not None
    return clause.pattern


# --- conditions, each with what the model says of it ----------------------------------------------------------


def current(shift: int = 0) -> Current:
    return Current(f"now{shift}", "v", shift)


def last(variable: str | None, offset: int = 0) -> Mapped:
    return Mapped(f"last_{variable}_{offset}", "v", variable, True, offset)


def first(variable: str | None, offset: int = 0) -> Mapped:
    return Mapped(f"first_{variable}_{offset}", "v", variable, False, offset)


def total(variable: str | None, function: str = "sum") -> Aggregated:
    kind = pa.float64() if function == "avg" else pa.int64()
    return Aggregated(AggregateCall(f"{function}_{variable}", function, ("v",), kind), variable)


def compared(comparison: Comparison, left: Any, right: Any) -> Expression:
    return Compared(comparison, Column(left.name), Column(right.name))


def constant(value: int) -> Current:
    return Current(f"c{value}", f"c{value}")


class Case:
    """A condition on rows of ``variable``."""

    def __init__(self, condition: Expression, operands: list[Any], said: Condition) -> None:
        self.condition, self.operands, self.said = condition, operands, said


def _less(left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else left < right


def cases(own: str, other: str) -> dict[str, Case]:
    """The conditions that variables may have."""
    now, before, after = current(), current(-1), current(1)
    greater_than_last = Or((IsNull(Column(last(own, 1).name)), compared(Comparison.LESS, last(own, 1), now)))
    return {
        "small": Case(compared(Comparison.LESS, now, constant(3)), [now, constant(3)], lambda p: p.row["v"] < 3),
        "large": Case(compared(Comparison.LESS, constant(2), now), [now, constant(2)], lambda p: p.row["v"] > 2),
        "rises": Case(compared(Comparison.LESS, before, now), [now, before], lambda p: _less(p.near(-1), p.near(0))),
        "will rise": Case(compared(Comparison.LESS, now, after), [now, after], lambda p: _less(p.near(0), p.near(1))),
        "above its last": Case(
            greater_than_last,
            [last(own, 1), now],
            lambda p: p.last(own, 1) is None or p.last(own, 1) < p.row["v"],
        ),
        "above the other": Case(
            compared(Comparison.LESS, last(other), now),
            [last(other), now],
            lambda p: _less(p.last(other), p.row["v"]),
        ),
        "above the second of the other": Case(
            compared(Comparison.LESS, first(other, 1), now),
            [first(other, 1), now],
            lambda p: _less(p.first(other, 1), p.row["v"]),
        ),
        "not above its first": Case(
            compared(Comparison.LESS_OR_EQUAL, now, first(own)),
            [first(own), now],
            lambda p: p.row["v"] <= p.first(own),
        ),
        "above the row before the last": Case(
            compared(Comparison.LESS, last(None, 2), now),
            [last(None, 2), now],
            lambda p: _less(p.last(None, 2), p.row["v"]),
        ),
        "sum of its own": Case(
            And((compared(Comparison.LESS, total(own), constant(5)), compared(Comparison.LESS, now, constant(4)))),
            [total(own), constant(5), constant(4), now],
            lambda p: sum(r["v"] for r in p.mapped_to(own)) < 5 and p.row["v"] < 4,
        ),
        "sum of the other": Case(
            compared(Comparison.LESS, constant(2), total(other)),
            [total(other), constant(2)],
            lambda p: sum(r["v"] for r in p.mapped_to(other)) > 2 if p.mapped_to(other) else None,
        ),
        "sum of all": Case(
            compared(Comparison.LESS, total(None), constant(5)),
            [total(None), constant(5)],
            lambda p: sum(r["v"] for r in p.mapped_to(None)) < 5,
        ),
    }  # fmt: skip


CHOICES = sorted(cases("A", "B"))
OTHER = {"A": "B", "B": "A", "C": "A"}


def possible(pattern: n.Pattern, chosen: dict[str, str]) -> dict[str, str]:
    """Without conditions that read variables which the pattern has not."""
    names = automaton_of(pattern).names
    read = {v: [getattr(o, "variable", None) for o in cases(v, OTHER[v])[name].operands] for v, name in chosen.items()}
    return {v: chosen[v] for v, variables in read.items() if {v, *variables} - {None} <= set(names)}


MEASURES = (
    Mapped("first", "v", None, last=False),
    Mapped("last", "v", None),
    Mapped("last_b", "v", "B"),
    Mapped("second_a", "v", "A", last=False, offset=1),
    total("A"),
    total(None, "count"),
    Classifier("classifier"),
    MatchNumber("number"),
)


def kernel(
    pattern: n.Pattern | str,
    chosen: dict[str, str],
    skip: Skip = PAST,
    within: int | None = None,
    domain: Domain = Domain.EVENT,
    **options: Any,
) -> MatchKernel:
    parsed = pattern_of(pattern) if isinstance(pattern, str) else pattern
    by_variable = {v: cases(v, OTHER[v])[name] for v, name in chosen.items()}
    operands = {o.name: o for case in by_variable.values() for o in case.operands}
    definitions = tuple(Definition(v, case.condition) for v, case in by_variable.items())
    settings = {"measures": MEASURES, "passed": ("k",), **options}
    return MatchKernel(
        SCHEMA,
        ("k",),
        "ts",
        automaton=automaton_of(parsed),
        definitions=definitions,
        operands=tuple(operands.values()),
        skip=skip,
        within=within,
        domain=domain,
        **settings,
    )


def model(pattern: n.Pattern, chosen: dict[str, str], skip: Skip, within: int | None) -> Model:
    return Model(pattern, {v: cases(v, OTHER[v])[name].said for v, name in chosen.items()}, skip, within)


def expected(found: Model, rows: list[dict[str, Any]], *, ties: bool = False) -> dict[str, list[tuple[Any, ...]]]:
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: (r["ts"], -r["v"] if ties else 0)):
        by_key[row["k"]].append(row)
    results: dict[str, list[tuple[Any, ...]]] = {}
    for key, own in by_key.items():
        matches = found.matches(own)
        lines = []
        for number, match in enumerate(matches, 1):
            a = [r["v"] for r in match.mapped_to("A")]
            all_rows = match.mapped_to(None)
            lines.append((
                key, all_rows[0]["v"], all_rows[-1]["v"], match.last("B"), match.first("A", 1),
                sum(a) if a else None, len(all_rows), match.path[-1], number,
            ))  # fmt: skip
        if lines:
            results[key] = lines
    return results


def row(k: str, ms: int, v: int) -> dict[str, Any]:
    return {"k": k, "ts": ms * MS, "v": v, **{f"c{i}": i for i in range(6)}}


def results(harness: KernelHarness) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in harness.output()]


def by_key(lines: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    grouped: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for line in lines:
        grouped[line[0]].append(line)
    return dict(grouped)


# --- against the model ----------------------------------------------------------------------------------------

VARIABLES = st.sampled_from("ABC").map(n.PatternVariable)
BOUNDS = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None), (0, 2)])


def _larger(inner: st.SearchStrategy[n.Pattern]) -> st.SearchStrategy[n.Pattern]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    repeated = st.builds(lambda p, b, r: n.PatternRepetition(p, b[0], b[1], r), inner, BOUNDS, st.booleans())
    return several.map(n.PatternSequence) | several.map(n.PatternAlternation) | repeated


PATTERNS = st.recursive(VARIABLES, _larger, max_leaves=5).filter(lambda p: not automaton_of(p).matches_nothing)
SKIPS = st.sampled_from([PAST, PAST, NEXT, *(Skip(to, v) for to in (SkipTo.FIRST, SkipTo.LAST) for v in "ABC")])
ROWS = st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=14)
CONDITIONS = st.dictionaries(st.sampled_from("ABC"), st.sampled_from(CHOICES))
SEARCHES = st.fixed_dictionaries({
    "FEW_ROWS": st.sampled_from([0, 0, 4, 1000]),
    "MOST_MAPPED": st.sampled_from([0, 1, 8]),
    "STEP_WORTH": st.sampled_from([0, 500]),
    "STEPS_BEFORE_REPEATS": st.sampled_from([0, 1, 4]),
})  # fmt: skip


def searching(limits: dict[str, int]) -> AbstractContextManager[Any]:
    """Within the context the search changes from one order to another at these limits."""
    return patch.dict(vars(search), limits)


@settings(max_examples=depth(200, 400))
@given(PATTERNS, CONDITIONS, SKIPS, ROWS, st.sampled_from([None, None, 3 * MS]), st.data(), st.booleans())
def test_matches_are_those_of_the_model(pattern, chosen, skip, rows, within, data, restarts):
    chosen = possible(pattern, chosen)
    match = kernel(pattern, chosen, skip, within)
    if skip.variable is not None and skip.variable not in match.automaton.names:
        return
    harness = KernelHarness(match, SCHEMA, ["k"], restarts=restarts, groups=data.draw(st.integers(1, 2)))
    watermark, taken = -1, []
    found: list[tuple[Any, ...]] = []
    fails = False
    try:
        for begin in range(0, len(rows), 4):
            batch = [row(*r) for r in rows[begin : begin + 4]]
            harness.batch(batch)
            taken += [r for r in batch if r["ts"] > watermark]
            watermark = max(watermark, data.draw(st.integers(-1, 12)) * MS)
            with searching(data.draw(SEARCHES)):
                harness.watermark(watermark)
            found += results(harness)
        with searching(data.draw(SEARCHES)):
            harness.finish()
        found += results(harness)
    except ExecutionError:
        fails = True
    try:
        assert by_key(found) == expected(model(pattern, chosen, skip, within), taken)
        assert not fails
    except LookupError:
        assert fails
        return
    assert harness.counters[LATE_ROWS] == len(rows) - len(taken)


@settings(max_examples=depth(20, 100))
@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 5)), min_size=4, max_size=20), st.integers(0, 2))
def test_matches_of_keys_with_the_same_hash_are_kept_apart(values, hashes):
    harness = KernelHarness(kernel("A B* C", {"B": "above the other", "C": "small"}), SCHEMA, ["k"], restarts=True)
    rows = [row(k, ms, v) for ms, (k, v) in enumerate(values)]
    found: list[tuple[Any, ...]] = []
    for begin in range(0, len(rows), 3):
        harness.batch([{**r, KEY_HASH: ord(r["k"]) % (hashes + 1)} for r in rows[begin : begin + 3]])
        harness.watermark((begin + 1) * MS)
        found += results(harness)
    harness.finish()
    found += results(harness)
    chosen = {"B": "above the other", "C": "small"}
    assert by_key(found) == expected(model(pattern_of("A B* C"), chosen, PAST, None), rows)


# --- state ----------------------------------------------------------------------------------------------------


def kept(harness: KernelHarness) -> tuple[int, int]:
    """The rows that the state has, and its threads and ends."""
    match = harness.kernel
    assert isinstance(match, MatchKernel)
    (store,) = harness.stores
    states = (KeyedState(store, "rows", match._stored), KeyedState(store, "matches", match._open.schema))
    rows, matches = (state.rows() for state in states)
    return rows, matches


def test_only_rows_of_open_matches_are_kept():
    harness = KernelHarness(kernel("A B+ C", {"A": "small", "B": "large", "C": "small"}), SCHEMA, ["k"])
    harness.batch([row("x", ms, v) for ms, v in enumerate([5, 5, 1, 4, 5])], watermark=0)
    harness.watermark(10 * MS)
    assert kept(harness) == (3, 1)
    harness.rows([row("x", 11, 2)])
    assert kept(harness) == (4, 1)
    harness.watermark(11 * MS)
    assert [r[1:3] for r in results(harness)] == [(1, 2)]
    assert kept(harness) == (0, 0)


def test_the_watermark_frees_what_within_has_ended():
    harness = KernelHarness(kernel("A B", {"B": "large"}, NEXT, within=5 * MS), SCHEMA, ["k"])
    harness.rows([row("x", 1, 0)])
    harness.watermark(5 * MS)
    assert kept(harness) == (1, 1)
    harness.watermark(6 * MS)
    assert kept(harness) == (0, 0)
    assert harness.next_timer(Domain.EVENT) == 2**63 - 1


def test_a_greedy_repetition_at_the_end_is_decided_by_the_next_row_or_by_within():
    harness = KernelHarness(kernel("A B*", {"A": "small", "B": "large"}, within=9 * MS), SCHEMA, ["k"], restarts=True)
    harness.rows([row("x", 1, 1), row("x", 2, 5), row("x", 3, 5)])
    harness.watermark(9 * MS)
    assert results(harness) == []
    harness.watermark(10 * MS)
    assert [r[1:3] for r in results(harness)] == [(1, 5)]
    harness.rows([row("x", 11, 1), row("x", 12, 5), row("x", 13, 0)])
    harness.watermark(13 * MS)
    assert [r[1:3] for r in results(harness)] == [(1, 5)]


def test_equal_threads_of_a_key_are_one_where_matches_do_not_overlap():
    harness = KernelHarness(kernel("A B* C", {"C": "large"}), SCHEMA, ["k"])
    for ms in range(20):
        harness.batch([row("x", ms, 0)])
        harness.watermark(ms * MS)
    assert kept(harness) == (20, 2)


def test_next_waits_for_the_row_behind():
    harness = KernelHarness(kernel("A", {"A": "will rise"}), SCHEMA, ["k"], restarts=True)
    harness.rows([row("x", 1, 1), row("x", 2, 2)])
    harness.watermark(5 * MS)
    assert [r[1] for r in results(harness)] == [1]
    harness.rows([row("x", 6, 3)])
    harness.watermark(6 * MS)
    assert [r[1] for r in results(harness)] == [2]
    harness.finish()
    assert results(harness) == []


# --- results --------------------------------------------------------------------------------------------------


@settings(max_examples=depth(50, 100))
@given(PATTERNS, CONDITIONS, ROWS, st.booleans(), SEARCHES)
def test_rows_of_one_time_are_in_the_order_of_ties(pattern, chosen, rows, restarts, limits):
    chosen = possible(pattern, chosen)
    match = kernel(pattern, chosen, NEXT, ties=(Tie("v", descending=True),))
    harness = KernelHarness(match, SCHEMA, ["k"], restarts=restarts)
    harness.rows([row(*r) for r in rows])
    with searching(limits):
        harness.finish()
    taken = [row(*r) for r in rows]
    assert by_key(results(harness)) == expected(model(pattern, chosen, NEXT, None), taken, ties=True)


@settings(max_examples=depth(50, 100))
@given(PATTERNS, CONDITIONS, SKIPS.filter(lambda s: s.variable is None), ROWS, st.booleans(), SEARCHES)
def test_all_rows_of_a_match_come_out_with_what_was_known_then(pattern, chosen, skip, rows, final, limits):
    chosen = possible(pattern, chosen)
    measures = (
        Mapped("last_b", "v", "B", running=not final),
        total("A") if not final else Aggregated(total("A").call, "A", running=False),
        Classifier("classifier"),
        MatchNumber("number"),
    )
    match = kernel(pattern, chosen, skip, all_rows=True, measures=measures, passed=("k", "v"))
    harness = KernelHarness(match, SCHEMA, ["k"], restarts=True)
    harness.rows([row(*r) for r in rows])
    with searching(limits):
        harness.finish()
    lines: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for key in "xy":
        own = sorted((row(*r) for r in rows if r[0] == key), key=lambda r: r["ts"])
        for number, whole in enumerate(model(pattern, chosen, skip, None).matches(own), 1):
            for count in range(1, len(whole.path) + 1):
                part = replace(whole, path=whole.path[:count])
                seen = whole if final else part
                a = [r["v"] for r in seen.mapped_to("A")]
                lines[key].append((
                    key, part.row["v"], seen.last("B"), sum(a) if a else None, part.path[-1], number
                ))  # fmt: skip
    assert by_key(results(harness)) == lines


@settings(max_examples=depth(50, 100))
@given(PATTERNS, CONDITIONS, ROWS, st.data())
def test_in_processing_time_rows_are_mapped_as_they_come(pattern, chosen, rows, data):
    chosen = possible(pattern, chosen)
    match = kernel(pattern, chosen, NEXT, None, Domain.PROCESSING)
    harness = KernelHarness(match, SCHEMA, ["k"], restarts=data.draw(st.booleans()), processing_time=20 * MS)
    for begin in range(0, len(rows), 4):
        harness.batch([row(*r) for r in rows[begin : begin + 4]])
    harness.finish()
    in_order = [{**row(*r), "ts": i} for i, r in enumerate(rows)]
    assert by_key(results(harness)) == expected(model(pattern, chosen, NEXT, None), in_order)
