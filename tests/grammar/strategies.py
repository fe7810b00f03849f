"""Random nodes of the streaming language, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from sqlglot import exp

from sqlstream.grammar import nodes as n
from sqlstream.grammar import parse_query

Strategy = st.SearchStrategy[Any]


def _expression(text: str) -> exp.Expression:
    return parse_query(f"SELECT {text}").expressions[0]  # type: ignore[no-any-return]


_CONDITIONS = [
    "a", "a > 5", "a = 'x' OR b", "NOT a AND b IN (1, 2)", "a BETWEEN 1 AND 2", "EXISTS(SELECT 1 FROM u)",
    "a IS NULL", "f(a, b => 1) LIKE 'it''s'", "`a b`.`c` <> 1.5",
]  # fmt: skip
_VALUES = ["a", "t.a", "`order`.`x y`", "a + b * 2", "f(a)", "-a", "(a OR b)", "a - b - c", "CASE WHEN a THEN 1 END"]
_INTERVALS = [
    "INTERVAL '5' SECOND", "INTERVAL '0.005' SECOND", "INTERVAL '33:20' MINUTE TO SECOND", "INTERVAL '-8' HOUR",
    "INTERVAL '1' DAY + INTERVAL '2' HOUR", "gap", "CASE WHEN v THEN INTERVAL '1' SECOND ELSE INTERVAL '2' SECOND END",
]  # fmt: skip
_NAMES = ["f", "my_function", "select", "a b", "watermark", "ünïcode", "it`s"]

condition = st.sampled_from(_CONDITIONS).map(_expression)
value = st.sampled_from(_VALUES).map(_expression)
interval = st.sampled_from(_INTERVALS).map(_expression)
count = st.integers(1, 10**9)
name = st.sampled_from(_NAMES)
call_name = st.lists(name, min_size=1, max_size=2).map(".".join)
table = st.sampled_from(["t", "db.t", "`a b`.`select`"]).map(exp.to_table)
threshold = st.sampled_from(["5", "2.5", "a + 1", "f(x)"]).map(_expression)
flag = st.booleans()


def maybe(strategy: Strategy) -> Strategy:
    return st.none() | strategy


rows = st.builds(n.RowCount, count)
measure = rows | st.builds(n.Duration, interval)
call = st.builds(n.UserCall, call_name, st.lists(condition, max_size=3).map(tuple))

pulse = st.builds(n.EveryRows, count) | st.builds(n.EveryInterval, interval) | st.builds(n.When, condition)
atom = st.one_of(
    st.builds(n.EveryRows, count),
    st.builds(n.EveryInterval, interval, maybe(st.sampled_from(n.Domain))),
    st.builds(n.When, condition),
    st.builds(n.AfterWatermark, maybe(pulse), maybe(pulse)),
    st.builds(n.AfterProcessingTime),
    st.builds(n.DeltaTrigger, value, threshold, flag),
    st.builds(n.AfterSilence, interval),
    st.builds(n.OnBarrier),
    st.builds(n.Never),
    st.builds(n.UserTrigger, call),
)
trigger_expression = st.recursive(
    atom,
    lambda inner: st.builds(n.Purging, inner) | st.builds(n.Combined, st.sampled_from(n.Combinator), inner, inner),
    max_leaves=8,
)
trigger = st.builds(n.Trigger, trigger_expression, maybe(st.sampled_from(n.Accumulation)))

evictor = st.one_of(
    st.builds(n.KeepLast, measure), st.builds(n.DeltaEvictor, value, threshold, flag), st.builds(n.UserEvictor, call)
)
evict = st.builds(n.Evict, evictor, flag)
late_data = st.one_of(
    st.builds(n.LateData, maybe(interval), maybe(st.sampled_from([n.LateAction.DROP, n.LateAction.FAIL]))),
    st.builds(n.LateData, maybe(interval), st.just(n.LateAction.TO), table),
)
emit = st.one_of(
    st.builds(n.Emit, st.just(n.EmitKind.ON_WINDOW_CLOSE), maybe(interval)),
    st.builds(n.Emit, st.just(n.EmitKind.CHANGES)),
    st.builds(n.Emit, st.just(n.EmitKind.EVERY), interval),
)
window = st.one_of(
    st.builds(
        n.GroupWindow, st.sampled_from(n.WindowKind), value, st.lists(measure, min_size=1, max_size=3).map(tuple)
    ),
    st.builds(n.CountWindow, measure, maybe(measure), flag),
    st.builds(n.GlobalWindow),
    st.builds(n.UserWindow, call),
)
stream_clauses = st.builds(n.StreamClauses, maybe(window), maybe(trigger), maybe(evict), maybe(late_data), maybe(emit))

watermark_delay = st.builds(n.WatermarkDelay, name.map(lambda s: exp.to_identifier(s, quoted=True)), interval)
barriers = st.builds(
    n.AlignBarriers, value, count, condition, condition, maybe(condition), maybe(condition), flag, maybe(interval)
)
retry = st.builds(n.Retry, st.none(), count, interval, st.just(True), maybe(interval))
retries = st.one_of(
    st.just(()),
    st.tuples(retry),
    st.just((n.Retry("MISS", 1, exp.column("a")), n.Retry("ERROR", 2, exp.column("b")))),
)
lookup = st.builds(
    n.LookupAsync,
    order=maybe(st.sampled_from(n.LookupOrder)),
    capacity=maybe(count),
    timeout=maybe(interval),
    on_timeout=maybe(st.sampled_from(["FAIL", "NULL", "DEFER"])),
    on_error=maybe(st.sampled_from(["FAIL", "NULL"])),
    retry=retries,
    cache=maybe(st.builds(n.Cache, count, maybe(interval), maybe(interval))),
)
table_clauses = st.builds(n.TableClauses, maybe(watermark_delay), maybe(barriers), maybe(lookup))

sort_key = st.sampled_from(["a", "a + 1 DESC"]).map(
    lambda s: parse_query(f"SELECT 1 ORDER BY {s}").args["order"].expressions[0]
)
partition_key = value.map(lambda key: key.unnest())  # parentheses around one are read as those around all
table_argument = st.builds(
    n.TableArgument, table, st.lists(partition_key, max_size=2).map(tuple), st.lists(sort_key, max_size=2).map(tuple)
)
descriptor = st.builds(
    n.Descriptor, st.lists(name.map(lambda s: exp.to_identifier(s, quoted=True)), min_size=1, max_size=2).map(tuple)
)
named = st.builds(n.Argument, name, st.one_of(table_argument, descriptor, rows, condition))
first = st.builds(n.Argument, maybe(name), table_argument)
table_function = st.builds(
    n.TableFunction, call_name, st.builds(lambda a, b: (a, *b), first, st.lists(named, max_size=3)), flag
)

variable = st.builds(n.PatternVariable, st.sampled_from(["A", "B", "start"]))
bounds = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda b: (b[0], b[0] + b[1] or None))
pattern = st.recursive(
    variable,
    lambda inner: st.one_of(
        st.builds(n.PatternSequence, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(n.PatternAlternation, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(lambda p, b, r: n.PatternRepetition(p, b[0], b[1], r), inner, bounds, flag),
    ),
    max_leaves=6,
)
