"""Which changes of a query its state outlives: by the plans alone, and with Spark from savepoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sqlstream.connectors import Environment
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import Insert
from sqlstream.jobs.checkpoints.fingerprint import FingerprintPart, difference, fingerprint, from_text, to_text
from sqlstream.jobs.lifecycle.session_jobs import SessionSources
from sqlstream.jobs.lifecycle.start import declared_states
from sqlstream.planner.nodes import Output, Union
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import Hop, Session, Tumble
from sqlstream.plans import plan_of
from sqlstream.session import Session as SqlSession
from sqlstream.udfs.process import MapState, ProcessContext, ProcessFunction, Row, ValueState
from tests.planner.plans import physical
from tests.sqlstream.jobs.changed_plans import CHANGES, TEXTS, plan, refusal, script, table
from tests.streams import item, timed
from tests.streams import table as stream

EVENTS = stream("events", delay_ms=500, k="STRING", v="INT", ts="TIMESTAMP")
ACCEPTED = [change for change in CHANGES if not change.refused]
REFUSED = [change for change in CHANGES if change.refused]


TUMBLE = Tumble(1000)


def totals(window=TUMBLE, source=EVENTS, aggregate="SUM(v)"):
    rows = AssignWindows(timed(source), window, "ts", ())
    return Output(WindowAggregate(rows, ("k",), (item("s", aggregate),)), ("k", "a", "b", "c", "s"))


def found(before, now):
    there = difference(parts_of(before), parts_of(now))
    return there.text if there is not None else None


def parts_of(actual, **engine):
    return fingerprint(physical(actual, **engine))


def of(definitions, query):
    return plan(definitions, f"INSERT INTO sink {query}")


# --- operators in one call ------------------------------------------------------------------------------------


def test_state_of_operators_in_one_call_is_not_that_of_operators_apart():
    definitions, _ = script("/data")
    parts = "(SELECT k, SUM(v) AS v, window_time AS wt FROM bids GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)) AS p"
    sums = "SELECT k, SUM(v) AS total, window_start FROM {} GROUP BY k, TUMBLE(wt, INTERVAL '10' SECOND)"
    both = plan(definitions, f"INSERT INTO totals {sums.format(parts)}")
    together = parts_of(both)
    filtered = parts_of(plan(definitions, f"INSERT INTO totals {sums.format(f'{parts} WHERE v > 0')}"))
    there = difference(together, filtered)
    assert there is not None
    assert there.text == (
        'the window aggregate with the chaining "with the operator below", where the query has "none"'
    )
    assert there.exception == ", but no filter between windows on the same keys, which run in one call without it"
    assert difference(parts_of(both, chains=False), filtered) is None, "where all were apart, they still are"


@pytest.mark.parametrize("filtered_first", [False, True])
def test_a_filter_that_makes_both_sides_of_a_join_other_operators_is_named_as_what_may_not_change(filtered_first):
    definitions, _ = script("/data")
    sides = (f"({TEXTS['query']}) AS {side}" for side in "ab")
    join = f"INSERT INTO totals SELECT a.k, b.total, a.window_start FROM {' JOIN '.join(sides)} ON a.total = b.total"
    plans = [parts_of(plan(definitions, query)) for query in (join, f"{join} WHERE a.k > 'b'")]
    before, now = reversed(plans) if filtered_first else plans
    there = difference(before, now)
    assert there is not None
    assert there.exception == (
        ", but no filter that makes a part of the query run once for several readers, or no longer once"
    )


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("{0} WHERE k = 'a'", "{0}", "{0}"), ("{0}", "{0}", "{0} WHERE k = 'a'")),
        (("{0}",), ("{0}", "{0} WHERE total > 1")),
        (("{0}", "{0} WHERE total > 1"), ("{0}",)),
    ],
    ids=["other branches share", "one more branch", "one branch less"],
)
def test_which_branches_share_an_operator_stays_as_it_is(before, now):
    definitions, _ = script("/data")
    windows = f"SELECT k, total, window_start FROM ({TEXTS['query']})"
    there, here = (
        plan(definitions, f"INSERT INTO totals {' UNION ALL '.join(branch.format(windows) for branch in branches)}")
        for branches in (before, now)
    )
    refused = difference(parts_of(there), parts_of(here))
    assert refused is not None
    assert refused.exception.startswith(", but no filter that makes a part of the query run once")


# --- the twelve changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.name)
def test_a_refusal_names_the_part_and_the_difference(change):
    error = refusal(plan(*script("/data")), plan(*script("/data", change)))
    assert error is not None
    assert (error.code, error.diagnostic.detail) == ("SS421", change.refused)
    assert error.diagnostic.message.startswith('checkpoint "jobs/totals" belongs to another query: ')


@pytest.mark.parametrize("change", ACCEPTED, ids=lambda change: change.name)
def test_other_changes_leave_the_state_as_it_is(change):
    before, now = plan(*script("/data")), plan(*script("/data", change))
    assert before != now
    assert refusal(before, now) is None
    assert refusal(now, before) is None


def test_the_table_has_a_row_per_change():
    rows = list(table())
    assert len(rows) == 12
    assert [verdict for _, verdict, _ in rows] == ["accepted"] * len(ACCEPTED) + ["refused"] * len(REFUSED)
    assert all(message.startswith("SS421: ") == (verdict == "refused") for _, verdict, message in rows)


# --- parts ----------------------------------------------------------------------------------------------------


def test_the_parts_are_what_has_state_or_is_read():
    parts = parts_of(totals())
    assert [(p.kind, p.depth) for p in parts] == [
        ("window aggregate", 0), ("windows", 1), ("watermark", 2), ("source", 3)
    ]  # fmt: skip
    assert [p.kind for p in parts_of(Output(timed(EVENTS), ("k", "v", "ts")))] == ["source"]


def test_parts_come_back_from_their_text_and_others_are_told():
    parts = parts_of(totals())
    assert from_text(to_text(parts)) == parts
    assert from_text("Insert(table=o)") is None
    assert from_text('{"version": 0, "parts": []}') is None


def test_options_that_say_what_is_read_are_compared():
    files = dataclasses.replace(EVENTS, connector="filesystem", options=(("path", "/in"), ("format", "json")))
    watched = dataclasses.replace(files, options=(("path", "/in/"), ("source.monitor-interval", "1 s")))
    assert found(totals(source=files), totals(source=watched)) is None
    moved = dataclasses.replace(files, options=(("path", "/elsewhere"),))
    assert found(totals(source=files), totals(source=moved)) == (
        'the source "events" with the option "path" "/in", where the query has "/elsewhere"'
    )


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (totals(Hop(1000, 2000)),
         'the windows with the window "TUMBLE size 1 s", where the query has "HOP slide 1 s size 2 s"'),
        (totals(Session(1000)),
         'the windows with the window "TUMBLE size 1 s", where the query has "SESSION gap 1 s"'),
        (totals(aggregate="SUM(DISTINCT v)"),
         'the window aggregate with the aggregates "SUM(v)", where the query has "SUM(DISTINCT v)"'),
        (Output(AssignWindows(timed(EVENTS), Tumble(1000), "ts", ()), ("k", "v", "ts", "a", "b", "c")),
         "a window aggregate (keys k STRING), which the query no longer has"),
        (Output(Union((totals().input, totals(aggregate="MAX(v)").input)), ("k", "a", "b", "c", "s")),
         "nothing of a window aggregate (keys k STRING), which the query has"),
    ],
)  # fmt: skip
def test_the_first_difference_from_the_top_is_told(now, text):
    assert found(totals(), now) == text


def test_sources_that_change_places_are_told():
    other = dataclasses.replace(EVENTS, name="other")
    left, right = (Output(Union((timed(a), timed(b))), ("k", "v", "ts")) for a, b in ((EVENTS, other), (other, EVENTS)))
    assert found(left, left) is None
    assert "source" in (found(left, right) or "")


def test_a_part_at_another_place_is_told():
    inner = FingerprintPart("source", 'source "a"', 1, (("table", "a"),))
    told = difference((inner,), (dataclasses.replace(inner, depth=2),))
    assert told is not None
    assert told.text == 'the source "a" at another place of the plan'


# --- operators of other kinds ---------------------------------------------------------------------------------

DDL = """
CREATE TABLE t (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE sink (k STRING, n BIGINT) WITH ('connector' = 'blackhole');
"""


def test_rows_that_state_holds_whole_are_compared_by_their_columns():
    def rows(inside):
        table = f"TABLE (SELECT {inside} FROM t)"
        windows = f"SESSION({table} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)"
        return of(DDL, f"SELECT k, CAST(v AS BIGINT) FROM {windows}")

    assert found(rows("k, v, ts"), rows("k, v, ts")) is None
    assert found(rows("k, v, ts"), rows("k, v + 1 AS v, ts")) == (
        'the windows with the columns "k STRING, v INT, ts TIMESTAMP", '
        'where the query has "k STRING, v + 1 INT, ts TIMESTAMP"'
    )


def test_barriers_are_compared_by_what_they_align():
    def aligned(clause, more="", settings=""):
        return of(settings + DDL, f"SELECT k, CAST(barrier_id AS BIGINT) FROM t ALIGN BARRIERS ({clause}) {more}")

    clause = "CHANNEL k OF 2, MARKER v < 0, ID v"
    before = parts_of(aligned(clause))
    assert [p.kind for p in before if p.kind not in ("source", "watermark")] == ["barriers"]
    most = "SET 'sqlstream.barriers.max-buffered-rows' = '7';"
    assert difference(before, parts_of(aligned(clause, "WHERE v > 3", most))) is None
    told = difference(before, parts_of(aligned("CHANNEL k OF 3, MARKER v < 0, ID v")))
    assert told is not None
    assert told.text == 'the barriers with the number of channels "2", where the query has "3"'


def test_other_triggers_are_told():
    def fired(clauses):
        windows = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)"
        return of(DDL, f"SELECT k, COUNT(*) FROM {windows} GROUP BY k, window_start, window_end {clauses}")

    assert "firing" in (found(fired(""), fired("TRIGGER EVERY 2 ROWS")) or "")


def test_late_rows_may_go_to_another_table_but_not_begin_to():
    def late(clause):
        tables = "".join(
            f"CREATE TABLE {name} (k STRING, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');"
            for name in ("late", "later")
        )
        windows = "TUMBLE(ts, INTERVAL '5' SECOND)"
        return of(DDL + tables, f"SELECT k, COUNT(*) FROM t GROUP BY k, {windows} {clause}")

    assert found(late("LATE DATA TO late"), late("LATE DATA TO later")) is None
    assert found(late(""), late("LATE DATA TO late")) == (
        'the window aggregate with the firing "once, when the window closes", '
        'where the query has "LATE DATA TO a table"'
    )


class Sum(NamedTuple):
    total: int


class Totals(ProcessFunction):
    total = ValueState(int)
    seen = MapState(str, int, ttl="1 hour")

    def eval(self, ctx: ProcessContext, row: Row) -> Iterator[Sum]:
        yield Sum(0)


class LongerTotals(Totals):
    seen = MapState(str, int, ttl="2 hours")


class OtherTotals(Totals):
    total = ValueState(str)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Totals, None),
        (LongerTotals, None),
        (OtherTotals, 'the process function "totals" with the state "seen MapState of STRING, BIGINT with a time to '
         'live, total ValueState of BIGINT", where the query has "seen MapState of STRING, BIGINT with a time to live, '
         'total ValueState of STRING"'),
    ],
)  # fmt: skip
def test_another_state_of_a_process_function_is_told(other, text):
    def parts(kind):
        session = SqlSession()
        session.register_function("totals", kind)
        session.sql(DDL)
        (statement,) = parse_script("INSERT INTO sink SELECT k, total FROM totals(TABLE t PARTITION BY k)")
        assert isinstance(statement, Insert)
        workspace = session.workspace
        no_spark: Any = None
        sources = SessionSources(Environment(no_spark, Path()), workspace.catalog)
        return fingerprint(physical(plan_of(statement, workspace)), declared_states(sources))

    actual = difference(parts(Totals), parts(other))
    assert (actual.text if actual is not None else None) == text


OVER = "SELECT {key}, SUM({value}) OVER (PARTITION BY {key} ORDER BY ts {frame}) AS {name} FROM {rows}"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"name": "other"}, None),
        ({"rows": "(SELECT k AS key, v AS value, ts FROM t)", "key": "key", "value": "value"}, None),
        (
            {"frame": "ROWS 3 PRECEDING"},
            'the OVER with the functions "SUM(v) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"',
        ),
        ({"value": "v + 1"}, "the OVER with the "),
    ],
)
def test_over_is_compared_by_what_its_columns_mean(changed, text):
    def made(**parts):
        values = {"key": "k", "value": "v", "frame": "ROWS 2 PRECEDING", "name": "total", "rows": "t", **parts}
        return of(DDL, OVER.format(**values))

    there = found(made(), made(**changed))
    assert there is None if text is None else there.startswith(text), there


JOIN = "SELECT {left}.k AS {name}, {value} AS total FROM {rows} AS l {kind} JOIN t AS r ON l.k = r.k{rest}"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"name": "other"}, None),
        (
            {"rows": "(SELECT v, k FROM t WHERE v > 1)"},
            'the join with the columns of the left side "k STRING, v INT", ',
        ),
        ({"kind": "FULL"}, 'the join with the kind "LEFT"'),
        ({"rest": " AND l.v < r.v + 1"}, 'the join with the condition "left.v < right.v", where'),
        ({"rest": " AND l.v = r.v"}, 'the join with the equal "k = k", where'),
        ({"rest": " AND r.v < l.v"}, 'the join with the condition "left.v < right.v", where'),
        ({"left": "r"}, None),
    ],
)
def test_joins_are_compared_by_what_they_keep(changed, text):
    def made(**parts):
        values = {"left": "l", "name": "k", "value": "l.v + r.v", "rows": "t", "kind": "LEFT", "rest": " AND l.v < r.v"}
        return of(DDL, JOIN.format(**{**values, **parts}))

    there = found(made(), made(**changed))
    assert there is None if text is None else there.startswith(text), there
