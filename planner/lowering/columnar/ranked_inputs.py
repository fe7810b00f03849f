"""The input of operators that choose rows of each key: their fields, keys and kinds as columns, hashed by the keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.lowering.columnar.inputs import (
    InputField,
    Inputs,
    keys_among,
    passed_on,
    row_kind,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run_by_keys
from sqlstream.planner.lowering.columnar.watermarks import TIME
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.node import Node
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import Kernel


@dataclass(frozen=True)
class RankedInput:
    """``fields``: the column of each field of the operator's input. ``keys``: the columns of its keys, which are those
    of fields where equal values look alike."""

    rows: DataFrame
    fields: dict[str, str]
    keys: tuple[str, ...]
    time: InputField | None = None

    @property
    def schema(self) -> pa.Schema:
        return kernel_schema(self.rows)

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(self.fields.values())

    def emitted(self, kernel: Kernel, step: Operator, context: Context) -> DataFrame:
        """The kernel's output; its exchange reads from files where it can."""
        fields_of = {own: InputField(name) for name, own in self.fields.items()}
        fields_of |= {TIME: self.time} if self.time is not None else {}
        (under,) = step.node.inputs
        inputs = Inputs(context, under.schema, self.rows)
        return run_by_keys(kernel, self.rows, self.keys, fields_of, inputs, step, context)

    def results(self, emitted: DataFrame, others: Iterable[Column] = ()) -> DataFrame:
        """The kernel's output as fields of the plan."""
        named = (column(own).alias(name) for name, own in self.fields.items())
        return emitted.select(*named, *others, *hidden(emitted))


def ranked_input(
    node: Node,
    keys: Sequence[str],
    below: DataFrame,
    columns: Sequence[Column] = (),
    *,
    time: str | None = None,
    came_at: str | None = None,
) -> RankedInput:
    """``below``: the rows of the node's only input. ``columns`` are computed besides, and TIME of the field
    ``time``; ``came_at``: SQL text of the clock, where it is read."""
    (under,) = node.inputs
    fields = {f.name: f"__field_{i}" for i, f in enumerate(under.schema)}
    chosen, own = keys_among(below, keys, fields)
    named = [column(name).alias(to) for name, to in fields.items()]
    if under.changelog_mode != APPEND_ONLY:
        named.append(row_kind())
    clock = [F.expr(came_at).alias(CLOCK)] if came_at is not None else []
    timed = [F.expr(micros(time)).alias(TIME)] if time is not None else []
    own_names = tuple(own.values())
    rows = with_key_hash(below.select(*chosen, *named, *timed, *columns, *clock, *passed_on(below)), own_names)
    return RankedInput(rows, fields, own_names, InputField(time, micros=True) if time is not None else None)
