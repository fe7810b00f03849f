"""Nodes of streaming clauses back to text, in canonical form; ``sql`` prints the SQL inside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from sqlglot import exp

from sqlstream.grammar import nodes as n
from sqlstream.grammar.quoting import quote_dotted, quote_name

Sql = Callable[[exp.Expression], str]


@singledispatch
def print_node(node: n.Node, sql: Sql) -> str:
    """The node's text on one line."""
    raise TypeError(f"{type(node).__name__} has no printed form")


def joined(*parts: str | None) -> str:
    """The parts that are there, with spaces between."""
    return " ".join(p for p in parts if p)


def after(word: str, expression: exp.Expression | None, sql: Sql) -> str | None:
    """``WORD expression``; None where there is no expression."""
    return f"{word} {sql(expression)}" if expression is not None else None


def _list(expressions: tuple[exp.Expression, ...], sql: Sql) -> str:
    return ", ".join(sql(e) for e in expressions)


@print_node.register
def _(node: n.RowCount, sql: Sql) -> str:
    return f"{node.count} ROWS"


@print_node.register
def _(node: n.Duration, sql: Sql) -> str:
    return sql(node.expression)


# --- table functions ---


@print_node.register
def _(node: n.Descriptor, sql: Sql) -> str:
    return f"DESCRIPTOR({_list(node.columns, sql)})"


@print_node.register
def _(node: n.TableArgument, sql: Sql) -> str:
    return _table(node, sql)


def _table(node: n.TableArgument, sql: Sql, enclosed: bool = False) -> str:
    partition = f"PARTITION BY {_keys(node.partition_by, sql, enclosed)}" if node.partition_by else None
    order = f"ORDER BY {_keys(node.order_by, sql, enclosed)}" if node.order_by else None
    return joined("TABLE", sql(node.source), partition, order)


def _keys(keys: tuple[exp.Expression, ...], sql: Sql, enclosed: bool) -> str:
    """In parentheses unless it is one column: a comma between keys looks like the end of the argument."""
    listed = _list(keys, sql)
    plain = len(keys) == 1 and isinstance(_unordered(keys[0]), exp.Column)
    return listed if plain and not enclosed else f"({listed})"


def _unordered(key: exp.Expression) -> exp.Expr:
    return key.this if isinstance(key, exp.Ordered) else key


@print_node.register
def _(node: n.Argument, sql: Sql) -> str:
    value = print_node(node.value, sql) if isinstance(node.value, n.Node) else sql(node.value)
    return f"{quote_name(node.name)} => {value}" if node.name is not None else value


@print_node.register
def _(node: n.TableFunction, sql: Sql) -> str:
    following = (*node.arguments[1:], None)
    arguments = (_argument(a, after, sql) for a, after in zip(node.arguments, following, strict=True))
    call = f"{quote_dotted(node.name)}({', '.join(arguments)})"
    return f"TABLE({call})" if node.wrapped else call


def _argument(argument: n.Argument, following: n.Argument | None, sql: Sql) -> str:
    """A single key without parentheses would take the expression that follows for another key."""
    table = argument.value
    another_key = following is not None and following.name is None and isinstance(following.value, exp.Expr)
    if not isinstance(table, n.TableArgument) or not another_key:
        return print_node(argument, sql)
    name = f"{quote_name(argument.name)} => " if argument.name is not None else ""
    return f"{name}{_table(table, sql, enclosed=True)}"


# --- windows ---


@print_node.register
def _(node: n.GroupWindow, sql: Sql) -> str:
    measures = ", ".join(print_node(m, sql) for m in node.measures)
    return f"{node.kind.value}({sql(node.time)}, {measures})"


@print_node.register
def _(node: n.CountWindow, sql: Sql) -> str:
    slide = f"SLIDE {print_node(node.slide, sql)}" if node.slide else None
    inner = joined(print_node(node.size, sql), slide, "FULL ONLY" if node.full_only else None)
    return f"COUNT WINDOW ({inner})"


@print_node.register
def _(node: n.GlobalWindow, sql: Sql) -> str:
    return "GLOBAL WINDOW"


@print_node.register
def _(node: n.UserCall, sql: Sql) -> str:
    return f"{quote_dotted(node.name)}({_list(node.arguments, sql)})"


@print_node.register
def _(node: n.UserWindow, sql: Sql) -> str:
    return f"WINDOW USING {print_node(node.call, sql)}"


# --- triggers ---


@print_node.register
def _(node: n.Trigger, sql: Sql) -> str:
    accumulation = node.accumulation.value if node.accumulation else None
    return joined("TRIGGER", print_node(node.expression, sql), accumulation)


@print_node.register
def _(node: n.EveryRows, sql: Sql) -> str:
    return f"EVERY {node.count} ROWS"


@print_node.register
def _(node: n.EveryInterval, sql: Sql) -> str:
    return joined("EVERY", sql(node.interval), node.domain.value if node.domain else None)


@print_node.register
def _(node: n.When, sql: Sql) -> str:
    return f"WHEN ({sql(node.condition)})"


@print_node.register
def _(node: n.AfterWatermark, sql: Sql) -> str:
    early = f"EARLY {print_node(node.early, sql)}" if node.early else None
    late = f"LATE {print_node(node.late, sql)}" if node.late else None
    return joined("AFTER WATERMARK", early, late)


@print_node.register
def _(node: n.AfterProcessingTime, sql: Sql) -> str:
    return "AFTER PROCESSING TIME"


@print_node.register
def _(node: n.DeltaTrigger, sql: Sql) -> str:
    return f"{'ABSOLUTE ' if node.absolute else ''}DELTA ({sql(node.value)}) > {sql(node.threshold)}"


@print_node.register
def _(node: n.AfterSilence, sql: Sql) -> str:
    return f"AFTER {sql(node.interval)} OF SILENCE"


@print_node.register
def _(node: n.OnBarrier, sql: Sql) -> str:
    return "ON BARRIER"


@print_node.register
def _(node: n.Never, sql: Sql) -> str:
    return "NEVER"


@print_node.register(n.UserTrigger)
@print_node.register(n.UserEvictor)
def _(node: n.UserTrigger | n.UserEvictor, sql: Sql) -> str:
    return f"USING {print_node(node.call, sql)}"


@print_node.register
def _(node: n.Purging, sql: Sql) -> str:
    return f"PURGING ({print_node(node.inner, sql)})"


_STRENGTH = {n.Combinator.THEN: 0, n.Combinator.OR: 1, n.Combinator.AND: 2}


@print_node.register
def _(node: n.Combined, sql: Sql) -> str:
    strength = _STRENGTH[node.combinator]
    left = _operand(node.left, strength, sql)
    right = _operand(node.right, strength + 1, sql)
    return f"{left} {node.combinator.value} {right}"


def _operand(node: n.TriggerExpr, least: int, sql: Sql) -> str:
    """Parentheses where the operand binds weaker than ``least``."""
    text = print_node(node, sql)
    weaker = isinstance(node, n.Combined) and _STRENGTH[node.combinator] < least
    return f"({text})" if weaker else text


# --- EVICT, LATE DATA, EMIT ---


@print_node.register
def _(node: n.Evict, sql: Sql) -> str:
    return joined("EVICT", "AFTER" if node.after else None, print_node(node.evictor, sql))


@print_node.register
def _(node: n.KeepLast, sql: Sql) -> str:
    return f"KEEP LAST {print_node(node.measure, sql)}"


@print_node.register
def _(node: n.DeltaEvictor, sql: Sql) -> str:
    return f"{'ABSOLUTE ' if node.absolute else ''}DELTA ({sql(node.value)}) >= {sql(node.threshold)}"


@print_node.register
def _(node: n.LateData, sql: Sql) -> str:
    action = node.action.value if node.action else None
    return joined("LATE DATA", after("ALLOW", node.allow, sql), action, sql(node.table) if node.table else None)


@print_node.register
def _(node: n.Emit, sql: Sql) -> str:
    if node.kind is n.EmitKind.ON_WINDOW_CLOSE and node.interval is not None:
        return f"EMIT AFTER WATERMARK WITH DELAY {sql(node.interval)}"
    return joined("EMIT", node.kind.value, sql(node.interval) if node.interval else None)
