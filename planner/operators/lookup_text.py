"""The options of lookups in words. Options of tables are never shown: they may hold secrets."""

from __future__ import annotations

from sqlstream.planner.durations import readable
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Retry
from sqlstream.udfs.lookup.source import Comparison


def comparison_text(comparison: Comparison) -> str:
    """``age > 3``, ``name IN ('a', 'b')``, ``name IS NULL``."""
    if comparison.value is None:
        return f"{comparison.column} {comparison.operator}"
    if isinstance(comparison.value, tuple):
        return f"{comparison.column} {comparison.operator} ({', '.join(map(_value, comparison.value))})"
    return f"{comparison.column} {comparison.operator} {_value(comparison.value)}"


def _value(value: object) -> str:
    return f"'{value}'" if not isinstance(value, (bool, int, float)) else str(value)


def options_text(options: LookupOptions, failed: str = "") -> list[str]:
    """Order, capacity and timeout always, the rest where it is asked for; ``failed`` is the table of ON ERROR TO."""
    if options.asynchronous:
        texts = [f"{options.order.value.lower()}, capacity {options.capacity}"]
    else:
        texts = ["one at a time"]
    texts.append(f"timeout {readable(options.timeout_ms)}{_then(options.on_timeout)}")
    if options.on_error is not OnError.FAIL:
        texts.append(f"on error {options.on_error.value} {failed}".rstrip())
    texts += [_retry(r) for r in options.retries]
    if options.cache is not None:
        texts.append(_cache(options.cache))
    if options.batch > 1:
        within = f" within {readable(options.batch_within_ms)}" if options.batch_within_ms else ""
        texts.append(f"batch {options.batch}{within}")
    return texts


def _then(action: OnTimeout) -> str:
    return "" if action is OnTimeout.FAIL else f" then {action.value}"


def _retry(retry: Retry) -> str:
    on = {(True, False): " on miss", (False, True): " on error"}.get((retry.on_miss, retry.on_error), "")
    if not retry.exponential:
        return f"retry{on} {retry.times} times after {readable(retry.delay_ms)}"
    limit = f" to {readable(retry.limit_ms)}" if retry.limit_ms is not None else ""
    return f"retry{on} {retry.times} times after {readable(retry.delay_ms)}, doubled{limit}"


def _cache(cache: Cache) -> str:
    ttl = f" for {readable(cache.ttl_ms)}" if cache.ttl_ms is not None else ""
    negative = f", misses for {readable(cache.negative_ttl_ms)}" if cache.negative_ttl_ms is not None else ""
    return f"cache {cache.rows} rows{ttl}{negative}"
