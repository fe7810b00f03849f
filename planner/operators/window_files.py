"""What windows with aggregates read of their rows, where these may come from files as they are."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.firing import Delta, EvictDelta, LateAction, When, simple_triggers
from sqlstream.planner.operators.window_aggregate import WindowAggregate, late_fields
from sqlstream.planner.physical.aggregate_arguments import read_by
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.windows import Session
