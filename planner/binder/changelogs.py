"""Changelogs: the modes of tables, the changes that operators accept, TO_CHANGELOG and FROM_CHANGELOG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar.nodes import Argument, Descriptor, Option, TableArgument, TableFunction
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.scope import Scope, scope_of
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, UPSERT, RowKind, Table
from sqlstream.planner.changes import NodeT, is_upsert, producer_of, rejected_kinds, with_final_rows
from sqlstream.planner.fields import UniqueNames
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project
from sqlstream.planner.operators.changelogs import Codes, FromChangelog, Normalize, ToChangelog
from sqlstream.planner.properties import changelog_text
from sqlstream.planner.suggestions import did_you_mean

CHANGELOG_OPTION = "changelog-mode"

_KINDS = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}
_MODES = {frozenset(_KINDS[k] for k in mode.split(",")): mode for mode in ("I", "I,UA,D", "I,UB,UA,D", "I,D")}
_CONNECTORS = {"mysql-cdc": UPSERT, "postgres-cdc": UPSERT, "upsert-kafka": UPSERT}
_FORMATS = dict.fromkeys(
    ("canal-json", "debezium-avro-confluent", "debezium-json", "maxwell-json", "ogg-json"), ALL_KINDS
)


def changelog_of(
    option: Option | None, connector: str, format_name: str | None, context: Context
) -> frozenset[RowKind] | None:
    """The kinds of rows (+I, -U, +U, -D) that a table emits: those of its changelog option, else the connector's or the
    format's. None if none of them declares changes. BindError SS218 for an unknown mode.
    """
    if option is None:
        return _CONNECTORS.get(connector) or _FORMATS.get((format_name or "").strip().lower())
    kinds = [k.strip().upper() for k in option.value.split(",")]
    row_kinds = frozenset(_KINDS[k] for k in kinds if k in _KINDS)
    if len(row_kinds) != len(kinds) or row_kinds not in _MODES:
        modes = ", ".join(f"'{mode}'" for mode in _MODES.values())
        context.wrong("SS218", f"'{option.value}' is no changelog mode", option.span, f"The modes are {modes}.")
        return None
    return row_kinds


def check_changes(node: NodeT, context: Context, *at: exp.Expr | Span | None) -> NodeT:
    """Reports SS325 if an operator does not accept the row kinds of one of its inputs. Returns the operator. If it
    works better with final rows than with updates, inputs that can emit each row once, when it is final, are changed to
    do so.

    ``at`` is the syntax for the message: one per input, or one for all of them. Nothing is checked over finished data.
    """
    if context.settings.any_order:
        return node
    node = with_final_rows(node)
    for port, kinds in rejected_kinds(node):
        written = at[port] if len(at) > 1 else at[0]
        span = span_of(written) if isinstance(written, exp.Expr) else written
        context.report(_not_taken(node, producer_of(node.inputs[port], kinds), kinds, span))
    return node


def _not_taken(node: Node, maker: Node, kinds: frozenset[RowKind], span: Span | None) -> Diagnostic:
    reason = node.why_inserts_only
    because = f": {reason}" if reason is not None else ""
    come = f"Rows of the kinds {changelog_text(kinds)} come from {maker.producer_name}"
    detail = f"{come}, and {node.consumer_name} does not take them{because}."
    diagnostic = unsupported.diagnostic("changelog input", span, detail)
    instead = maker.append_only_hint
    return diagnostic if instead is None else replace(diagnostic, hint=f"{instead[0].upper()}{instead[1:]}.")


# --- TO_CHANGELOG and FROM_CHANGELOG --------------------------------------------------------------------------

TO, FROM = "TO_CHANGELOG", "FROM_CHANGELOG"
CHANGELOG_FUNCTIONS = frozenset({TO, FROM})
_FUNCTION_PARAMETERS = {
    TO: ("input", "op", "op_mapping", "produces_full_deletes", "uid"),
    FROM: ("input", "op", "op_mapping", "error_handling", "uid"),
}
_OP = "op"
_KIND_NAMES = {
    "INSERT": RowKind.INSERT,
    "UPDATE_BEFORE": RowKind.UPDATE_BEFORE,
    "UPDATE_AFTER": RowKind.UPDATE_AFTER,
    "DELETE": RowKind.DELETE,
}
_FUNCTION_FORMS = {
    TO: "Write TO_CHANGELOG(input => TABLE t, op => DESCRIPTOR(op), op_mapping => MAP['INSERT', 'c', 'DELETE', 'd']).",
    FROM: "Write FROM_CHANGELOG(input => TABLE t PARTITION BY id, op => DESCRIPTOR(op), "
    "op_mapping => MAP['c, r', 'INSERT', 'u', 'UPDATE_AFTER', 'd', 'DELETE']).",
}


def changelog_function(call: TableFunction, context: Context, bind_source: Callable[[exp.Expr], Scope]) -> Scope:
    """Binds a call of TO_CHANGELOG or FROM_CHANGELOG in FROM. Returns the scope of its rows. ``bind_source`` binds the
    table argument. Mistakes raise BindError SS201, SS260, SS261, SS262, SS268.
    """
    name = call.name.upper()
    arguments = _arguments_by_name(call, name)
    table = arguments["input"].value
    assert isinstance(table, TableArgument)
    if table.order_by:
        context.refuse("syntax", table.span, f"It is ORDER BY in TABLE of {name}.")
    scope = bind_source(table.source)
    context.stop_if_wrong()
    scope = _starred(scope)
    op = _op(arguments.get("op"), name)
    codes = _codes(arguments.get("op_mapping"), call, name)
    return (_to if name == TO else _from)(call, arguments, scope, op, codes, context)


def _starred(scope: Scope) -> Scope:
    """The columns of SELECT *, without hidden fields."""
    columns = [c for c in scope.columns if c.starred]
    fields = list(dict.fromkeys(c.field for c in columns))
    node = Project(scope.node, tuple(scope.fields[name].as_item for name in fields))
    unique = [next(c for c in columns if c.field == name) for name in fields]
    return Scope(node, tuple(unique))


def _to(
    call: TableFunction, arguments: dict[str, Argument], scope: Scope, op: str, codes: Codes, context: Context
) -> Scope:
    if any(c.name.casefold() == op.casefold() for c in scope.columns):
        hint = "Give the new column another name: op => DESCRIPTOR(kind)."
        raise bind_error("SS268", f'the rows of "{call.name}" have a column "{op}" already', call.span, hint)
    full = arguments.get("produces_full_deletes")
    if full is not None and not isinstance(full.value, exp.Boolean):
        raise bind_error("SS261", "produces_full_deletes must be TRUE or FALSE", full.span, _FUNCTION_FORMS[TO])
    _keys(call, arguments, scope, TO)
    field = UniqueNames(f.name for f in scope.node.schema).unique(op)
    names = {c.field: c.name for c in reversed(scope.columns)}
    node = ToChangelog(scope.node, field, codes)
    shown = (op, *(names.get(f.name, f.name) for f in scope.node.schema))
    return scope_of(Relation(node, shown), call.name)


def _from(
    call: TableFunction, arguments: dict[str, Argument], scope: Scope, op: str, codes: Codes, context: Context
) -> Scope:
    visible = scope.find(op)
    if len(visible) != 1:
        hint = did_you_mean(op, [c.name for c in scope.columns], "columns") or "op => DESCRIPTOR(c) names another one."
        raise bind_error("SS201", f'column "{op}" with the operations does not exist', call.span, hint)
    of_op = scope.fields[visible[0].field].type
    if of_op.name not in ("STRING", "UNKNOWN"):
        raise bind_error(
            "SS261", f'column "{op}" with the operations is {of_op}, not STRING', call.span, _FUNCTION_FORMS[FROM]
        )
    keys = _keys(call, arguments, scope, FROM)
    kinds = {kind for kind, _ in codes}
    if RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds and not keys:
        hint = "Write TABLE t PARTITION BY id, or map a code to 'UPDATE_BEFORE'."
        message = f"updates of {FROM} without rows of before need the key of the rows"
        raise bind_error("SS262", message, arguments["input"].span, hint)
    node: FromChangelog | Normalize = check_changes(
        FromChangelog(scope.node, visible[0].field, codes, _skips(arguments.get("error_handling")), keys),
        context,
        arguments["input"].span,
    )
    names = {c.field: c.name for c in reversed(scope.columns)}
    shown = tuple(names.get(f.name, f.name) for f in node.schema)
    updated = keys and RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds
    made: Node = Normalize(node, keys, context.ttl_of(call.name)) if updated else replace(node, keys=())
    return scope_of(Relation(made, shown), call.name)


# --- their arguments ------------------------------------------------------------------------------------------


def _arguments_by_name(call: TableFunction, name: str) -> dict[str, Argument]:
    parameters = _FUNCTION_PARAMETERS[name]
    arguments: dict[str, Argument] = {}
    for position, argument in enumerate(call.arguments):
        if argument.name is None and position >= len(parameters):
            raise bind_error(
                "SS260", f"{name} takes at most {len(parameters)} arguments", argument.span, _FUNCTION_FORMS[name]
            )
        parameter = argument.name.casefold() if argument.name is not None else parameters[position]
        if parameter not in parameters:
            hint = did_you_mean(parameter, parameters, "arguments") or _FUNCTION_FORMS[name]
            raise bind_error("SS260", f'{name} has no argument "{argument.name}"', argument.span, hint)
        if parameter in arguments:
            raise bind_error(
                "SS260", f'argument "{parameter}" of {name} is given twice', argument.span, _FUNCTION_FORMS[name]
            )
        arguments[parameter] = argument
    if "input" not in arguments:
        raise bind_error("SS260", f'{name} needs the argument "input"', call.span, _FUNCTION_FORMS[name])
    kinds = {"input": (TableArgument, "TABLE t"), "op": (Descriptor, "DESCRIPTOR(…)")}
    for parameter, argument in arguments.items():
        wanted, spelled = kinds.get(parameter, (exp.Expr, "a constant"))
        if not isinstance(argument.value, wanted):
            message = f'argument "{parameter}" of {name} must be {spelled}'
            raise bind_error("SS261", message, argument.span, _FUNCTION_FORMS[name])
    return arguments


def _op(argument: Argument | None, name: str) -> str:
    """The name of the column with the row kinds."""
    if argument is None:
        return _OP
    assert isinstance(argument.value, Descriptor)
    if len(argument.value.columns) != 1:
        raise bind_error("SS261", f"op of {name} must name one column", argument.span, _FUNCTION_FORMS[name])
    return str(argument.value.columns[0].name)


def _codes(argument: Argument | None, call: TableFunction, name: str) -> Codes:
    """Row kinds and their codes; by default the codes are the names of the kinds."""
    if argument is None:
        return tuple((kind, text) for text, kind in _KIND_NAMES.items())
    codes: dict[tuple[RowKind, str], None] = {}
    for key, value in _pairs(argument, name):
        listed, other = (key, value) if name == TO else (value, key)
        for text in listed.split(",") if name == TO else [listed]:
            kind = _KIND_NAMES.get(text.strip().upper())
            if kind is None:
                hint = f"Kinds are {', '.join(_KIND_NAMES)}."
                raise bind_error(
                    "SS261", f'op_mapping of {name} has no kind of row "{text.strip()}"', argument.span, hint
                )
            others = other.split(",") if name == FROM else [other]
            codes.update(dict.fromkeys((kind, code.strip() if name == FROM else code) for code in others))
    mapped = [kind if name == TO else code for kind, code in codes]
    twice = next((m for m in mapped if mapped.count(m) > 1), None)
    if twice is not None:
        shown = twice.name if isinstance(twice, RowKind) else twice
        raise bind_error("SS261", f'op_mapping of {name} has "{shown}" twice', argument.span, _FUNCTION_FORMS[name])
    return tuple(codes)


def _pairs(argument: Argument, name: str) -> Iterator[tuple[str, str]]:
    value = argument.value
    texts = value.expressions if isinstance(value, exp.Anonymous) and value.name.upper() == "MAP" else []
    if not texts or len(texts) % 2 or not all(isinstance(t, exp.Literal) and t.is_string for t in texts):
        raise bind_error(
            "SS261", f"op_mapping of {name} must be a MAP of constant texts", argument.span, _FUNCTION_FORMS[name]
        )
    return zip((t.name for t in texts[::2]), (t.name for t in texts[1::2]), strict=True)


def _skips(argument: Argument | None) -> bool:
    value = argument.value if argument is not None else None
    word = value.name.upper() if isinstance(value, exp.Literal) and value.is_string else ""
    if argument is not None and word not in ("FAIL", "SKIP"):
        raise bind_error("SS261", "error_handling must be 'FAIL' or 'SKIP'", argument.span, _FUNCTION_FORMS[FROM])
    return word == "SKIP"


def _keys(call: TableFunction, arguments: dict[str, Argument], scope: Scope, name: str) -> tuple[str, ...]:
    table = arguments["input"].value
    assert isinstance(table, TableArgument)
    keys: list[str] = []
    for written in table.partition_by:
        column = scope.resolve(written) if isinstance(written, exp.Column) else None
        if not isinstance(column, exp.Column):
            hint = "Compute it in a subquery: TABLE (SELECT …, expression AS k FROM t)."
            raise bind_error("SS262", f'PARTITION BY of "{call.name}" must name columns', written, hint)
        keys.append(column.name)
    return tuple(dict.fromkeys(keys))


# --- tables whose updates lack the previous row ---------------------------------------------------------------


def with_previous_rows(table: Table, relation: Relation, alias: str, context: Context) -> Relation:
    """Returns the plan that reads a table. If the table's changelog lacks the previous row of each update (-U), a node
    that adds it is on top.

    An optimizer rule removes that node if no operator above reads previous rows. ``alias`` is the table's name in FROM.
    """
    repeated = context.settings.repeated_changes and table.changelog != APPEND_ONLY
    if not table.primary_key or not (is_upsert(table) or repeated):
        return relation
    return replace(relation, node=Normalize(relation.node, table.primary_key, context.ttl_of(alias)))
