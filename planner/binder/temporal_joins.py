"""Joins with one row of the right side: FOR SYSTEM_TIME AS OF, ASOF JOIN, and LATERAL SNAPSHOT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar.nodes import Argument, Descriptor, TableArgument, TableFunction
from sqlstream.grammar.trees import table_function_of
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, bind_error, refuse_rest
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.hints import ttl_ms_of
from sqlstream.planner.binder.join_conditions import MIRRORED, Sides, comparisons_of, pair_conjunction
from sqlstream.planner.binder.joins import scope_of_both, with_distinct_fields, written_conditions
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.windows import time_field
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import as_expression, columns_of, conjunction, conjuncts
from sqlstream.planner.kernel_expressions import COMPARISONS, pair_condition
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan
from sqlstream.planner.operators.changelogs import Normalize
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.join import Equality, RegularJoin
from sqlstream.planner.operators.temporal_join import AsofJoin, TemporalJoin
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.udfs.joins import JoinKind

# --- FOR SYSTEM_TIME AS OF ------------------------------------------------------------------------------------

NO_VERSIONS = "SS655"
NO_VERSION_KEY = "SS656"
WRONG_KIND = "SS657"

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_VERSIONED = (
    "A versioned table has a PRIMARY KEY and a WATERMARK; so has a view of the last row of each key: SELECT … FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM t) WHERE rn = 1."
)
_KEYED = (
    "Declare PRIMARY KEY (…) NOT ENFORCED, or take the last row of each key in a view. For a lookup of a table outside "
    "its connector must answer lookups, with 'role' = 'lookup' in WITH where it has this option."
)


def temporal_join(join: exp.Join, left: Scope, right: Scope, time: str | None, context: Context) -> Scope:
    """Binds a join with FOR SYSTEM_TIME AS OF. Returns the scope with the columns of both sides.

    ``time`` is the left side's event or processing time that AS OF names; None means that left rows are joined with the
    right rows that are current when they arrive. BindError SS655 for a right side without versions, SS656 for a key
    that the condition does not name, SS657 for the kind of join, SS291 to SS293 for conditions that kernels cannot
    evaluate.
    """
    refuse_rest(join, ("this", "side", "kind", "on", "using"), context)
    kind = inner_or_left(join, "a temporal join")
    right = with_distinct_fields(right, left)
    conditions, columns = conditions_on(join, left, right, context)
    named = None if time is None else left.fields[time].time
    domain = named or TimeDomain.PROCESSING
    keys = right.node.upsert_keys
    if not keys:
        raise _unversioned(join, "has no PRIMARY KEY, so nothing tells which rows are versions of each other", domain)
    right_time = ""
    if domain is not TimeDomain.PROCESSING:
        right_time = _event_time(join, right, domain)
        versioned = rows_as_versions(right.node, right_time)
        if versioned is None:
            raise _unversioned(join, "has rows that are no versions: they do not say from when on they hold")
        right = right.over(versioned)
    split = _split_by_key(conditions, left.node, right, keys, join)
    ttl_ms = ttl_ms_of(right.tables, context)
    times = (time, right_time) if time is not None and right_time else ("", "")
    node = TemporalJoin(left.node, right.node, kind, split.equal, None, domain, *times, ttl_ms=ttl_ms)
    return temporal_scope(join, node, split.rest, columns, left.tables, context)


def temporal_scope(
    join: exp.Join,
    node: TemporalJoin,
    rest: Sequence[exp.Expression],
    columns: tuple[Visible, ...],
    left_tables: Sequence[str],
    context: Context,
) -> Scope:
    """Returns the scope of a temporal join. ``rest`` are the conditions besides the keys: of an inner join they become
    a filter above it, of a left join they become part of it.
    """
    if node.kind is JoinKind.LEFT:
        node = replace(node, condition=pair_conjunction([*rest], node.left, node.right))
    node = check_changes(node, context, join)
    if node.retracts:
        node = replace(node, left_ttl_ms=ttl_ms_of(left_tables, context))
    above = rest if node.kind is JoinKind.INNER else ()
    return Scope(Filter(node, conjunction([*above])) if above else node, columns)


def inner_or_left(join: exp.Join, what: str) -> JoinKind:
    """The kind of the join, INNER or LEFT. BindError SS657 for other kinds; ``what`` names the join in the message."""
    side, kind = ((join.args.get(key) or "").upper() for key in ("side", "kind"))
    if side not in ("", "LEFT") or kind not in {"", "INNER", "OUTER"} or (kind == "OUTER" and not side):
        words = " ".join(word for word in (side, kind) if word)
        hint = "Write JOIN or LEFT JOIN: each row of the left side comes out once at most."
        raise bind_error(WRONG_KIND, f"{what} is INNER or LEFT, not {words}", join, hint)
    return JoinKind.LEFT if side else JoinKind.INNER


def conditions_on(
    join: exp.Join, left: Scope, right: Scope, context: Context
) -> tuple[list[exp.Expression], tuple[Visible, ...]]:
    """Binds ON or USING of a temporal join. Returns a pair: the list of conditions, and the visible columns of both
    sides.
    """
    conditions, columns = written_conditions(join, left, right, scope_of_both(left, right), context)
    context.stop_if_wrong()
    return [conjunct for condition in conditions for conjunct in comparisons_of(condition)], columns


def _unversioned(join: exp.Join, why: str, domain: TimeDomain = TimeDomain.EVENT) -> BindError:
    hint = _KEYED if domain is TimeDomain.PROCESSING else _VERSIONED
    return bind_error(NO_VERSIONS, f'"{join.this.alias_or_name}" {why}', join.this, hint)


def _event_time(join: exp.Join, right: Scope, domain: TimeDomain) -> str:
    times = [field.name for field in right.node.schema if field.time is domain]
    if not times:
        raise _unversioned(join, f"has no {domain.value} from which on its rows hold")
    return times[0]


@dataclass(frozen=True)
class _KeyedConditions:
    equal: tuple[Equality, ...]
    rest: tuple[exp.Expression, ...]


def _split_by_key(
    conditions: Sequence[exp.Expression], left: Node, right: Scope, keys: Iterable[frozenset[str]], join: exp.Join
) -> _KeyedConditions:
    """The equalities on one of the ``keys`` of the right side, and all other conditions. SS656 without them."""
    sides = Sides(left, right.node)
    named: dict[str, tuple[Equality, exp.Expression]] = {}
    for condition in conditions:
        equality = sides.equality(condition)
        name = _key_field(equality.right, right.node) if equality is not None else None
        if equality is not None and name is not None:
            named.setdefault(name, (equality, condition))
    ordered = sorted(keys, key=lambda key: (len(key), sorted(key)))
    chosen = next((key for key in ordered if key <= named.keys()), None)
    if chosen is None:
        missing = ", ".join(f'"{c.name}"' for c in right.columns if c.field in ordered[0] - named.keys())
        hint = "Write an equality in ON for each column of the key, with values of its type."
        at = join.args.get("on") or join
        message = f"the condition has no equality for {missing}, the key of the right side"
        raise bind_error(NO_VERSION_KEY, message, at, hint)
    used = [named[name] for name in sorted(chosen)]
    rest = [condition for condition in conditions if not any(condition is own for _, own in used)]
    return _KeyedConditions(tuple(equality for equality, _ in used), tuple(rest))


def _key_field(value: exp.Expression, node: Node) -> str | None:
    """The field that a value is, also cast to a wider integer; other casts could map two values to one."""
    if isinstance(value, exp.Column):
        return value.name
    inner = value.this if isinstance(value, exp.Cast) else None
    types = {field.name: field.type.name for field in node.schema}
    return inner.name if isinstance(inner, exp.Column) and types[inner.name] in _INTEGERS else None


# --- versioned tables -----------------------------------------------------------------------------------------


def rows_as_versions(node: Node, time: str) -> Node | None:
    """Returns a plan for the right side of a temporal join, whose rows are versions: each is valid for its key from the
    time in its field ``time`` on, until the next one. None if the rows of ``node`` are not versions.

    If ``node`` keeps the last row of each key by ROW_NUMBER, the returned plan reads the rows before that
    deduplication, because each of them is a version, also late ones and several in one micro-batch. If it keeps the
    first row of each key, the returned plan emits that row once, when it is final.
    """
    match node:
        case Scan():
            return node
        case AssignTime() | Normalize():
            return _over_versions(node, rows_as_versions(node.input, time))
        case Filter() if _keeps_keys(node):
            return _over_versions(node, rows_as_versions(node.input, time))
        case Project():
            below = next(item.expression for item in node.items if item.name == time)
            return (
                _over_versions(node, rows_as_versions(node.input, below.name))
                if isinstance(below, exp.Column)
                else None
            )
        case Deduplicate(domain=TimeDomain.EVENT) if node.time == time and node.input.changelog_mode == APPEND_ONLY:
            return node.input if node.last else node.append_only_variant()
    return None


def _over_versions(node: Node, below: Node | None) -> Node | None:
    return None if below is None else node.with_inputs((below,))


def _keeps_keys(node: Filter) -> bool:
    """Whether all versions of a key pass or none do. Of append-only rows those that pass are the versions."""
    read = columns_of(node.condition)
    return node.input.changelog_mode == APPEND_ONLY or any(read <= key for key in node.input.upsert_keys)


# --- ASOF JOIN ------------------------------------------------------------------------------------------------

NO_COMPARISON = "SS670"
PROCESSING_TIME = "SS671"

_COMPARISON_HINT = (
    "Write one comparison of a value of each side with >=, >, <= or <, as in ON l.k = r.k AND l.x >= r.x, or say which "
    "one it is before ON: MATCH_CONDITION (l.x >= r.x)."
)


@dataclass(frozen=True)
class _Comparison:
    """The comparison of ASOF JOIN: ``condition`` has the left value first, ``written`` is as the user wrote it."""

    condition: exp.Expression
    written: exp.Expression

    @property
    def of_sides(self) -> tuple[exp.Expression, exp.Expression]:
        """The left and the right value."""
        return as_expression(self.condition.this), as_expression(self.condition.expression)


@dataclass(frozen=True)
class _AsofConditions:
    """The rest of ON: equalities, conditions on one side, and on both."""

    equal: tuple[Equality, ...]
    of_left: list[exp.Expression]
    of_right: list[exp.Expression]
    of_both: list[exp.Expression]


def asof_join(join: exp.Join, left: Scope, right: Scope, context: Context) -> Scope:
    """Binds ASOF JOIN, which joins each left row with the nearest row of the right side. Returns the scope with the
    columns of both sides.

    If the inputs are append-only and the join looks, in event time, for the newest right row that is not after the left
    row, it waits for the watermark and its results are final. Any other ASOF JOIN updates its results. BindError SS657
    for the kind of join, SS670 unless exactly one condition compares values of both sides, SS671 for processing times,
    SS291 to SS293 for conditions that kernels cannot evaluate.
    """
    refuse_rest(join, ("this", "side", "kind", "method", "on", "using", "match_condition"), context)
    kind = inner_or_left(join, "ASOF JOIN")
    right = with_distinct_fields(right, left)
    conditions, columns = conditions_on(join, left, right, context)
    sides = Sides(left.node, right.node)
    match = _the_comparison(join, _match_condition(join, left, right, context) or conditions, sides)
    _refuse_processing_time(match, left.node, right.node)
    if context.settings.any_order:  # Spark SQL evaluates any other condition
        return Scope(RegularJoin(left.node, right.node, kind, (), None), columns)
    rest = _asof_conditions([condition for condition in conditions if condition is not match.written], sides)
    below = Filter(right.node, conjunction(rest.of_right)) if rest.of_right else right.node
    in_time = _event_time_join(match, rest, kind, left.node, below, sides)
    if in_time is not None:
        return temporal_scope(join, in_time, rest.of_left, columns, left.tables, context)
    updating = _updating_join(match, rest, kind, left.node, below, _ttl_ms(left, right, context))
    node: Node = check_changes(updating, context, join)
    above = rest.of_left if kind is JoinKind.INNER else []
    return Scope(Filter(node, conjunction(above)) if above else node, columns)


def _match_condition(join: exp.Join, left: Scope, right: Scope, context: Context) -> list[exp.Expression]:
    written = join.args.get("match_condition")
    if written is None:
        return []
    bound = conjuncts(bind_condition(written, scope_of_both(left, right), context, ClauseContext("MATCH_CONDITION")))
    context.stop_if_wrong()
    if len(bound) > 1:
        raise _no_comparison("MATCH_CONDITION has more than one condition", written)
    return [part for condition in bound for part in comparisons_of(condition)]


def _the_comparison(join: exp.Join, conditions: Sequence[exp.Expression], sides: Sides) -> _Comparison:
    matches = [match for condition in conditions if (match := _compared(condition, sides)) is not None]
    if len(matches) == 1:
        return matches[0]
    at = join.args.get("match_condition") or join.args.get("on") or join
    count = "more than one comparison" if matches else "no comparison"
    raise _no_comparison(f"ASOF JOIN has {count} of values of both sides", at)


def _no_comparison(message: str, at: exp.Expr) -> BindError:
    return bind_error(NO_COMPARISON, message, at, _COMPARISON_HINT)


def _compared(condition: exp.Expression, sides: Sides) -> _Comparison | None:
    operator: type[exp.Expr] | None = type(condition) if type(condition) is not exp.EQ else None
    if not isinstance(condition, exp.Binary) or operator not in MIRRORED:
        return None
    one, other = condition.left.unnest(), condition.right.unnest()
    read = sides.side_of(one), sides.side_of(other)
    if read == (1, 0):
        one, other, operator = other, one, MIRRORED[operator]
    elif read != (0, 1):
        return None
    turned = operator(this=one.copy(), expression=other.copy())
    turned.meta.update(condition.meta)
    return _Comparison(as_expression(turned), condition)


def _refuse_processing_time(match: _Comparison, left: Node, right: Node) -> None:
    of_process = {f.name for f in (*left.schema, *right.schema) if f.time is TimeDomain.PROCESSING}
    if any(columns_of(value) & of_process for value in match.of_sides):
        message = "ASOF JOIN compares processing times, which are other ones whenever they are read"
        hint = "Write JOIN r FOR SYSTEM_TIME AS OF l.pt: each row meets what the right side has when the row comes."
        raise bind_error(PROCESSING_TIME, message, match.written, hint)


def _asof_conditions(conditions: Sequence[exp.Expression], sides: Sides) -> _AsofConditions:
    rest = _AsofConditions((), [], [], [])
    equal = []
    for condition in conditions:
        equality = sides.equality(condition)
        side = sides.side_of(condition)
        if equality is not None:
            equal.append(equality)
        else:
            (rest.of_both if side is None else rest.of_right if side else rest.of_left).append(condition)
    return _AsofConditions(tuple(equal), rest.of_left, rest.of_right, rest.of_both)


def _event_time_join(
    match: _Comparison, rest: _AsofConditions, kind: JoinKind, left: Node, right: Node, sides: Sides
) -> TemporalJoin | None:
    """The join that waits for the watermark; None where a later row may be nearer."""
    bound = sides.time_bound(match.condition)
    if bound is None or rest.of_both or any(side.changelog_mode != APPEND_ONLY for side in (left, right)):
        return None
    times, operator, distance = bound
    domain = next(field.time for field in left.schema if field.name == times[0])
    if distance or operator not in (exp.GTE, exp.GT) or domain is TimeDomain.PROCESSING or domain is None:
        return None
    return TemporalJoin(left, right, kind, rest.equal, None, domain, *times, operator is exp.GT, _first_by(right))


def _ttl_ms(left: Scope, right: Scope, context: Context) -> int:
    """The longer time to live of both sides; no limit where one has none."""
    of_sides = [ttl_ms_of(side.tables, context) for side in (left, right)]
    return max(of_sides) if all(of_sides) else 0


def _updating_join(
    match: _Comparison, rest: _AsofConditions, kind: JoinKind, left: Node, right: Node, ttl_ms: int
) -> AsofJoin:
    """The join that updates its results. Conditions on both sides choose the partner, so they must not filter above."""
    of_left = rest.of_left if kind is JoinKind.LEFT else []
    condition = pair_conjunction([*of_left, *rest.of_both], left, right)
    decided = pair_condition(match.condition, left.schema, right.schema)
    (((_, one),), ((_, other),)) = decided.columns
    comparison = COMPARISONS[type(match.condition)]
    return AsofJoin(
        left,
        right,
        kind,
        rest.equal,
        condition,
        left_value=one,
        right_value=other,
        comparison=comparison,
        first_by=_first_by(right),
        ttl_ms=ttl_ms,
    )


def _first_by(right: Node) -> tuple[str, ...]:
    """The fields that choose among equally near rows: the smallest key; without a key the row that arrived first."""
    keys = sorted(right.unique_keys, key=lambda key: (len(key), sorted(key)))
    return tuple(field.name for field in right.schema if keys and field.name in keys[0])


# --- LATERAL SNAPSHOT(input => TABLE t) -----------------------------------------------------------------------

SNAPSHOT = "SNAPSHOT"
_SNAPSHOT_PARAMETERS = ("input", "on_time")
_SNAPSHOT_FORM = "Write FROM o JOIN LATERAL SNAPSHOT(input => TABLE t) AS t ON o.k = t.k."
_ALL_AT_ONCE = (
    "Nothing waits for a table to be loaded here: a micro-batch reads all rows that are there, and those of the table "
    "count before those on the left."
)


def snapshot_of(source: exp.Expr, context: Context) -> TableFunction | None:
    """The call of SNAPSHOT if ``source`` is one; None for other sources, and if the catalog has a function of that
    name.
    """
    function = table_function_of(source) if isinstance(source, exp.Table) else None
    named = function is not None and function.name.upper() == SNAPSHOT
    return function if named and context.catalog.function(SNAPSHOT) is None else None


def snapshot_source(call: TableFunction, bind_source: Callable[[exp.Expr], Scope]) -> Scope:
    """Binds the table in SNAPSHOT, whose current rows are joined, and returns its scope. Mistakes raise BindError
    SS210, SS220.
    """
    arguments = _snapshot_arguments(call)
    table = arguments["input"].value
    assert isinstance(table, TableArgument)
    if table.partition_by or table.order_by:
        message = f"TABLE of {SNAPSHOT} takes no PARTITION BY and ORDER BY"
        raise bind_error("SS220", message, table.span, "Compare the key in ON.")
    scope = bind_source(table.source)
    if "on_time" in arguments:
        descriptor = arguments["on_time"].value
        assert isinstance(descriptor, Descriptor)
        column = exp.column(descriptor.columns[0].copy())
        time_field(column, scope.resolve(column), scope, SNAPSHOT)
    return scope


def snapshot_without_left(call: TableFunction) -> BindError:
    """Returns the error SS220 for SNAPSHOT as the first source of FROM, where it has no rows to join."""
    return bind_error("SS220", f"{SNAPSHOT} joins the rows on its left, and there are none", call.span, _SNAPSHOT_FORM)


def _snapshot_arguments(call: TableFunction) -> dict[str, Argument]:
    arguments: dict[str, Argument] = {}
    for position, argument in enumerate(call.arguments):
        name = _snapshot_parameter(argument, position)
        if name in arguments:
            raise bind_error("SS220", f'argument "{name}" of {SNAPSHOT} is given twice', argument.span)
        arguments[name] = argument
    if "input" not in arguments or not isinstance(arguments["input"].value, TableArgument):
        raise bind_error("SS220", f"{SNAPSHOT} needs the argument input, which is TABLE t", call.span, _SNAPSHOT_FORM)
    time = arguments.get("on_time")
    if time is not None and not (isinstance(time.value, Descriptor) and len(time.value.columns) == 1):
        raise bind_error("SS220", f"on_time of {SNAPSHOT} must be DESCRIPTOR(ts)", time.span)
    return arguments


def _snapshot_parameter(argument: Argument, position: int) -> str:
    if argument.name is None:
        if position < len(_SNAPSHOT_PARAMETERS):
            return _SNAPSHOT_PARAMETERS[position]
        raise bind_error(
            "SS220", f"{SNAPSHOT} takes at most {len(_SNAPSHOT_PARAMETERS)} arguments", argument.span, _SNAPSHOT_FORM
        )
    name = argument.name.lower()
    if name not in _SNAPSHOT_PARAMETERS:
        hint = did_you_mean(name, _SNAPSHOT_PARAMETERS, "arguments") or _SNAPSHOT_FORM
        detail = _ALL_AT_ONCE if name.startswith("load_") else None
        raise bind_error("SS220", f'{SNAPSHOT} has no argument "{argument.name}"', argument.span, hint, detail)
    return name
