"""What windows with aggregates read of their rows, where these may come from files as they are."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.firing import Delta, EvictDelta, LateAction, When, simple_triggers
from sqlstream.planner.operators.window_aggregate import WindowAggregate, late_fields
from sqlstream.planner.physical.aggregate_arguments import read_by
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.windows import Session


@fields_read.register
def _(node: WindowAggregate, port: int = 0) -> FieldsRead | None:
    if node.grouping_sets is not None:
        return None
    expressions = [read for item in node.aggregates for read in read_by(item)]
    computes = any(not isinstance(read, exp.Column) for read in expressions)
    if computes or _window_computes(node) or _firing_computes(node):
        return None
    every = [f.name for f in node.input.schema] if node.shows_rows_to_classes else []
    late = [f.name for f in late_fields(node)] if node.firing.late.action is LateAction.TO else []
    names = dict.fromkeys([*node.keys, *node.times, *(read.name for read in expressions), *late, *every])
    return FieldsRead(tuple(names), node.keys, node.time)


def _window_computes(node: WindowAggregate) -> bool:
    match node.window:
        case None:
            return True
        case Session(gap_ms=int(), start_when=None, end_when=None):
            return False
        case Session():
            return True
    return False


def _firing_computes(node: WindowAggregate) -> bool:
    eviction = node.firing.eviction
    evicts = eviction is not None and isinstance(eviction.evictor, EvictDelta)
    return evicts or any(isinstance(trigger, When | Delta) for trigger in simple_triggers(node.firing.trigger))
