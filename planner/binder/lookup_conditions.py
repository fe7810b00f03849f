"""ON of a lookup join: which equalities are keys, and where the rest of the condition is decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.scope import Visible
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.naming import field_of
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.rewriting import columns_of, is_repeatable, node_of
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_NO_KEYS = frozenset({"ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL", "BINARY"})


@dataclass
class Split:
    """``keys`` in the order of ON; ``left`` reads the left side alone, ``above`` calls functions of Python."""

    keys: tuple[Item, ...] = ()
    left: list[exp.Expression] = field(default_factory=list)
    rest: list[exp.Expression] = field(default_factory=list)
    above: list[exp.Expression] = field(default_factory=list)


def split(conditions: Iterable[exp.Expression], node: Lookup, context: Context) -> Split:
    """The conjuncts of ON over the fields of ``node``, each where it belongs. SS206, SS258."""
    parts = Split()
    columns = _physical(node)
    outputs = {o.name for o in node.outputs}
    types = Types(node.schema, context.catalog.function)
    for condition in conditions:
        pair = _pair(condition, columns, outputs)
        if pair is not None and pair[0].name not in {k.name for k in parts.keys}:
            column, value = pair
            key, exact = _key(column, value, types, condition, context)
            parts.keys = (*parts.keys, key)
            if not exact:
                _keep(condition, parts, node, context)
        elif not columns_of(condition) & outputs:
            parts.left.append(condition)
        else:
            _keep(condition, parts, node, context)
    return parts


def _keep(condition: exp.Expression, parts: Split, node: Lookup, context: Context) -> None:
    """Functions of Python cannot look at the rows of an answer, only at rows of the result."""
    if is_repeatable(condition):
        parts.rest.append(condition)
    elif not node.outer:
        parts.above.append(condition)
    else:
        message = "ON of a LEFT lookup join calls a function of Python, or one that differs at every call"
        hint = "Join without LEFT, or call it in the query above."
        context.wrong("SS258", message, condition, hint)


def _physical(node: Lookup) -> dict[str, Field]:
    """The physical columns that may be keys, by the name of their output."""
    read = {f.name: f for f in node.read if f.type.name not in _NO_KEYS}
    columns = ((o.name, read.get(o.expression.name)) for o in node.outputs if isinstance(o.expression, exp.Column))
    return {name: column for name, column in columns if column is not None}


def _pair(
    condition: exp.Expression, columns: dict[str, Field], outputs: set[str]
) -> tuple[Field, exp.Expression] | None:
    """Column and value of ``column = value`` or the other way round; the value reads the left side or nothing."""
    equality = condition.unnest()
    if not isinstance(equality, exp.EQ):
        return None
    left, right = equality.left.unnest(), equality.right.unnest()
    for column, value in ((left, right), (right, left)):
        if isinstance(column, exp.Column) and column.name in columns and not columns_of(value) & outputs:
            return columns[column.name], node_of(value)
    return None


# --- types of keys --------------------------------------------------------------------------------------------


def _key(column: Field, value: exp.Expression, types: Types, at: exp.Expression, context: Context) -> tuple[Item, bool]:
    """The key and whether its conversion to the column's type decides the equality; SS206 where none could."""
    kind = types.of(value)
    if kind == column.type:
        return Item(column.name, value, column.type, types.nullable(value)), True
    if not _comparable(kind, column.type):
        message = f'column "{column.name}" of type {column.type} cannot be looked up by values of type {kind}'
        hint = f"Convert the value: CAST(… AS {column.type})."
        context.wrong("SS206", message, at, hint)
    narrows = kind.is_numeric and column.type.is_numeric and not _widens(kind, column.type)
    # What does not fit into the column's type is equal to none of its values.
    converted = exp.TryCast(this=value, to=column.type.to_sqlglot(), safe=True) if narrows else cast(value, column.type)
    nullable = narrows or types.nullable(value)
    return Item(column.name, converted, column.type, nullable), _decides(kind, column.type)


def _comparable(value: DataType, column: DataType) -> bool:
    """UNSAFE to compare other types with strings, as Spark makes numbers of the strings: '01' = 1."""
    if value.is_unknown or value.name == "VOID":
        return True
    if value.name == "STRING":
        return column.name != "BOOLEAN"
    return (value.is_numeric and column.is_numeric) or (value.name in _TIMES and column.name in _TIMES)


def _widens(value: DataType, column: DataType) -> bool:
    if value.name in _INTEGERS:
        wider = column.name in _INTEGERS and _INTEGERS.index(value.name) < _INTEGERS.index(column.name)
        return wider or column.name == "DOUBLE"
    return value.name == "FLOAT" and column.name == "DOUBLE"


def _decides(value: DataType, column: DataType) -> bool:
    """False where the conversion rounds: 1.5 finds the rows of 1 or 2, which are not equal to it."""
    if value.is_numeric and column.is_numeric:
        return _widens(value, column) or (value.name in _INTEGERS and column.name in (*_INTEGERS, "DECIMAL"))
    return not (value.name in ("TIMESTAMP", "TIMESTAMP_NTZ") and column.name == "DATE")


# --- USING ----------------------------------------------------------------------------------------------------


Columns = tuple[Visible, ...]


def joined_using(names: list[exp.Expr], left: Columns, right: Columns) -> tuple[list[exp.Expression], Columns]:
    """The equalities of USING, and the columns of both sides, of which theirs come first and are not ambiguous."""
    conditions: list[exp.Expression] = []
    merged: list[Visible] = []
    for name in names:
        ours, theirs = _named(name, left, "left side"), _named(name, right, f'table "{right[0].table}"')
        condition = exp.EQ(this=field_of(ours.field), expression=field_of(theirs.field))
        mark_as(condition, name)
        conditions.append(condition)
        merged.append(ours)
        right = tuple(replace(v, starred=False, qualified=True) if v == theirs else v for v in right)
    return conditions, (*merged, *(v for v in left if v not in merged), *right)


def _named(name: exp.Expr, columns: tuple[Visible, ...], side: str) -> Visible:
    matching = [v for v in columns if v.matches(name.name, None)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise bind_error("SS204", f'column "{name.name}" of USING is ambiguous', name, "Write the condition with ON.")
    hint = did_you_mean(name.name, [v.name for v in columns], "columns")
    raise bind_error("SS201", f'column "{name.name}" of USING does not exist in the {side}', name, hint)
