"""Statements of a text, each with all that can be known without running it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlstream.analysis.answers import (
    Analysis,
    FunctionUse,
    OutputColumn,
    Problem,
    Role,
    StatementAnalysis,
    StateNeed,
    TableUse,
    problem_of,
)
from sqlstream.analysis.rewrites import FilledText, filled
from sqlstream.batch import only_as_batch
from sqlstream.batch.choosing import batch_instead
from sqlstream.connectors.secrets import without_secrets
from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.functions.catalogue import kind_of
from sqlstream.grammar import Written, name_span_of, nodes, parse_each, span_of, to_sql
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.trees import walk
from sqlstream.partial_inserts import partial_insert_warnings
from sqlstream.planner.batch import resolve
from sqlstream.planner.binder import bind_query, bind_statement
from sqlstream.planner.catalog import Column, Table, TimeDomain, View
from sqlstream.planner.explain import to_json
from sqlstream.planner.explain.to_json import encode
from sqlstream.planner.expressions import as_expression, conjunction, conjuncts
from sqlstream.planner.fields import Field
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.functions.patterns import warnings_of
from sqlstream.planner.lineage import lineage
from sqlstream.planner.node import Node, bottom_up
from sqlstream.planner.nodes import Filter, Insert, Output, Project, Scan, StatementSet
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.properties import UNBOUNDED_STATE_HINT, changelog_text
from sqlstream.planner.rules import optimize
from sqlstream.plans import (
    Root,
    binder_settings,
    bound_plan,
    calls_not_executed,
    looked_up_tables,
    read_columns,
    rules_of,
    scanned_tables,
    side_tables,
)
from sqlstream.statements.registry import is_definition, statement_type
from sqlstream.workspace import Workspace

# --- fingerprints of what queries mean, equal for texts with the same optimized plan ------------------------------
# Aliases between the tables and the result, layout, comments, views and WITH, the order of what AND joins, and on which
# side of a comparison a constant stands leave no trace. Two queries with one fingerprint mean the same; two that mean
# the same may have different ones.


_NAMES = frozenset({
    "name", "keys", "start", "end", "time", "column", "pane", "pane_index", "grouping_id", "partition_by", "number",
    "passed", "left_time", "right_time", "field", "ends", "follows",
})  # fmt: skip
"""Keys whose values are names of fields."""
_KEPT_APART = frozenset({"table", "names", "source", "failed"})
"""What is looked at as it is: definitions of tables, and the names of the result."""
_QUOTED = re.compile(r"('(?:[^'\\]|\\.|'')*')|`((?:[^`]|``)+)`")
_PLAIN = re.compile(r"\w+")


def fingerprint(plan: Node, more: tuple[str, ...] = ()) -> str:
    """Returns a hash of an optimized plan. ``more``: further texts that are part of it, such as the names of
    parameters.
    """
    document = to_json(without_secrets(_in_order(plan)))
    names = _introduced(plan) - set(_told_elsewhere(document["plan"])) - {domain.name for domain in TimeDomain}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"#{len(numbers)}") if name in names else name

    return _hashed([_renamed(document["plan"], number, ""), more])


def fingerprint_of_text(text: str, tables: Iterable[Table], more: tuple[str, ...] = ()) -> str:
    """Returns a hash for a query that has no plan here because only Spark can analyze it: of its canonical text and
    the definitions of its tables.
    """
    definitions = [encode(table) for table in sorted(tables, key=lambda table: table.name)]
    return _hashed([text, definitions, more])


def _hashed(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _in_order(plan: Node) -> Node:
    def ordered(node: Node) -> Node:
        match node:
            case Filter():
                return replace(node, condition=conjunction(_conditions(conjuncts(node.condition))))
            case Scan() if node.predicates:
                return replace(node, predicates=tuple(_conditions(node.predicates)))
            case GroupAggregate(input=Project() as below) | WindowAggregate(input=Project() as below):
                # It reads fields by their names, so their order says nothing.
                return replace(node, input=below.input) if _only_picks(below) else node
        return node

    return bottom_up(plan, ordered)


_MIRRORED: dict[type[exp.Expression], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


def _conditions(conditions: Iterable[exp.Expression]) -> list[exp.Expression]:
    return sorted(map(_facing, conditions), key=str)


def _facing(condition: exp.Expression) -> exp.Expression:
    """A comparison with a constant has it at its end: ``1 < v`` is ``v > 1``. Of two columns none comes first, whose
    names may be anything."""
    mirrored = _MIRRORED.get(type(condition))
    if mirrored is None or condition.this.find(exp.Column) or not condition.expression.find(exp.Column):
        return condition
    return as_expression(mirrored(this=condition.expression, expression=condition.this))


def _only_picks(node: Project) -> bool:
    fields = {field.name: field for field in node.input.schema}
    return all(
        isinstance(item.expression, exp.Column)
        and item.expression.name == item.name
        and item.field == fields.get(item.name)
        for item in node.items
    )


def _introduced(plan: Node) -> set[str]:
    """The names of fields that no table has."""
    fields = {field.name for node in plan.walk() for field in node.schema}
    own = {column.name for node in plan.walk() if isinstance(node, Scan) for column in node.table.columns}
    return {name for name in fields - own if _PLAIN.fullmatch(name)}


def _told_elsewhere(value: Any, key: str = "") -> Iterator[str]:
    """Texts that stand where no names of fields do: a name that is among them keeps its spelling."""
    match value:
        case dict():
            for inner_key, inner in value.items():
                if inner_key not in _KEPT_APART:
                    yield from _told_elsewhere(inner, inner_key)
        case list():
            for inner in value:
                yield from _told_elsewhere(inner, key)
        case str() if key not in _NAMES:
            yield from _PLAIN.findall(_QUOTED.sub(lambda match: match[1] or "", value))


def _renamed(value: Any, number: Callable[[str], str], key: str) -> Any:
    match value:
        case dict():
            kept = {k: v for k, v in value.items() if k in _KEPT_APART}
            return {**{k: _renamed(v, number, k) for k, v in value.items() if k not in kept}, **kept}
        case list():
            return [_renamed(inner, number, key) for inner in value]
        case str() if key in _NAMES:
            return number(value)
        case str():
            return _QUOTED.sub(lambda match: match[1] or f"`{number(match[2])}`", value)
    return value


KEPT_FOR_EVER = "SS383"

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@on_deep_stack
def analyzed(text: str, workspace: Workspace) -> Analysis:
    """Returns the analysis of a text. The workspace is not changed."""
    try:
        filled_text = filled(text, workspace)
    except SqlStreamError:
        filled_text = FilledText(text)
    written = tuple(parse_each(filled_text.text))
    changes = any(one.statement is not None and is_definition(one.statement) for one in written)
    scratch = workspace.copy() if changes else workspace
    broken, statements = set[str](), list[StatementAnalysis]()
    names = tuple(parameter.name for parameter in filled_text.parameters)
    for one in written:
        parses = one.statement is not None
        statements.append(_of(one, scratch, filled_text, names, broken) if parses else _unparsed(one, filled_text))
    if filled_text.parameters:
        statements = [_placed(statement, filled_text) for statement in statements]
    return Analysis(text, tuple(statements), filled_text.parameters)


def _unparsed(one: Written, filled_text: FilledText) -> StatementAnalysis:
    assert one.error is not None
    words = filled_text.text[one.span.start : one.span.end].split(maxsplit=1)
    problems = tuple(problem_of(d, filled_text.text) for d in one.error.diagnostics)
    return StatementAnalysis(words[0].upper() if words else "", one.span, problems)


def _of(
    one: Written, scratch: Workspace, filled_text: FilledText, names: tuple[str, ...], broken: set[str]
) -> StatementAnalysis:
    """``broken`` are the messages about what a wrong CREATE would have defined, which brings no further mistakes."""
    statement, text = one.statement, filled_text.text
    assert statement is not None
    plain = StatementAnalysis(kind_of_statement(statement), one.span)
    defined = True
    try:
        if isinstance(statement, nodes.Query | nodes.Insert | nodes.StatementSet):
            plain = _planned(statement, scratch, plain, names)
        else:
            defined = statement_type(statement).check(statement, scratch, text)
            plain = _defined(statement, scratch, plain)
        mistakes: tuple[Diagnostic, ...] = ()
    except SqlStreamError as error:
        mistakes = tuple(d for d in error.diagnostics if not any(name in d.message.casefold() for name in broken))
        defined = False
    if not defined and isinstance(statement, nodes.CreateTable | nodes.CreateView | nodes.CreateFunction):
        broken.add(f'"{statement.name}" does not exist'.casefold())
    partial = partial_insert_warnings(statement, scratch)
    told = (problem_of(d, text) for d in (*mistakes, *warnings_of(statement), *partial))
    return replace(
        plain,
        problems=tuple(sorted((*told, *plain.problems), key=lambda p: p.span.start if p.span else one.span.end)),
        tables=plain.tables or _named_tables(statement, scratch),
        functions=_functions(statement, scratch),
    )


def kind_of_statement(statement: nodes.Statement) -> str:
    """Returns the first words of a statement, which say what kind it is: ``SELECT``, ``INSERT INTO``, ``CREATE
    TABLE``.
    """
    match statement:
        case nodes.Query():
            return "SELECT"
        case nodes.Insert():
            return "INSERT INTO"
        case nodes.StatementSet():
            return "EXECUTE STATEMENT SET"
        case nodes.Drop():
            return f"DROP {statement.kind}"
        case nodes.Show():
            return f"SHOW {statement.what}"
    return " ".join(_WORDS.split(type(statement).__name__)).upper()


# --- queries and INSERTs --------------------------------------------------------------------------------------

_Planned = nodes.Query | nodes.Insert | nodes.StatementSet


def _planned(
    statement: _Planned, workspace: Workspace, plain: StatementAnalysis, names: tuple[str, ...]
) -> StatementAnalysis:
    try:
        bound = bound_plan(statement, workspace)
        plan = optimize(bound, rules_of(workspace.settings))
    except SqlStreamError:
        if isinstance(statement, nodes.StatementSet) or not only_as_batch(statement, workspace):
            raise
        return _batch(statement, workspace, plain, names)
    assert isinstance(plan, Root)
    streams = isinstance(statement, nodes.StatementSet) or batch_instead(plan, statement, workspace) is None
    wrong = calls_not_executed(plan, workspace) if streams else ()
    if wrong:
        raise SqlStreamError.of(wrong)
    ends = plan.bounded
    state = tuple(_state(plan))
    return replace(
        plain,
        problems=() if ends or not streams else tuple(_for_ever(state, plain.span)),
        columns=_columns(plan, bound),
        keys=_keys(plan),
        changelog=changelog_text(plan.changelog_mode),
        bounded=ends,
        runs_as="stream" if streams else "batch",
        tables=tuple(_tables(plan, statement, workspace)),
        state=state if streams else (),
        fingerprint=fingerprint(plan, names),
        plan=plan,
    )


def _batch(
    statement: nodes.Query | nodes.Insert, workspace: Workspace, plain: StatementAnalysis, names: tuple[str, ...]
) -> StatementAnalysis:
    """Of a query that only Spark SQL runs the columns, where they are those without its order."""
    read = resolve(statement.query, workspace.catalog, lambda table: table.name)
    told = fingerprint_of_text(to_sql(as_expression(read.query)), (one.table for one in read.inputs), names)
    columns: tuple[OutputColumn, ...] = ()
    tables: tuple[TableUse, ...] = ()
    with suppress(SqlStreamError):
        unordered = replace(statement, query=without_order(statement.query))
        bound = bind_statement(unordered, workspace.catalog, binder_settings(workspace.settings))
        plan = optimize(bound, rules_of(workspace.settings))
        assert isinstance(plan, Root) and isinstance(bound, Root)
        columns, tables = _columns(plan, bound), tuple(_tables(plan, statement, workspace))
    return replace(
        plain, columns=columns, tables=tables, bounded=True, runs_as="batch", changelog="I", fingerprint=told
    )


def without_order(query: exp.Expression) -> exp.Expression:
    """Returns a copy of the query without ORDER BY, LIMIT and OFFSET."""
    copy = query.copy()
    for key in ("order", "limit", "offset", "sort", "distribute", "cluster"):
        copy.set(key, None)
    return copy


def _columns(plan: Root, bound: Root) -> tuple[OutputColumn, ...]:
    """Those of an optimized plan. The bound one tells of times that no window of this query needs, but others may."""
    if isinstance(plan, StatementSet) or isinstance(bound, StatementSet):
        return ()
    fields = bound.input.schema
    return tuple(
        OutputColumn(line.column, str(f.type), f.nullable, _time(f), line.expression, line.sources)
        for f, line in zip(fields, lineage(plan), strict=True)
    )


def _time(field: Field | Column) -> str | None:
    return None if field.time is None else field.time.value


def _keys(plan: Root) -> tuple[tuple[str, ...], ...]:
    if isinstance(plan, StatementSet):
        return ()
    titles = plan.names if isinstance(plan, Output) else tuple(c.name for c in plan.table.physical_columns)
    shown = {f.name: title for f, title in zip(plan.input.schema, titles, strict=True)}
    keys = (sorted(shown[name] for name in key) for key in plan.input.unique_keys if key <= shown.keys())
    return tuple(sorted({tuple(key) for key in keys}, key=lambda key: (len(key), key)))


def _state(plan: Node) -> Iterator[StateNeed]:
    seen = {id(node): node for node in plan.walk()}
    for node in seen.values():
        for one in node.state_descriptions():
            yield StateNeed(node.state_title[1], one.what, one.until)


def _for_ever(state: Iterable[StateNeed], span: Span) -> Iterator[Problem]:
    for need in dict.fromkeys(state):
        if need.until is None:
            message = f"state without a bound: {need.operator} keeps {need.what} for ever"
            yield Problem(KEPT_FOR_EVER, message, span, hint=UNBOUNDED_STATE_HINT, warning=True)


# --- definitions ----------------------------------------------------------------------------------------------


def _defined(statement: nodes.Statement, scratch: Workspace, plain: StatementAnalysis) -> StatementAnalysis:
    if not isinstance(statement, nodes.CreateTable | nodes.CreateView):
        return plain
    relation = scratch.catalog.relation(str(statement.name))
    match relation:
        case Table():
            keys = (relation.primary_key,) if relation.primary_key else ()
            columns = tuple(OutputColumn(c.name, str(c.type), c.nullable, _time(c)) for c in relation.columns)
            changelog = changelog_text(relation.changelog)
            return replace(plain, columns=columns, keys=keys, changelog=changelog, bounded=relation.bounded)
        case View():
            with suppress(SqlStreamError):
                plan = bind_query(relation.query, scratch.catalog.within(relation.namespace))
                titled = zip(relation.columns or plan.names, _columns(plan, plan), strict=True)
                columns = tuple(replace(column, name=name) for name, column in titled)
                changelog = changelog_text(plan.changelog_mode)
                return replace(plain, columns=columns, changelog=changelog, bounded=plan.bounded)
    return plain


# --- what a statement names -----------------------------------------------------------------------------------


def _named_tables(statement: nodes.Statement, workspace: Workspace) -> tuple[TableUse, ...]:
    """Of statements without a plan: what they name and what they define."""
    spans = _spans_of_tables(statement, workspace)
    uses = [TableUse(name, role, (), tuple(at)) for (name, role), at in spans.items()]
    name = getattr(statement, "name", None)
    if isinstance(statement, nodes.CreateTable | nodes.CreateView) and isinstance(name, nodes.Name):
        uses.append(TableUse(str(name), Role.DEFINED, (), (name.span,)))
    return tuple(uses)


def _tables(plan: Root, statement: _Planned, workspace: Workspace) -> Iterator[TableUse]:
    spans = _spans_of_tables(statement, workspace)
    needed = {table.name: columns for table, columns in read_columns(plan)}
    looked_up = {table.name for table in looked_up_tables(plan)}
    read = {table.name for table in scanned_tables(plan)}
    for name, columns in needed.items():
        for role, names in ((Role.READ, read), (Role.LOOKED_UP, looked_up)):
            if name in names:
                yield TableUse(name, role, columns, tuple(spans.get((name, Role.READ), ())))
    yield from (TableUse(name, role, (), tuple(at)) for (name, role), at in spans.items() if role is Role.VIEW)
    for written, at in _written(plan, statement):
        yield TableUse(written.name, Role.WRITTEN, tuple(c.name for c in written.physical_columns), at)
    for table in side_tables(plan):
        yield TableUse(table.name, Role.SIDE_OUTPUT, tuple(c.name for c in table.physical_columns))


def _written(plan: Root, statement: _Planned) -> Iterator[tuple[Table, tuple[Span, ...]]]:
    match plan, statement:
        case Insert(), nodes.Insert():
            yield plan.table, (statement.target.span,)
        case StatementSet(), nodes.StatementSet():
            for table in plan.tables:
                names = (insert.target for insert in statement.inserts)
                yield table, tuple(n.span for n in names if n.parts[-1].casefold() == table.name.casefold())


def _spans_of_tables(statement: nodes.Statement, workspace: Workspace) -> dict[tuple[str, Role], list[Span]]:
    """The places of tables and views that the statement names itself, by name."""
    places: dict[tuple[str, Role], list[Span]] = {}
    expressions = [*walk(statement)]
    ctes = {node.alias.casefold() for node in expressions if isinstance(node, exp.CTE)}
    for table in expressions:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            continue
        name, span = ".".join(part.name for part in table.parts), span_of(table.this)
        relation = None if name.casefold() in ctes else _relation(name, workspace)
        if relation is not None and span is not None:
            role = Role.VIEW if isinstance(relation, View) else Role.READ
            places.setdefault((relation.name, role), []).append(span)
    return places


def _relation(name: str, workspace: Workspace) -> Table | View | None:
    with suppress(SqlStreamError):
        return workspace.catalog.relation(name)
    return None


def _functions(statement: nodes.Statement, workspace: Workspace) -> tuple[FunctionUse, ...]:
    uses: dict[str, tuple[str, bool, list[Span]]] = {}
    for call in walk(statement):
        name = spark_name(call) if isinstance(call, exp.Func) else None
        if name is None:
            continue
        own = workspace.catalog.function(name) if isinstance(call, exp.Anonymous) else None
        kind = kind_of(name)
        if own is None and kind is None:
            continue
        shown = own.kind.value if own is not None else kind.value if kind is not None else ""
        span = name_span_of(call) or span_of(call)
        uses.setdefault(name, (shown, own is not None, []))[2].extend([span] if span is not None else [])
    return tuple(FunctionUse(name, kind, own, tuple(spans)) for name, (kind, own, spans) in uses.items())


# --- parameters -----------------------------------------------------------------------------------------------


def _placed(statement: StatementAnalysis, filled_text: FilledText) -> StatementAnalysis:
    """The statement with its spans in the text with parameters. Fixes at places of parameters are left out."""

    def back(span: Span) -> Span:
        return filled_text.back(span)

    def problem(one: Problem) -> Problem:
        fixes = tuple(
            replace(fix, edits=tuple(replace(edit, span=back(edit.span)) for edit in fix.edits)) for fix in one.fixes
        )
        return replace(one, span=one.span and back(one.span), fixes=fixes)

    return replace(
        statement,
        span=back(statement.span),
        problems=tuple(map(problem, statement.problems)),
        tables=tuple(replace(use, spans=tuple(map(back, use.spans))) for use in statement.tables),
        functions=tuple(replace(use, spans=tuple(map(back, use.spans))) for use in statement.functions),
    )
