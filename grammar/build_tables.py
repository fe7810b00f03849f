"""Trees of lark to the clauses behind a table: WATERMARK … DELAY OF, ALIGN BARRIERS, LOOKUP ASYNC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token, v_args
from lark.tree import Meta
from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_clauses import ClauseBuilder, interval_of, span_of_meta, whole
from sqlstream.grammar.failures import failure

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
    """Options become (field, value, span); the clause refuses one that is given twice."""

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
