"""MATCH_RECOGNIZE back to text."""

from __future__ import annotations

from sqlstream.grammar import nodes as n
from sqlstream.grammar.printer import Sql, after, joined, print_node
from sqlstream.grammar.quoting import quote_name

_BOUNDS = {(0, None): "*", (1, None): "+", (0, 1): "?"}


@print_node.register
def _(node: n.MatchRecognize, sql: Sql) -> str:
    measures = ", ".join(print_node(m, sql) for m in node.measures)
    definitions = ", ".join(print_node(d, sql) for d in node.definitions)
    partition = ", ".join(sql(e) for e in node.partition_by)
    order = ", ".join(sql(e) for e in node.order_by)
    inner = joined(
        f"PARTITION BY {partition}" if partition else None,
        f"ORDER BY {order}" if order else None,
        f"MEASURES {measures}" if measures else None,
        node.rows,
        f"AFTER MATCH SKIP {_skip(node.skip)}" if node.skip else None,
        f"PATTERN ({print_node(node.pattern, sql)})",
        after("WITHIN", node.within, sql),
        f"DEFINE {definitions}",
    )
    return f"MATCH_RECOGNIZE ({inner})"


def _skip(words: str) -> str:
    to, end, name = words.split(" ", 2)
    return f"{to} {end} {quote_name(name)}" if to.upper() == "TO" and end.upper() in ("FIRST", "LAST") else words


@print_node.register
def _(node: n.Measured, sql: Sql) -> str:
    return joined(node.mode, sql(node.expression), "AS", quote_name(node.name))


@print_node.register
def _(node: n.PatternDefinition, sql: Sql) -> str:
    return f"{quote_name(node.name)} AS {sql(node.condition)}"


@print_node.register
def _(node: n.PatternVariable, sql: Sql) -> str:
    return quote_name(node.name)


@print_node.register
def _(node: n.PatternSequence, sql: Sql) -> str:
    return " ".join(_grouped(p, sql, n.PatternAlternation, n.PatternSequence) for p in node.parts)


@print_node.register
def _(node: n.PatternAlternation, sql: Sql) -> str:
    return " | ".join(_grouped(p, sql, n.PatternAlternation) for p in node.parts)


@print_node.register
def _(node: n.PatternRepetition, sql: Sql) -> str:
    least, most = node.least, node.most
    exact = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    inner = _grouped(node.pattern, sql, n.PatternAlternation, n.PatternSequence, n.PatternRepetition)
    return f"{inner}{_BOUNDS.get((least, most), exact)}{'?' if node.reluctant else ''}"


def _grouped(node: n.Pattern, sql: Sql, *weaker: type[n.Pattern]) -> str:
    """In parentheses where the part would otherwise be read as something else."""
    text = print_node(node, sql)
    return f"({text})" if isinstance(node, weaker) else text
