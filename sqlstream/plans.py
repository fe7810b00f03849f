"""Plans of statements: bound, optimized, and checked against what the connectors of their tables support."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from sqlglot import exp

from sqlstream.connectors import (
    LookupTable,
    Sink,
    Source,
    UpsertSink,
    answers_lookups,
    connector,
    discards_rows,
    installed,
    is_scanned,
    row_kinds_taken,
)
from sqlstream.connectors.connector import INSERTS_ONLY, NOT_A_LOOKUP, NOT_A_SINK, NOT_A_SOURCE, SharedName
from sqlstream.connectors.secrets import without_secrets
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.folders import Folders, JobName, insert_name, set_name
from sqlstream.grammar import nodes, span_of
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.latency import is_low, is_real_time
from sqlstream.partial_inserts import with_columns_left
from sqlstream.planner import unsupported
from sqlstream.planner.aggregate_calls import not_executed
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.binder import BinderSettings, bind_statement
from sqlstream.planner.binder.no_rows import lacks_result
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.planner.changes import is_upsert, producer_of, rejected_kinds, with_final_rows
from sqlstream.planner.explain import to_json
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, Project, Scan, StatementSet, dead_letter_tables
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.physical import Engine, EngineSettings, engine_of
from sqlstream.planner.physical.steps import Reuse
from sqlstream.planner.properties import changelog_text
from sqlstream.planner.rules import Stage, optimize, stages
from sqlstream.planner.type_inference import Types
from sqlstream.settings import (
    COLUMN_EXPANSION,
    MULTI_JOIN,
    NEEDS_SETTING,
    PARTIAL_INSERT,
    REUSE,
    REUSE_SOURCE,
    UPSERT_MATERIALIZE,
    Settings,
)
from sqlstream.udfs.lookup.options import LookupOptions, Order
from sqlstream.udfs.lookup.source import Comparison
from sqlstream.workspace import Workspace

# --- which tables a plan reads, asks and writes beside its result, and where a statement names them --------------


def looked_up_tables(plan: Node) -> tuple[Table, ...]:
    """Returns the tables that the plan reads by lookups, each once."""
    asked = (node.table_read for node in plan.walk() if not isinstance(node, Scan))
    return tuple({question[0].name: question[0] for question in asked if question is not None}.values())


def side_tables(plan: Node) -> tuple[Table, ...]:
    """Returns the tables that receive side outputs (late rows of windows, failed rows of lookups, dead letters), each
    once.
    """
    tables = [table for node in plan.walk() if (table := node.side_table) is not None]
    tables += dead_letter_tables(plan)
    return tuple({table.name: table for table in tables}.values())


def scanned_tables(plan: Node) -> tuple[Table, ...]:
    """Returns the tables that the plan scans, each once. Tables of lookups are not among them."""
    return tuple({n.table.name: n.table for n in plan.walk() if isinstance(n, Scan)}.values())


def read_columns(plan: Node) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """Yields pairs: each table that the plan scans or looks up, and the names of the columns that it reads of it."""
    needs: dict[str, tuple[Table, dict[str, None]]] = {}
    for read in (node.table_read for node in plan.walk()):
        if read is not None:
            table, names = read
            needs.setdefault(table.name, (table, {}))[1].update(dict.fromkeys(names))
    for table, needed in needs.values():
        yield table, tuple(needed)


def place_in(statement: nodes.Query | nodes.Insert, table: Table) -> Span | None:
    """Returns the span at which the statement first names the table. None where only a view names it."""
    named = (t for t in statement.query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    mentions = (t for t in named if ".".join(p.name for p in t.parts).casefold() == table.name.casefold())
    return next((span_of(t.this) for t in mentions), None)


# --- statement sets -------------------------------------------------------------------------------------------


READS_ITS_OWN = "SS276"
ONE_PLACE = "SS277"
RESULT_AND_SIDE = "SS278"


def misused_in_set(plan: StatementSet, statement: nodes.StatementSet) -> tuple[Diagnostic, ...]:
    """Returns diagnostics for tables that inserts of one statement set cannot share.

    SS276: a bounded source that another insert writes. SS277: two tables that store their rows at the same place.
    SS278: a table that receives both results and side outputs.
    """
    return (*_read_too_early(plan, statement), *_both(plan, statement), *_one_place(plan, statement))


def _read_too_early(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    """A bounded source is what is there at the start, so rows of this very run would silently be missing."""
    written = {table.name for table in _written(plan)}
    for insert, text in zip(plan.inserts, statement.inserts, strict=True):
        for table in scanned_tables(insert):
            if table.bounded and table.name in written:
                message = f'table "{table.name}" is read to its end while the same statement set writes it'
                hint = (
                    "Put what is written into a view, and let both INSERT statements read the view; a table that is "
                    "watched for new rows, as with 'source.monitor-interval', gives them in the next epoch."
                )
                yield Diagnostic(READS_ITS_OWN, message, place_in(text, table), hint=hint)


def _both(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    """The rows of an epoch replace those that were written before, so each table is written once in it."""
    results = {table.name for table in plan.tables}
    for table in side_tables(plan):
        if table.name in results:
            message = f'table "{table.name}" cannot get the results and the late or failed rows of one statement set'
            hint = "Create a table of its own for late rows, and for failed ones."
            yield Diagnostic(RESULT_AND_SIDE, message, _target(table, statement), hint=hint)


def _one_place(plan: StatementSet, statement: nodes.StatementSet) -> Iterable[Diagnostic]:
    table_at: dict[object, Table] = {}
    for table in _written(plan):
        sink = connector(table.connector)
        location = sink.location(table) if isinstance(sink, Sink) else None
        if location is None:
            continue
        place = location if isinstance(location, SharedName) else (table.connector, location)
        other = table_at.setdefault(place, table)
        if other.name != table.name and isinstance(location, SharedName):
            message = f'tables "{other.name}" and "{table.name}" of one statement set have the same {location.what}'
            yield Diagnostic(ONE_PLACE, message, _target(table, statement), hint=location.hint)
        elif other.name != table.name:
            message = f'tables "{other.name}" and "{table.name}" of one statement set write to the same place'
            hint = f'Give them places of their own, or write INSERT INTO "{other.name}" in both statements.'
            yield Diagnostic(ONE_PLACE, message, _target(table, statement), hint=hint)


def _written(plan: StatementSet) -> tuple[Table, ...]:
    return tuple({table.name: table for table in (*plan.tables, *side_tables(plan))}.values())


def _target(table: Table, statement: nodes.StatementSet) -> Span | None:
    """Where the set names the table first as a target; None where only a clause of a query does."""
    targets = (insert.target for insert in statement.inserts)
    return next((name.span for name in targets if str(name).casefold() == table.name.casefold()), None)


SAME_TABLE = "SS511"
NO_BAD_ROWS = "SS243"

_NO_BAD_ROWS = "Leave it out; LOOKUP ASYNC (ON ERROR …) says what happens to rows whose lookup fails."

Planned = nodes.Query | nodes.Insert | nodes.StatementSet
"""Statements that have a plan."""
Root = Output | Insert | StatementSet


def _checks(table: Table, comparison: Comparison) -> bool:
    """Whether the table's connector checks the comparison in the source."""
    kind = connector(table.connector)
    return isinstance(kind, LookupTable) and kind.filters(table, comparison)


_CHOICES = (REUSE, MULTI_JOIN)
"""The settings that choose among plans with the same rows, of which a job keeps that of its checkpoint."""
_RULES = {
    (reuse, together, multi_join): stages(_checks, reuse=reuse, together=together, multi_join=multi_join)
    for reuse, together, multi_join in product((True, False), repeat=3)
}


RULES = _RULES[True, True, True]
"""The rules of the planner, with what connectors do themselves."""


def rules_of(settings: Settings, *, apart: bool = False) -> tuple[Stage, ...]:
    """The ``RULES`` that the settings allow. ``apart``: no operator runs for several inputs of a node, as on
    Spark's own operators.
    """
    reuse, multi_join = (bool(settings[name]) for name in _CHOICES)
    of_spark = settings["sqlstream.engine"] == Engine.NATIVE.value or is_real_time(settings)
    return _RULES[reuse, reuse and not (apart or of_spark), multi_join]


@on_deep_stack
def plan_of(statement: Planned, workspace: Workspace, *, apart: bool = False) -> Root:
    """Returns the optimized plan of a statement. ``apart``: see ``rules_of``. Raises SqlStreamError with all errors in
    the statement.
    """
    plan = optimize(bound_plan(statement, workspace), rules_of(workspace.settings, apart=apart))
    assert isinstance(plan, Root)
    return plan


def calls_not_executed(plan: Root, workspace: Workspace) -> tuple[Diagnostic, ...]:
    """SS395 for each aggregate call that no kernel computes, where kernels run the plan as a stream."""
    if engine_of(plan, engine_settings_of(workspace.settings).engine) is not Engine.COLUMNAR:
        return ()
    function = workspace.catalog.function
    calls = [(item, node) for node in plan.walk() for item in node.aggregate_items]
    errors = [not_executed(item, Types(node.inputs[0].schema, function)) for item, node in calls]
    return tuple(dict.fromkeys(error.diagnostic for error in errors if error is not None))


@on_deep_stack
def bound_plan(statement: Planned, workspace: Workspace) -> Root:
    """Binds a statement and checks that its connectors support the plan. Returns the plan before optimization. Raises
    SqlStreamError with all errors.
    """
    collide = workspace.settings[UPSERT_MATERIALIZE] != "error"
    plan = unchecked_plan(statement, workspace)
    if isinstance(plan, StatementSet):
        assert isinstance(statement, nodes.StatementSet)
        pairs = zip(plan.inserts, statement.inserts, strict=True)
        misused = (d for insert, written in pairs for d in _misused_connectors(insert, written, collide))
        wrong = tuple(dict.fromkeys(misused))
        wrong = wrong or misused_in_set(plan, statement)
    else:
        assert not isinstance(statement, nodes.StatementSet)
        wrong = tuple(_misused_connectors(plan, statement, collide))
    if wrong:
        raise SqlStreamError.of(wrong)
    return unchecked_plan(statement, workspace, finished=True) if _lacks_results(plan, workspace) else plan


def _lacks_results(plan: Root, workspace: Workspace) -> bool:
    """Whether a stream over finished data may have no result where a batch has one. An INSERT in mode ``auto`` is a
    job, which may go on when more rows have come: it has none before, as in Flink."""
    mode = workspace.settings["execution.runtime-mode"]
    if mode == "streaming" or not (isinstance(plan, Output) or mode == "batch"):
        return False
    nodes_of_plan = [*plan.walk()]
    return any(map(lacks_result, nodes_of_plan)) and all(ends(n.table) for n in nodes_of_plan if isinstance(n, Scan))


def ends(table: Table) -> bool:
    """True where all rows of a table exist already: its source is bounded, or it is a table in a database."""
    return is_read(table) and (table.bounded or is_scanned(table))


def is_read(table: Table) -> bool:
    """True if queries can read all rows of a table: as a stream, or at once from a database."""
    return is_source(table) or is_scanned(table)


def is_source(table: Table) -> bool:
    """True if the table's connector is a source of streams."""
    return isinstance(connector(table.connector), Source)


@on_deep_stack
def unchecked_plan(
    statement: Planned, workspace: Workspace, *, any_order: bool = False, finished: bool = False
) -> Root:
    """Binds a statement and returns its plan, without checking what its connectors support. ``any_order``: ORDER BY
    and LIMIT are dropped. ``finished``: an aggregate without GROUP BY has a result also without rows.
    """
    settings = replace(emit_settings(workspace.settings), any_order=any_order, finished=finished)
    plan = _with_sinks(bind_statement(statement, workspace.catalog, settings))
    plan = _with_columns_left(plan, statement, workspace.settings[PARTIAL_INSERT])
    keeps = workspace.settings[UPSERT_MATERIALIZE] in ("auto", "force")
    return _with_rows_left(plan, statement, settings.state_ttl_ms, keeps=keeps)


def _with_columns_left(plan: Root, statement: Planned, setting: str) -> Root:
    if isinstance(plan, StatementSet):
        assert isinstance(statement, nodes.StatementSet)
        pairs = zip(plan.inserts, statement.inserts, strict=True)
        return replace(plan, inserts=tuple(with_columns_left(insert, written, setting) for insert, written in pairs))
    if isinstance(plan, Insert) and isinstance(statement, nodes.Insert):
        return with_columns_left(plan, statement, setting)
    return plan


def plan_without_rows_left(statement: Planned, workspace: Workspace, *, apart: bool) -> Root:
    """Returns the statement's plan with the setting ``upsert-materialize`` = none, the default of earlier builds,
    whose checkpoints need it. ``apart``: see ``rules_of``.
    """
    settings = workspace.settings.copy()
    settings.set(UPSERT_MATERIALIZE, "none")
    return plan_of(statement, replace(workspace, settings=settings), apart=apart)


def job_name_of(plan: Root, settings: Settings, folders: Folders) -> JobName:
    """The name of a plan's job: that of the setting 'pipeline.name', else a default one. It is the same each time for
    a plan and a directory of checkpoints, and a new one for a query and for a job that leaves no checkpoint.
    """
    given, parent = settings["pipeline.name"], settings["execution.checkpointing.dir"]
    wanted = _default_job_name(plan) if given is None else JobName(given, given)
    if isinstance(plan, Output) or (parent is None and plan.bounded):
        return folders.job_name(wanted)
    return folders.job_name(wanted, f"{parent} {json.dumps(to_json(without_secrets(plan)))}")


def _default_job_name(plan: Root) -> JobName:
    match plan:
        case Insert():
            return insert_name(plan.table.name)
        case StatementSet():
            return set_name(table.name for table in plan.tables)
    return JobName("query", "query")


@dataclass(frozen=True)
class FormerPlan:
    """A plan of the same statement under other settings, which a checkpoint may be of. ``make`` returns it.
    ``loses_rows``: it does not keep rows that collide on a PRIMARY KEY.
    """

    make: Callable[[], Root]
    loses_rows: bool = False


def former_plans(statement: Planned, plan: Root, workspace: Workspace) -> tuple[FormerPlan, ...]:
    """The plans, beside ``plan``, with which a job of the statement may have begun: it keeps that of its checkpoint
    whether equal parts are computed once and joins are merged now or not, also from before queries and the inserts of a
    statement set had operators in common, and what was the default of ``upsert-materialize`` then.
    """
    others = [_with_toggled(workspace, names) for names in ((MULTI_JOIN,), (REUSE,), _CHOICES)]
    ways = [(other, apart) for apart in (False, True) for other in (workspace, *others)]
    chosen = tuple(FormerPlan(partial(plan_of, statement, w, apart=apart)) for w, apart in ways[1:])
    if UPSERT_MATERIALIZE in workspace.settings.given or not keeps_rows_left(plan):
        return chosen
    by_default = (FormerPlan(partial(plan_without_rows_left, statement, w, apart=apart), True) for w, apart in ways)
    return (*chosen, *by_default)


def _with_toggled(workspace: Workspace, names: Iterable[str]) -> Workspace:
    settings = workspace.settings.copy()
    for name in names:
        settings.set(name, "false" if settings[name] else "true")
    return replace(workspace, settings=settings)


def keeps_rows_left(plan: Root) -> bool:
    """True where a sink is preceded by an operator that stores all rows of each PRIMARY KEY, like Flink's
    SinkUpsertMaterializer.
    """
    inserts = plan.inserts if isinstance(plan, StatementSet) else (plan,)
    below = (_below_projections(insert) for insert in inserts if isinstance(insert, Insert))
    return any(isinstance(node, TopN) and node.newest_first and not node.order for node in below)


def _below_projections(plan: Insert) -> Node:
    below = plan.input
    while isinstance(below, Project):
        below = below.input
    return below


def _with_sinks(plan: Node) -> Root:
    """The plan, in which each table that is written takes the kinds of rows that its connector does."""
    match plan:
        case Insert(table=table):
            return with_final_rows(replace(plan, takes=row_kinds_taken(table)))
        case StatementSet(inserts=inserts):
            return replace(plan, inserts=tuple(insert for i in inserts if isinstance(insert := _with_sinks(i), Insert)))
    assert isinstance(plan, Output)
    return plan


def _with_rows_left(plan: Root, statement: Planned, ttl_ms: int, *, keeps: bool) -> Root:
    """The plan, in which, where this is asked for, an operator knows all rows of each PRIMARY KEY on which they may
    collide: where the last one goes, the one before it is there again. As Flink's SinkUpsertMaterializer."""
    if isinstance(plan, StatementSet):
        assert isinstance(statement, nodes.StatementSet)
        pairs = zip(plan.inserts, statement.inserts, strict=True)
        inserts = (_with_rows_left(insert, written, ttl_ms, keeps=keeps) for insert, written in pairs)
        return replace(plan, inserts=tuple(insert for insert in inserts if isinstance(insert, Insert)))
    wanted = keeps or (isinstance(statement, nodes.Insert) and statement.conflict == "DEDUPLICATE")
    if not wanted or not isinstance(plan, Insert) or not may_collide(plan):
        return plan
    columns = (column.name for column in plan.table.physical_columns)
    fields = {column: field.name for column, field in zip(columns, plan.input.schema, strict=True)}
    keys = tuple(fields[name] for name in plan.table.primary_key)
    return replace(plan, input=TopN(plan.input, keys, (), ROW_NUMBER, 1, 1, newest_first=True, ttl_ms=ttl_ms))


def emit_settings(settings: Settings) -> BinderSettings:
    """Converts the session's settings into those of the binder: defaults for window firing, lookups and so on. Raises
    SS522 where a delay is missing.
    """
    zone = None if settings["table.local-time-zone"] == "UTC" else settings["table.local-time-zone"]
    allow_ms = settings["table.exec.emit.allow-lateness"]
    early, late = _fire_delay(settings, "early"), _fire_delay(settings, "late")
    most_held = settings["sqlstream.barriers.max-buffered-rows"]
    functions = settings["sqlstream.functions.on-error"]
    ttl_ms, repeated = settings["table.exec.state.ttl"], settings["table.exec.source.cdc-events-duplicate"]
    dynamic = settings["table.dynamic-table-options.enabled"]
    lookup = _lookup_defaults(settings)
    given = BinderSettings(early, late, allow_ms, zone, lookup, most_held, functions, ttl_ms, repeated, dynamic)
    lengths, nulls = settings["table.exec.sink.type-length-enforcer"], settings["table.exec.sink.not-null-enforcer"]
    return replace(given, lengths=lengths, drops_nulls=nulls == "DROP", not_in_star=settings[COLUMN_EXPANSION])


def _lookup_defaults(settings: Settings) -> LookupOptions:
    """How lookups ask whose query does not say it."""
    unordered = settings["table.exec.async-lookup.output-mode"] == "ALLOW_UNORDERED"
    loose = Order.KEY_ORDERED if settings["table.exec.async-lookup.key-ordered-enabled"] else Order.UNORDERED
    return LookupOptions(
        order=loose if unordered else Order.ORDERED,
        capacity=settings["table.exec.async-lookup.buffer-capacity"],
        timeout_ms=max(1, settings["table.exec.async-lookup.timeout"]),
    )


def _fire_delay(settings: Settings, kind: str) -> int | None:
    """As in Flink: a delay without ``enabled`` changes nothing, ``enabled`` needs a delay."""
    enabled, delay = (f"table.exec.emit.{kind}-fire.{key}" for key in ("enabled", "delay"))
    if not settings[enabled]:
        return None
    delay_ms: int | None = settings[delay]
    if delay_ms is None:
        message = f'setting "{enabled}" needs the setting "{delay}"'
        raise ConnectorError(NEEDS_SETTING, message, hint=f"SET '{delay}' = '1 min'; 0 fires at each row.")
    return delay_ms


def _misused_connectors(plan: Node, statement: nodes.Query | nodes.Insert, collide: bool) -> Iterable[Diagnostic]:
    for table in scanned_tables(plan):
        source = connector(table.connector)
        if not isinstance(source, Source):
            yield not_read(table, place_in(statement, table))
        elif table.changelog != APPEND_ONLY and not source.has_kinds(table):
            yield _without_kinds(table, place_in(statement, table))
    for table in looked_up_tables(plan):
        if not answers_lookups(table):
            message = f'table "{table.name}" cannot be looked up: connector "{table.connector}" answers no lookups'
            yield Diagnostic(NOT_A_LOOKUP, message, place_in(statement, table), hint=_lookup_hint(table))
        if table.option(ON_ERROR) is not None:
            message = f'option "{ON_ERROR}" of table "{table.name}" has no effect in a lookup'
            yield Diagnostic(NO_BAD_ROWS, message, place_in(statement, table), hint=_NO_BAD_ROWS)
    yield from _misused_beside(plan)
    if isinstance(plan, Insert) and isinstance(statement, nodes.Insert):
        table, span = plan.table, statement.target.span
        if not isinstance(connector(table.connector), Sink):
            message = f'table "{table.name}" cannot be written: connector "{table.connector}" is a source only'
            yield Diagnostic(NOT_A_SINK, message, span, hint="SHOW CONNECTORS tells which ones are sinks.")
        else:
            yield from refused_changes(plan, span, collide=collide)


def _misused_beside(plan: Node) -> Iterable[Diagnostic]:
    """The tables that get rows beside the result."""
    for table in side_tables(plan):
        if table.materialized:
            message = f'"{table.name}" is a materialized view, which its own job alone writes'
            yield Diagnostic(NOT_A_SINK, message, hint="Create a table of its own for late rows, and for failed ones.")
        if not isinstance(connector(table.connector), Sink):
            message = f'table "{table.name}" cannot be written: connector "{table.connector}" is a source only'
            yield Diagnostic(NOT_A_SINK, message, hint="SHOW CONNECTORS tells which ones are sinks.")
        if isinstance(plan, Insert) and table.name == plan.table.name:
            message = f'table "{table.name}" cannot get the results and the late or failed rows of one query'
            yield Diagnostic(SAME_TABLE, message, hint="Create a table of its own for late rows, and for failed ones.")


def not_read(table: Table, span: Span | None) -> Diagnostic:
    """Returns the diagnostic SS506 for a table that queries cannot scan, because its connector is only a sink or only
    answers lookups.
    """
    if isinstance(connector(table.connector), LookupTable):
        message = f'table "{table.name}" cannot be read: connector "{table.connector}" answers lookups only'
        hint = f"Look it up: FROM o JOIN {table.name} FOR SYSTEM_TIME AS OF o.pt ON …, where pt AS PROCTIME() is in o."
        return Diagnostic(NOT_A_SOURCE, message, span, hint=hint)
    message = f'table "{table.name}" cannot be read: connector "{table.connector}" is a sink only'
    return Diagnostic(NOT_A_SOURCE, message, span, hint="SHOW CONNECTORS tells which ones are sources.")


def _without_kinds(table: Table, span: Span | None) -> Diagnostic:
    """Records of the connector are rows: nothing in them says that one replaces or deletes another."""
    kinds = changelog_text(table.changelog)
    detail = f'Table "{table.name}" declares the kinds {kinds}, and records of connector "{table.connector}" have none.'
    hint = "Read an append-only table ('changelog-mode' = 'I'), and keep the last row of each key by a window."
    return replace(unsupported.diagnostic("changelog input", span, detail), hint=hint)


def _lookup_hint(table: Table) -> str:
    if isinstance(connector(table.connector), LookupTable):
        return "Add 'role' = 'lookup' to WITH of its CREATE TABLE."
    names = ", ".join(kind.name for kind in installed() if isinstance(kind, LookupTable))
    return f"Connectors that answer lookups: {names}."


def _not_ready(table: Table) -> Iterable[Diagnostic]:
    """What prevents a source on this machine from being read; nothing for tables that are no source."""
    kind = connector(table.connector)
    return kind.ready(table, {}) if isinstance(kind, Source) else ()


def _lacks(table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
    kind = connector(table.connector)
    return kind.inspect(table, columns) if isinstance(kind, Source) else ()


def require_sources(plan: Node) -> None:
    """Raises ConnectorError if a file or folder that the plan reads does not exist on this machine, or lacks columns
    that the plan reads.
    """
    wrong = missing_sources(plan)
    if wrong:
        raise SqlStreamError.of(wrong)


def missing_sources(plan: Node) -> list[Diagnostic]:
    """What ``require_sources`` raises; empty where all is there."""
    wrong = [d for table in scanned_tables(plan) for d in _not_ready(table)]
    return wrong or [d for table, names in read_columns(plan) for d in _lacks(table, names)]


def reuse_of(settings: Settings) -> Reuse:
    """What a new checkpoint runs once that its plan has several times."""
    return Reuse(settings[REUSE_SOURCE], settings[REUSE])


def engine_settings_of(settings: Settings) -> EngineSettings:
    """Converts the session's settings into those of the physical planner."""
    return EngineSettings(
        settings["sqlstream.engine"],
        settings["pipeline.operator-chaining.enabled"],
        reuse_of(settings),
        at_once=is_low(settings),
    )


NO_KEY = "SS286"


COLLIDING = "SS667"


def refused_changes(plan: Insert, span: Span | None, *, collide: bool = True) -> Iterable[Diagnostic]:
    """Yields diagnostics for an INSERT whose query produces changes that the table does not accept.

    SS510: row kinds that the sink does not accept. SS286: updates without a PRIMARY KEY. SS667: updates of different
    rows of the query may write to the same PRIMARY KEY.
    ``collide``: True if that is allowed, so that SS667 is left out.
    """
    table = plan.table
    for _, kinds in rejected_kinds(plan):
        maker = producer_of(plan.input, kinds)
        takes = "inserted rows only" if plan.takes == APPEND_ONLY else f"rows of the kinds {changelog_text(plan.takes)}"
        message = f'table "{table.name}" takes {takes}, and the query updates its results'
        detail = f"Rows of the kinds {changelog_text(kinds)} come from {maker.producer_name}."
        yield Diagnostic(INSERTS_ONLY, message, span, detail=detail, hint=_hint(plan, maker.append_only_hint))
        return
    if plan.changelog_mode != APPEND_ONLY and is_upsert(table) and not table.primary_key:
        message = f'table "{table.name}" takes updates without -U, and has no PRIMARY KEY that says of which rows'
        yield Diagnostic(NO_KEY, message, span, hint="Declare PRIMARY KEY (…) NOT ENFORCED: a key of the query.")

    if not collide and may_collide(plan):
        key = ", ".join(table.primary_key)
        message = f'rows that the query updates may collide on the PRIMARY KEY ({key}) of table "{table.name}"'
        detail = (
            "One of them may delete what another one has written: rows that were there before are not kept for that."
        )
        hint = f"Declare a PRIMARY KEY by which the query updates its rows, or SET '{UPSERT_MATERIALIZE}' = 'auto'."
        yield Diagnostic(COLLIDING, message, span, detail=detail, hint=hint)


def may_collide(plan: Insert) -> bool:
    """True where the table replaces rows by PRIMARY KEY, but the query updates rows by a key that the PRIMARY KEY does
    not contain.

    Two rows of the query may then have the same PRIMARY KEY. Flink uses the same condition to store rows in front of
    the sink (``upsert-materialize`` = auto).
    """
    if discards_rows(plan.table):
        return False
    if plan.changelog_mode == APPEND_ONLY or not plan.table.primary_key or RowKind.UPDATE_BEFORE in plan.takes:
        return False
    columns = (column.name for column in plan.table.physical_columns)
    fields = {column: field.name for column, field in zip(columns, plan.input.schema, strict=True)}
    written = {fields[name] for name in plan.table.primary_key}
    return not any(key <= written for key in plan.input.upsert_keys)


def _hint(plan: Insert, instead: str | None) -> str:
    ways = ", or ".join(_ways(plan.table, instead))
    return f"{ways[0].upper()}{ways[1:]}."


def _ways(table: Table, instead: str | None) -> Iterator[str]:
    if instead is not None:
        yield instead
    if _would_replace(table):
        yield f'declare the PRIMARY KEY of "{table.name}", by which it replaces rows'
    else:
        upserting = [kind.name for kind in installed() if isinstance(kind, UpsertSink)]
        yield (
            "write to a table of the connector print, of memory with 'changelog-mode' = 'I,UB,UA,D', "
            f"or with a PRIMARY KEY of {', '.join(upserting)}"
        )


def _would_replace(table: Table) -> bool:
    """Whether the table would take changes if it had a PRIMARY KEY."""
    keyed = replace(table, primary_key=tuple(c.name for c in table.physical_columns[:1]))
    return RowKind.UPDATE_AFTER in row_kinds_taken(keyed) and table.changelog == APPEND_ONLY
