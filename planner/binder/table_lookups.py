"""What the options of a table say of lookups in it: Flink's partial cache and retries of ``jdbc``."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlstream.planner.binder.lookup_options import Chosen
from sqlstream.planner.catalog import Table
from sqlstream.planner.intervals import text_ms
from sqlstream.udfs.lookup.options import Cache, Retry

CACHE, PARTIAL = "lookup.cache", "PARTIAL"
ROWS, OLDER_ROWS = "lookup.partial-cache.max-rows", "lookup.cache.max-rows"
TTL, OLDER_TTL = "lookup.partial-cache.expire-after-write", "lookup.cache.ttl"
MISSES, OLDER_MISSES = "lookup.partial-cache.cache-missing-key", "lookup.cache.caching-missing-key"
RETRIES = "lookup.max-retries"
RETRY_DELAY_MS = 1000
"""What Flink waits before it asks a database again."""


_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS = {"": "ms", "milli": "ms", "millis": "ms", "secs": "s"}
"""Units of options that are none of intervals."""


def with_options_of(table: Table, chosen: Chosen) -> Chosen:
    """The options of a lookup, with those of the table where clause and hint say nothing."""
    options = chosen.options
    if options.cache is None:
        options = replace(options, cache=cache_of(table))
    times = int(table.option(RETRIES) or 0)
    if times and not options.retries:
        options = replace(options, retries=(Retry(times, RETRY_DELAY_MS, on_miss=False),))
    return replace(chosen, options=options)


def cache_of(table: Table) -> Cache | None:
    """The cache that the options of the table ask for; None where they do not."""

    def given(key: str, older: str) -> str | None:
        return table.option(key) or table.option(older)

    rows, ttl = given(ROWS, OLDER_ROWS), given(TTL, OLDER_TTL)
    partial = (table.option(CACHE) or "").strip().upper() == PARTIAL or table.option(OLDER_ROWS) is not None
    if not partial or rows is None:
        return None
    misses = (given(MISSES, OLDER_MISSES) or "true").strip().lower() == "true"
    return Cache(int(rows), None if ttl is None else _ms(ttl), None if misses else 0)


def _ms(text: str) -> int:
    """Milliseconds of a duration; a number without a unit counts them, as in Flink."""
    number, unit = _DURATION.findall(text.lower())[0]
    return text_ms(f"{number} {_UNITS.get(unit, unit)}")
