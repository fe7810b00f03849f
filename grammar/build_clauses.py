"""Trees of lark to the nodes of clauses: one short method per rule of ``streaming.lark``, children in its order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta
from sqlglot import exp

from sqlstream.errors import Span, shortened
from sqlstream.grammar import nodes as n
from sqlstream.grammar.failures import EXAMPLE, LITERAL, failure, interval_meant
from sqlstream.grammar.trees import add_clause

_MOST_DIGITS = 15
"""Of a number of rows: kernels calculate with int64."""


def span_of_meta(meta: Meta) -> Span:
    """The span in the text of what a grammar rule has matched; empty for a rule that matched no words. ``meta`` is
    lark's.
    """
    return Span(0, 0) if meta.empty else Span(meta.start_pos, meta.end_pos)


def whole(token: Token, least: int = 0) -> int:
    """The number that a token spells. Raises a syntax error if it has a fraction, is less than ``least``, or is far too
    large.
    """
    text = str(token.value)
    at = Span(token.start_pos or 0, token.end_pos or 0)
    if not (text.isascii() and text.isdigit()):
        raise failure(f'"{shortened(text)}" is not a whole number', at, LITERAL)
    digits = text.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:  # Python reads no number of thousands of digits
        message = f'"{shortened(text)}" has more than {_MOST_DIGITS} digits'
        raise failure(message, at, LITERAL, "Write a number below 10^15.")
    if int(digits) < least:
        raise failure(f'"{text}" is not at least {least}', at, LITERAL)
    return int(digits)


def interval_of(token: Token | None) -> Any:
    """The expression of a time interval; None if ``token`` is None. Raises a syntax error for a number without a
    unit.
    """
    if token is None:
        return None
    expression = token.value
    if isinstance(expression, exp.Literal):
        span = Span(token.start_pos or 0, token.end_pos or 0)
        text = expression.name
        if expression.is_string:
            hint = f"Write {interval_meant(text) or EXAMPLE}."
            raise failure(f'"{text}" is a text, not an interval', span, LITERAL, hint)
        raise failure(f'"{text}" has no unit', span, LITERAL, f"Write {text} ROWS or INTERVAL '{text}' SECOND.")
    return expression


def text_of(token: Token) -> str:
    """Returns the name or string that a token stands for, without quotes."""
    return token.value.name if isinstance(token.value, exp.Expression) else str(token.value)


def words_of(tokens: tuple[Token, ...]) -> str:
    """The texts of the tokens with spaces between."""
    return " ".join(str(t.value) for t in tokens)


@v_args(meta=True, inline=True)
class ClauseBuilder(Transformer[Token, Any]):
    """Makes syntax nodes from lark's parse tree of a clause. Each method has the name of a grammar rule, and gets the
    results for the rule's parts as arguments; None for absent optional ones.
    """

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)

    def name(self, meta: Meta, *parts: Token) -> n.Name:
        return n.Name(tuple(text_of(p) for p in parts), span=span_of_meta(meta))

    # measures and table functions

    def rows(self, meta: Meta, count: Token) -> n.RowCount:
        return n.RowCount(whole(count), span=span_of_meta(meta))

    def duration(self, meta: Meta, expression: Token) -> n.Duration:
        return n.Duration(interval_of(expression), span=span_of_meta(meta))

    def table_call(self, meta: Meta, name: n.Name, *arguments: n.Argument) -> n.TableFunction:
        if not any(isinstance(a.value, n.TableArgument) for a in arguments):
            called = str(name).upper()
            hint = f"Write {called}(TABLE t, DESCRIPTOR(ts), …)."
            raise failure(f"{called} needs a TABLE argument", name.span, hint=hint)
        return n.TableFunction(str(name), arguments, span=span_of_meta(meta))

    def wrapped_table_call(self, meta: Meta, call: n.TableFunction) -> n.TableFunction:
        return replace(call, wrapped=True, span=span_of_meta(meta))

    def argument(self, meta: Meta, name: Token | None, value: Any) -> n.Argument:
        return n.Argument(name and text_of(name), getattr(value, "value", value), span=span_of_meta(meta))

    def descriptor(self, meta: Meta, *columns: Token) -> n.Descriptor:
        return n.Descriptor(tuple(c.value for c in columns), span=span_of_meta(meta))

    def table_argument(self, meta: Meta, source: Token | exp.Table, partition: Any, order: Any) -> n.TableArgument:
        """Makes a table argument of a function. For a query in parentheses the word TABLE is optional, as in Flink; it
        is added when the query is printed.
        """
        table = source if isinstance(source, exp.Table) else exp.Subquery(this=source.value)
        return n.TableArgument(table, partition or (), order or (), span=span_of_meta(meta))

    def named_source(self, meta: Meta, name: Token, hint: Token | None) -> exp.Table:
        table: exp.Table = name.value
        if hint is not None:
            add_clause(table, n.TableClauses, "hint", hint.value)
        return table

    def partition_by(self, meta: Meta, keys: Token) -> tuple[exp.Expression, ...]:
        """The keys of PARTITION BY as a tuple; parentheses around a key are removed."""
        return tuple(key.unnest() for key in keys.value)

    order_by = partition_by

    # windows

    def group_window(self, meta: Meta, kind: n.WindowKind, time: Token, *measures: n.Measure) -> n.GroupWindow:
        return n.GroupWindow(kind, time.value, measures, span=span_of_meta(meta))

    def window_kind(self, meta: Meta, kind: Token) -> n.WindowKind:
        return n.WindowKind(kind.value)

    def count_window(self, meta: Meta, size: n.Measure, slide: n.Measure | None, full: Any) -> n.CountWindow:
        return n.CountWindow(size, slide, bool(full), span=span_of_meta(meta))

    def full_only(self, meta: Meta) -> bool:
        return True

    absolute = full_only

    def global_window(self, meta: Meta) -> n.GlobalWindow:
        return n.GlobalWindow(span=span_of_meta(meta))

    def user_window(self, meta: Meta, call: n.UserCall) -> n.UserWindow:
        return n.UserWindow(call, span=span_of_meta(meta))

    def user_call(self, meta: Meta, name: n.Name, *arguments: Token | None) -> n.UserCall:
        return n.UserCall(str(name), tuple(a.value for a in arguments if a), span=span_of_meta(meta))

    # TRIGGER

    def trigger(self, meta: Meta, expression: n.TriggerExpr, accumulation: n.Accumulation | None) -> n.Trigger:
        return n.Trigger(expression, accumulation, span=span_of_meta(meta))

    def accumulation(self, meta: Meta, word: Token) -> n.Accumulation:
        return n.Accumulation(word.value)

    def then(self, meta: Meta, left: n.TriggerExpr, right: n.TriggerExpr) -> n.Combined:
        return n.Combined(n.Combinator.THEN, left, right, span=span_of_meta(meta))

    def or_(self, meta: Meta, left: n.TriggerExpr, right: n.TriggerExpr) -> n.Combined:
        return n.Combined(n.Combinator.OR, left, right, span=span_of_meta(meta))

    def and_(self, meta: Meta, left: n.TriggerExpr, right: n.TriggerExpr) -> n.Combined:
        return n.Combined(n.Combinator.AND, left, right, span=span_of_meta(meta))

    def after_watermark(self, meta: Meta, early: n.Pulse | None, late: n.Pulse | None) -> n.AfterWatermark:
        return n.AfterWatermark(early, late, span=span_of_meta(meta))

    def after_processing_time(self, meta: Meta) -> n.AfterProcessingTime:
        return n.AfterProcessingTime(span=span_of_meta(meta))

    def after_silence(self, meta: Meta, interval: Token) -> n.AfterSilence:
        return n.AfterSilence(interval_of(interval), span=span_of_meta(meta))

    def every_rows(self, meta: Meta, count: Token) -> n.EveryRows:
        return n.EveryRows(whole(count, 1), span=span_of_meta(meta))

    def every_interval(self, meta: Meta, interval: Token, domain: n.Domain | None = None) -> n.EveryInterval:
        return n.EveryInterval(interval_of(interval), domain, span=span_of_meta(meta))

    every_interval_pulse = every_interval

    def domain(self, meta: Meta, *words: Token) -> n.Domain:
        return n.Domain(words_of(words))

    def delta_trigger(self, meta: Meta, absolute: Any, value: Token, threshold: Token) -> n.DeltaTrigger:
        return n.DeltaTrigger(value.value, threshold.value, bool(absolute), span=span_of_meta(meta))

    def when(self, meta: Meta, condition: Token) -> n.When:
        return n.When(condition.value, span=span_of_meta(meta))

    def on_barrier(self, meta: Meta) -> n.OnBarrier:
        return n.OnBarrier(span=span_of_meta(meta))

    def never(self, meta: Meta) -> n.Never:
        return n.Never(span=span_of_meta(meta))

    def user_trigger(self, meta: Meta, call: n.UserCall) -> n.UserTrigger:
        return n.UserTrigger(call, span=span_of_meta(meta))

    def purging(self, meta: Meta, inner: n.TriggerExpr) -> n.Purging:
        return n.Purging(inner, span=span_of_meta(meta))

    # EVICT, LATE DATA, EMIT

    def evict(self, meta: Meta, side: str | None, evictor: Any) -> n.Evict:
        return n.Evict(evictor, side == "AFTER", span=span_of_meta(meta))

    def side(self, meta: Meta, word: Token) -> str:
        return str(word.value)

    def keep_last(self, meta: Meta, measure: n.Measure) -> n.KeepLast:
        return n.KeepLast(measure, span=span_of_meta(meta))

    def delta_evictor(self, meta: Meta, absolute: Any, value: Token, threshold: Token) -> n.DeltaEvictor:
        return n.DeltaEvictor(value.value, threshold.value, bool(absolute), span=span_of_meta(meta))

    def user_evictor(self, meta: Meta, call: n.UserCall) -> n.UserEvictor:
        return n.UserEvictor(call, span=span_of_meta(meta))

    def late_data(self, meta: Meta, allow: Token | None, action: Any) -> n.LateData:
        kind, table = action or (None, None)
        return n.LateData(interval_of(allow), kind, table, span=span_of_meta(meta))

    def late_drop(self, meta: Meta) -> tuple[n.LateAction, None]:
        return n.LateAction.DROP, None

    def late_to(self, meta: Meta, table: Token) -> tuple[n.LateAction, exp.Table]:
        return n.LateAction.TO, table.value

    def late_fail(self, meta: Meta) -> tuple[n.LateAction, None]:
        return n.LateAction.FAIL, None

    def emit_on_window_close(self, meta: Meta) -> n.Emit:
        return n.Emit(n.EmitKind.ON_WINDOW_CLOSE, span=span_of_meta(meta))

    def emit_after_watermark(self, meta: Meta, delay: Token | None) -> n.Emit:
        return n.Emit(n.EmitKind.ON_WINDOW_CLOSE, interval_of(delay), span=span_of_meta(meta))

    def emit_changes(self, meta: Meta) -> n.Emit:
        return n.Emit(n.EmitKind.CHANGES, span=span_of_meta(meta))

    def emit_every(self, meta: Meta, interval: Token) -> n.Emit:
        return n.Emit(n.EmitKind.EVERY, interval_of(interval), span=span_of_meta(meta))


# --- clauses after a table: WATERMARK … DELAY OF, ALIGN BARRIERS, LOOKUP ASYNC ------------------------------------


Setting = tuple[str, Any, Span]
"""Field of the node, its value and where it was written."""


def _fields(settings: Iterable[Setting], what: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, value, span in settings:
        if field in fields:
            raise failure(f"{field.replace('_', ' ').upper()} is given twice in {what}", span)
        fields[field] = value
    return fields


@v_args(meta=True, inline=True)
class TableClauseBuilder(ClauseBuilder):
    """Makes syntax nodes of the clauses after a table, such as LOOKUP ASYNC, from lark's parse tree. Methods for
    options of a clause return a triple of field name, value and span; the clause's method refuses an option that is
    given twice.
    """

    def watermark_delay(self, meta: Meta, column: Token, delay: Token) -> n.WatermarkDelay:
        return n.WatermarkDelay(column.value, interval_of(delay), span=span_of_meta(meta))

    # ALIGN BARRIERS

    def align_barriers(self, meta: Meta, channel: tuple[Any, int], *settings: Setting) -> n.AlignBarriers:
        fields = _fields(settings, "ALIGN BARRIERS")
        missing = [word for word, field in (("MARKER", "marker"), ("ID", "id")) if field not in fields]
        if missing:
            raise failure(f"ALIGN BARRIERS needs {missing[0]}", span_of_meta(meta))
        return n.AlignBarriers(*channel, **fields, span=span_of_meta(meta))

    def channel(self, meta: Meta, channel: Token, count: Token) -> tuple[exp.Expression, int]:
        return channel.value, whole(count, 1)

    def marker(self, meta: Meta, condition: Token) -> Setting:
        return "marker", condition.value, span_of_meta(meta)

    def barrier_id(self, meta: Meta, expression: Token) -> Setting:
        return "id", expression.value, span_of_meta(meta)

    def cancel_when(self, meta: Meta, condition: Token) -> Setting:
        return "cancel_when", condition.value, span_of_meta(meta)

    def end_when(self, meta: Meta, condition: Token) -> Setting:
        return "end_when", condition.value, span_of_meta(meta)

    def barrier_mode(self, meta: Meta, mode: Token) -> Setting:
        return "at_least_once", mode.value == "AT_LEAST_ONCE", span_of_meta(meta)

    def timeout(self, meta: Meta, interval: Token) -> Setting:
        return "timeout", interval_of(interval), span_of_meta(meta)

    # LOOKUP ASYNC

    def lookup_async(self, meta: Meta, *settings: Setting | list[Setting] | None) -> n.LookupAsync:
        given = [s for entry in settings if entry for s in (entry if isinstance(entry, list) else [entry])]
        retries = tuple(value for field, value, _ in given if field == "retry")
        self._refuse_overlapping(retries)
        fields = _fields((s for s in given if s[0] != "retry"), "LOOKUP ASYNC")
        return n.LookupAsync(**fields, retry=retries, span=span_of_meta(meta))

    def _refuse_overlapping(self, retries: tuple[n.Retry, ...]) -> None:
        for index, retry in enumerate(retries):
            if any(None in (other.on, retry.on) or other.on == retry.on for other in retries[:index]):
                raise failure("RETRY is given twice in LOOKUP ASYNC", retry.span)

    def lookup_order(self, meta: Meta, order: n.LookupOrder) -> Setting:
        return "order", order, span_of_meta(meta)

    def lookup_order_kind(self, meta: Meta, *words: Token) -> n.LookupOrder:
        return n.LookupOrder(" ".join(w.value for w in words))

    def capacity(self, meta: Meta, count: Token) -> Setting:
        return "capacity", whole(count, 1), span_of_meta(meta)

    def on_timeout(self, meta: Meta, action: Token) -> Setting:
        return "on_timeout", action.value, span_of_meta(meta)

    def on_error(self, meta: Meta, action: Token) -> Setting:
        return "on_error", action.value, span_of_meta(meta)

    def on_error_to(self, meta: Meta, table: Token) -> list[Setting]:
        return [("on_error", "TO", span_of_meta(meta)), ("error_table", table.value, span_of_meta(meta))]

    def retry(self, meta: Meta, on: str | None, times: Token, delay: tuple[Any, ...]) -> Setting:
        return "retry", n.Retry(on, whole(times), *delay, span=span_of_meta(meta)), span_of_meta(meta)

    def retry_on(self, meta: Meta, word: Token) -> str:
        return str(word.value)

    def fixed_delay(self, meta: Meta, delay: Token) -> tuple[Any, ...]:
        return interval_of(delay), False, None

    def exponential_delay(self, meta: Meta, delay: Token, limit: Token | None) -> tuple[Any, ...]:
        return interval_of(delay), True, interval_of(limit)

    def cache(self, meta: Meta, rows: Token, ttl: Token | None, negative: Token | None) -> Setting:
        cache = n.Cache(whole(rows, 1), interval_of(ttl), interval_of(negative), span=span_of_meta(meta))
        return "cache", cache, span_of_meta(meta)

    def batch(self, meta: Meta, count: Token, within: Token | None) -> list[Setting]:
        span = span_of_meta(meta)
        return [("batch", whole(count, 1), span), ("batch_within", interval_of(within), span)]


# --- MATCH_RECOGNIZE --------------------------------------------------------------------------------------------


_Bounds = tuple[int, int | None]


@v_args(meta=True, inline=True)
class MatchBuilder(TableClauseBuilder):
    """Makes syntax nodes of MATCH_RECOGNIZE and its parts from lark's parse tree."""

    def match_recognize(
        self, meta: Meta, partition: Any, order: Any, measures: Any, rows: Any, skip: Any, pattern: n.Pattern,
        within: Any, definitions: tuple[n.PatternDefinition, ...],
    ) -> n.MatchRecognize:  # fmt: skip
        return n.MatchRecognize(
            pattern, definitions, measures or (), partition or (), order or (), rows, skip, within,
            span=span_of_meta(meta),
        )  # fmt: skip

    def measures(self, meta: Meta, *items: n.Measured) -> tuple[n.Measured, ...]:
        return items

    def measure_item(self, meta: Meta, mode: str | None, expression: Token, name: Token) -> n.Measured:
        return n.Measured(expression.value, text_of(name), mode, span=span_of_meta(meta))

    def rows_per_match(self, meta: Meta, *words: Token) -> str:
        return words_of(words)

    measure_mode = rows_per_match

    def after_match(self, meta: Meta, skip: str) -> str:
        return skip

    def skip(self, meta: Meta, *words: Token) -> str:
        return " ".join(text_of(w) for w in words)

    def within(self, meta: Meta, interval: Token) -> Any:
        return interval_of(interval)

    def definitions(self, meta: Meta, *items: n.PatternDefinition) -> tuple[n.PatternDefinition, ...]:
        return items

    def definition(self, meta: Meta, name: Token, condition: Token) -> n.PatternDefinition:
        return n.PatternDefinition(text_of(name), condition.value, span=span_of_meta(meta))

    # the pattern

    def variable(self, meta: Meta, name: Token) -> n.Pattern:
        return n.PatternVariable(text_of(name), span=span_of_meta(meta))

    def in_sequence(self, meta: Meta, *parts: n.Pattern) -> n.Pattern:
        return n.PatternSequence(parts, span=span_of_meta(meta))

    def alternation(self, meta: Meta, *parts: n.Pattern) -> n.Pattern:
        return n.PatternAlternation(parts, span=span_of_meta(meta))

    def repeated(self, meta: Meta, pattern: n.Pattern, bounds: _Bounds, reluctant: Any) -> n.Pattern:
        return n.PatternRepetition(pattern, *bounds, bool(reluctant), span=span_of_meta(meta))

    def zero_or_more(self, meta: Meta) -> _Bounds:
        return 0, None

    def one_or_more(self, meta: Meta) -> _Bounds:
        return 1, None

    def zero_or_one(self, meta: Meta) -> _Bounds:
        return 0, 1

    def exactly(self, meta: Meta, count: Token) -> _Bounds:
        return whole(count), whole(count)

    def between(self, meta: Meta, least: Token | None, most: Token | None) -> _Bounds:
        return whole(least) if least else 0, whole(most, 1) if most else None

    def reluctant(self, meta: Meta) -> bool:
        return True
