"""ASOF JOIN: each left row beside the nearest row of the right side.

Where the nearest one is the newest that is not after the left row, in event time, and rows are only added, the join
waits for the watermark and every result is final. All others update their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.join_sides import MIRRORED, Sides, apart_from, decided_on_pairs, parts_of, scope_of_both
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.state_ttl import ttl_ms_of
from sqlstream.planner.binder.temporal_joins import conditions_on, kind_of_one_partner, temporal_scope
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.join_conditions import COMPARISONS, pair_condition
from sqlstream.planner.joining import Equality
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.asof_join import AsofJoin
from sqlstream.planner.operators.temporal_join import TemporalJoin
from sqlstream.planner.rewriting import columns_of, conjunction, conjuncts, node_of
from sqlstream.udfs.joins import JoinKind

NO_MATCH = "SS670"
PROCESSING_TIME = "SS671"

_MATCH = (
    "Write one comparison of a value of each side with >=, >, <= or <, as in ON l.k = r.k AND l.x >= r.x, or say which "
    "one it is before ON: MATCH_CONDITION (l.x >= r.x)."
)


@dataclass(frozen=True)
class _Match:
    """``condition``: the left value, compared with the right one."""

    condition: exp.Expression
    written: exp.Expression

    @property
    def of_sides(self) -> tuple[exp.Expression, exp.Expression]:
        return node_of(self.condition.this), node_of(self.condition.expression)


@dataclass(frozen=True)
class _Rest:
    """What ON says beside the comparison: equalities, conditions on one side, and on both."""

    equal: tuple[Equality, ...]
    of_left: list[exp.Expression]
    of_right: list[exp.Expression]
    of_both: list[exp.Expression]


def asof_join(join: exp.Join, left: Scope, right: Scope, context: Context) -> Scope:
    """The scope of both sides. BindError SS657 for the kind of join, SS670 where not one condition compares values of
    both sides, SS671 for processing times, SS291 to SS293 for conditions that kernels cannot decide."""
    refuse_rest(join, ("this", "side", "kind", "method", "on", "using", "match_condition"), context)
    kind = kind_of_one_partner(join, "ASOF JOIN")
    right = apart_from(right, left)
    conditions, columns = conditions_on(join, left, right, context)
    sides = Sides(left.node, right.node)
    match = _match(join, _match_condition(join, left, right, context) or conditions, sides)
    _refuse_processing_time(match, left.node, right.node)
    rest = _rest([condition for condition in conditions if condition is not match.written], sides)
    below = Filter(right.node, conjunction(rest.of_right)) if rest.of_right else right.node
    in_time = _in_time(match, rest, kind, left.node, below, sides)
    if in_time is not None:
        return temporal_scope(join, in_time, rest.of_left, columns, left.tables, context)
    updating = _updating(match, rest, kind, left.node, below, _ttl_ms(left, right, context))
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
        raise _no_match("MATCH_CONDITION has more than one condition", written)
    return [part for condition in bound for part in parts_of(condition)]


def _match(join: exp.Join, conditions: Sequence[exp.Expression], sides: Sides) -> _Match:
    matches = [match for condition in conditions if (match := _compared(condition, sides)) is not None]
    if len(matches) == 1:
        return matches[0]
    at = join.args.get("match_condition") or join.args.get("on") or join
    count = "more than one comparison" if matches else "no comparison"
    raise _no_match(f"ASOF JOIN has {count} of values of both sides", at)


def _no_match(message: str, at: exp.Expr) -> BindError:
    return bind_error(NO_MATCH, message, at, _MATCH)


def _compared(condition: exp.Expression, sides: Sides) -> _Match | None:
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
    return _Match(node_of(turned), condition)


def _refuse_processing_time(match: _Match, left: Node, right: Node) -> None:
    of_process = {f.name for f in (*left.schema, *right.schema) if f.time is TimeDomain.PROCESSING}
    if any(columns_of(value) & of_process for value in match.of_sides):
        message = "ASOF JOIN compares processing times, which are other ones whenever they are read"
        hint = "Write JOIN r FOR SYSTEM_TIME AS OF l.pt: each row meets what the right side has when the row comes."
        raise bind_error(PROCESSING_TIME, message, match.written, hint)


def _rest(conditions: Sequence[exp.Expression], sides: Sides) -> _Rest:
    rest = _Rest((), [], [], [])
    equal = []
    for condition in conditions:
        equality = sides.equality(condition)
        side = sides.side_of(condition)
        if equality is not None:
            equal.append(equality)
        else:
            (rest.of_both if side is None else rest.of_right if side else rest.of_left).append(condition)
    return _Rest(tuple(equal), rest.of_left, rest.of_right, rest.of_both)


def _in_time(match: _Match, rest: _Rest, kind: JoinKind, left: Node, right: Node, sides: Sides) -> TemporalJoin | None:
    """The join that waits for the watermark; None where rows that come later may be nearer."""
    bound = sides.time_bound(match.condition)
    if bound is None or rest.of_both or any(side.changelog_mode != APPEND_ONLY for side in (left, right)):
        return None
    times, operator, distance = bound
    domain = next(field.time for field in left.schema if field.name == times[0])
    if distance or operator not in (exp.GTE, exp.GT) or domain is TimeDomain.PROCESSING or domain is None:
        return None
    return TemporalJoin(left, right, kind, rest.equal, None, domain, *times, operator is exp.GT, _first_by(right))


def _ttl_ms(left: Scope, right: Scope, context: Context) -> int:
    """That of the side that lives longer; where one lives for ever, the other does."""
    of_sides = [ttl_ms_of(side.tables, context) for side in (left, right)]
    return max(of_sides) if all(of_sides) else 0


def _updating(match: _Match, rest: _Rest, kind: JoinKind, left: Node, right: Node, ttl_ms: int) -> AsofJoin:
    """UNSAFE for conditions on both sides to be checked above: they choose the partner."""
    of_left = rest.of_left if kind is JoinKind.LEFT else []
    condition = decided_on_pairs([*of_left, *rest.of_both], left, right)
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
    """Of rows of one value the one with the smallest key counts; without a key the first that came."""
    keys = sorted(right.unique_keys, key=lambda key: (len(key), sorted(key)))
    return tuple(field.name for field in right.schema if keys and field.name in keys[0])
