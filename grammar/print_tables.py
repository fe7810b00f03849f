"""Clauses behind a table back to text: WATERMARK … DELAY OF, ALIGN BARRIERS, LOOKUP ASYNC."""

from __future__ import annotations

from sqlstream.grammar import nodes as n
from sqlstream.grammar.printer import Sql, after, joined, print_node


@print_node.register
def _(node: n.WatermarkDelay, sql: Sql) -> str:
    return f"WATERMARK {sql(node.column)} DELAY OF {sql(node.delay)}"


@print_node.register
def _(node: n.TableHint, sql: Sql) -> str:
    return sql(node.hint).strip()


@print_node.register
def _(node: n.AlignBarriers, sql: Sql) -> str:
    options = (
        f"CHANNEL {sql(node.channel)} OF {node.channels}",
        f"MARKER {sql(node.marker)}",
        f"ID {sql(node.id)}",
        after("CANCEL WHEN", node.cancel_when, sql),
        after("END WHEN", node.end_when, sql),
        "MODE AT_LEAST_ONCE" if node.at_least_once else None,
        after("TIMEOUT", node.timeout, sql),
    )
    return f"ALIGN BARRIERS ({', '.join(o for o in options if o)})"


@print_node.register
def _(node: n.LookupAsync, sql: Sql) -> str:
    error = f"ON ERROR {node.on_error}" if node.on_error else None
    options = (
        f"OUTPUT {node.order.value}" if node.order else None,
        f"CAPACITY {node.capacity}" if node.capacity is not None else None,
        after("TIMEOUT", node.timeout, sql),
        f"ON TIMEOUT {node.on_timeout}" if node.on_timeout else None,
        joined(error, sql(node.error_table) if node.error_table is not None else None),
        *(print_node(r, sql) for r in node.retry),
        print_node(node.cache, sql) if node.cache else None,
        _batch(node, sql),
    )
    listed = ", ".join(o for o in options if o)
    return f"LOOKUP ASYNC ({listed})" if listed else "LOOKUP ASYNC"


def _batch(node: n.LookupAsync, sql: Sql) -> str | None:
    return joined(f"BATCH {node.batch}", after("WITHIN", node.batch_within, sql)) if node.batch is not None else None


@print_node.register
def _(node: n.Retry, sql: Sql) -> str:
    word = "EXPONENTIAL FROM" if node.exponential else "FIXED DELAY"
    delay = joined(word, sql(node.delay), after("TO", node.limit, sql))
    return joined("RETRY", f"ON {node.on}" if node.on else None, f"{node.times} TIMES ({delay})")


@print_node.register
def _(node: n.Cache, sql: Sql) -> str:
    return joined(f"CACHE {node.rows} ROWS", after("TTL", node.ttl, sql), after("NEGATIVE TTL", node.negative_ttl, sql))
