"""Temporal joins: JOIN r FOR SYSTEM_TIME AS OF a time attribute of the left side, of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.join_sides import Sides, apart_from, decided_on_pairs, parts_of, scope_of_both
from sqlstream.planner.binder.lookup_conditions import joined_using
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.state_ttl import ttl_ms_of
from sqlstream.planner.binder.versions import versions
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.joining import Equality
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.temporal_join import TemporalJoin
from sqlstream.planner.rewriting import conjunction, conjuncts
from sqlstream.udfs.joins import JoinKind

NO_VERSIONS = "SS655"
NO_KEY = "SS656"
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
    """The scope of both sides. ``time``: the field of the left side that AS OF names, in event or processing time;
    None: the present, in which each left row comes.

    BindError SS655 for a right side without versions, SS656 for keys that the condition does not name, SS657 for the
    kind of join, SS291 to SS293 for conditions that kernels cannot decide.
    """
    refuse_rest(join, ("this", "side", "kind", "on", "using"), context)
    kind = kind_of_one_partner(join, "a temporal join")
    right = apart_from(right, left)
    conditions, columns = conditions_on(join, left, right, context)
    named = None if time is None else left.fields[time].time
    domain = named or TimeDomain.PROCESSING
    keys = right.node.upsert_keys
    if not keys:
        raise _unversioned(join, "has no PRIMARY KEY, so nothing tells which rows are versions of each other", domain)
    right_time = ""
    if domain is not TimeDomain.PROCESSING:
        right_time = _event_time(join, right, domain)
        versioned = versions(right.node, right_time)
        if versioned is None:
            raise _unversioned(join, "has rows that are no versions: they do not say from when on they hold")
        right = right.over(versioned)
    split = _split(conditions, left.node, right, keys, join)
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
    """With what else the condition says: of an inner join above it."""
    if node.kind is JoinKind.LEFT:
        node = replace(node, condition=decided_on_pairs([*rest], node.left, node.right))
    node = check_changes(node, context, join)
    if node.retracts:
        node = replace(node, left_ttl_ms=ttl_ms_of(left_tables, context))
    above = rest if node.kind is JoinKind.INNER else ()
    return Scope(Filter(node, conjunction([*above])) if above else node, columns)


def kind_of_one_partner(join: exp.Join, what: str) -> JoinKind:
    side, kind = ((join.args.get(key) or "").upper() for key in ("side", "kind"))
    if side not in ("", "LEFT") or kind not in {"", "INNER", "OUTER"} or (kind == "OUTER" and not side):
        words = " ".join(word for word in (side, kind) if word)
        hint = "Write JOIN or LEFT JOIN: each row of the left side comes out once at most."
        raise bind_error(WRONG_KIND, f"{what} is INNER or LEFT, not {words}", join, hint)
    return JoinKind.LEFT if side else JoinKind.INNER


def conditions_on(
    join: exp.Join, left: Scope, right: Scope, context: Context
) -> tuple[list[exp.Expression], tuple[Visible, ...]]:
    """The conditions of ON and USING, each by itself, and the columns of both sides."""
    pairs = scope_of_both(left, right)
    conditions: list[exp.Expression] = []
    columns = pairs.columns
    if join.args.get("using"):
        conditions, columns = joined_using(join.args["using"], left.columns, right.columns)
    elif join.args.get("on") is not None:
        conditions = conjuncts(bind_condition(join.args["on"], pairs, context, ClauseContext("ON")))
    context.stop_if_wrong()
    return [conjunct for condition in conditions for conjunct in parts_of(condition)], columns


# --- FOR SYSTEM_TIME AS OF ------------------------------------------------------------------------------------


def _unversioned(join: exp.Join, why: str, domain: TimeDomain = TimeDomain.EVENT) -> BindError:
    hint = _KEYED if domain is TimeDomain.PROCESSING else _VERSIONED
    return bind_error(NO_VERSIONS, f'"{join.this.alias_or_name}" {why}', join.this, hint)


def _event_time(join: exp.Join, right: Scope, domain: TimeDomain) -> str:
    times = [field.name for field in right.node.schema if field.time is domain]
    if not times:
        raise _unversioned(join, f"has no {domain.value} from which on its rows hold")
    return times[0]


@dataclass(frozen=True)
class _Split:
    equal: tuple[Equality, ...]
    rest: tuple[exp.Expression, ...]


def _split(
    conditions: Sequence[exp.Expression], left: Node, right: Scope, keys: Iterable[frozenset[str]], join: exp.Join
) -> _Split:
    """The equalities of the fields of one of the ``keys`` of the right side, and all other conditions."""
    sides = Sides(left, right.node)
    named: dict[str, tuple[Equality, exp.Expression]] = {}
    for condition in conditions:
        equality = sides.equality(condition)
        name = _field(equality.right, right.node) if equality is not None else None
        if equality is not None and name is not None:
            named.setdefault(name, (equality, condition))
    ordered = sorted(keys, key=lambda key: (len(key), sorted(key)))
    chosen = next((key for key in ordered if key <= named.keys()), None)
    if chosen is None:
        missing = ", ".join(f'"{c.name}"' for c in right.columns if c.field in ordered[0] - named.keys())
        hint = "Write an equality in ON for each column of the key, with values of its type."
        at = join.args.get("on") or join
        message = f"the condition has no equality for {missing}, the key of the right side"
        raise bind_error(NO_KEY, message, at, hint)
    used = [named[name] for name in sorted(chosen)]
    rest = [condition for condition in conditions if not any(condition is own for _, own in used)]
    return _Split(tuple(equality for equality, _ in used), tuple(rest))


def _field(value: exp.Expression, node: Node) -> str | None:
    """The field that a value is, also as a wider integer: other types could make one value of two."""
    if isinstance(value, exp.Column):
        return value.name
    inner = value.this if isinstance(value, exp.Cast) else None
    types = {field.name: field.type.name for field in node.schema}
    return inner.name if isinstance(inner, exp.Column) and types[inner.name] in _INTEGERS else None
