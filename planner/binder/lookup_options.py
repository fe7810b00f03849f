"""LOOKUP ASYNC (option, …): the syntax to the options of a lookup."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.carrier import table_clauses_of
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.failed_rows import failed_rows
from sqlstream.planner.binder.lookup_hint_options import Options, hinted, pairs_of
from sqlstream.planner.binder.lookup_hints import LookupHints
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.durations import readable
from sqlstream.planner.intervals import interval_ms
from sqlstream.planner.operators.lookup import FailedRows
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Order, Retry


@dataclass(frozen=True)
class Chosen:
    """How a lookup asks, and where the rows go that fail."""

    options: LookupOptions
    failed: FailedRows | None = None


def chosen_options(
    right: exp.Expr, hints: LookupHints, scope: Scope, context: Context, *, asynchronous: bool = False
) -> Chosen:
    """The options that LOOKUP ASYNC or a LOOKUP hint give the lookup of ``right``; without either, those of the session
    for a lookup that is ``asynchronous`` or not. SS257 where both are written."""
    clause, hint = table_clauses_of(right).lookup, hints.take(right)
    if clause is not None and hint is not None:
        message = f'LOOKUP ASYNC and a LOOKUP hint both say how "{right.alias_or_name}" is looked up'
        context.wrong("SS257", message, hint, "Keep one of the two.")
    if clause is not None:
        return bind_options(clause, scope, context)
    if hint is not None:
        return Chosen(hinted(Options(pairs_of(hint, context), hint, context)))
    if asynchronous:
        return Chosen(context.settings.lookup)
    return Chosen(replace(context.settings.lookup, asynchronous=False, order=Order.ORDERED))


def bind_options(clause: syntax.LookupAsync, scope: Scope, context: Context) -> Chosen:
    """The clause, over the session's defaults; rows of ``scope`` are those that may fail. SS212, SS255."""
    default = context.settings.lookup
    timeout = _ms(clause.timeout, "TIMEOUT", context, 1)
    options = replace(
        default,
        asynchronous=True,
        order=Order[clause.order.name] if clause.order else default.order,
        capacity=default.capacity if clause.capacity is None else clause.capacity,
        timeout_ms=default.timeout_ms if timeout is None else timeout,
        on_timeout=OnTimeout[clause.on_timeout or default.on_timeout.name],
        on_error=OnError[clause.on_error or default.on_error.name],
        retries=tuple(_retry(r, context) for r in clause.retry if r.times),
        cache=_cache(clause.cache, context) if clause.cache else None,
        batch=clause.batch or 1,
        batch_within_ms=_ms(clause.batch_within, "WITHIN", context) or 0,
    )
    _check(clause, options, context)
    failed = failed_rows(clause.error_table, clause, scope, context) if clause.error_table is not None else None
    return Chosen(options, failed)


def _ms(interval: exp.Expression | None, what: str, context: Context, least: int = 0) -> int | None:
    """A constant interval of at least ``least`` milliseconds; SS212 where it is none, SS255 where it is less."""
    if interval is None:
        return None
    at = span_of(interval)
    length_ms = interval_ms(interval, f"the interval of {what}", at)
    if length_ms < least:
        must = "be positive" if least else "not be negative"
        context.wrong("SS255", f"the interval of {what} must {must}, but is {readable(length_ms)}", at)
    return length_ms


def _retry(retry: syntax.Retry, context: Context) -> Retry:
    delay = _ms(
        retry.delay, "EXPONENTIAL FROM" if retry.exponential else "FIXED DELAY", context, int(retry.exponential)
    )
    limit = _ms(retry.limit, "TO", context)
    if limit is not None and delay is not None and limit < delay:
        message = f"EXPONENTIAL goes FROM {readable(delay)} TO {readable(limit)}, which is less"
        context.wrong("SS255", message, retry.span, "Give TO the longest delay.")
    return Retry(retry.times, delay or 0, retry.on != "ERROR", retry.on != "MISS", retry.exponential, limit)


def _cache(cache: syntax.Cache, context: Context) -> Cache:
    return Cache(cache.rows, _ms(cache.ttl, "TTL", context, 1), _ms(cache.negative_ttl, "NEGATIVE TTL", context))


def _check(clause: syntax.LookupAsync, options: LookupOptions, context: Context) -> None:
    """What one option alone cannot tell."""
    if 0 < options.timeout_ms <= options.batch_within_ms:
        message = f"WITHIN {readable(options.batch_within_ms)} reaches TIMEOUT {readable(options.timeout_ms)}"
        context.wrong("SS255", message, clause.span, "A row waits for its batch within its TIMEOUT.")
