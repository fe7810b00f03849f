"""Lookups: Catalyst computes keys, Python asks, Catalyst joins the answers.

Adjacent lookups, of which none needs what another one adds, are a group: they are asked at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from sqlstream.planner.lowering.columns import column, quoted, string
from sqlstream.planner.lowering.hidden import hidden, passes_by
from sqlstream.planner.lowering.lookup_answers import Marks, require_array_functions, with_answers, with_failures
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.side_outputs import sent_aside
from sqlstream.planner.operators.lookup import Lookup, failed_marker
from sqlstream.planner.physical.steps import Ask
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.metrics import MAX_IN_FLIGHT, METRICS, NAMES, metric_key
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep

METRIC = "lookup"
"""What the names of the metrics of lookups begin with; the number of the lookup ends them."""


@dataclass(frozen=True)
class Asked:
    """A lookup with its number in the plan, and the names of its columns, which none of the plan's can be."""

    number: int
    node: Lookup

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"__lookup_key_{self.number}_{i}" for i in range(len(self.node.keys)))

    @property
    def answers(self) -> str:
        return f"__lookup_answers_{self.number}"

    @property
    def error(self) -> str | None:
        return f"__lookup_error_{self.number}" if self.node.failed is not None else None

    @property
    def deferred(self) -> str | None:
        return f"__lookup_deferred_{self.number}" if self.node.options.defers else None

    @property
    def failed(self) -> str:
        return f"__lookup_failed_{self.number}"


@lower_node.register
def _(node: Lookup, step: Ask, context: Context) -> DataFrame:
    group = tuple(Asked(number, lookup) for number, lookup in step.lookups if isinstance(lookup, Lookup))
    for lookup in group:
        require_array_functions(lookup.node, context)
    return joined(asked(context.lower(step.input), group, context), group, context)


# --- asking ---------------------------------------------------------------------------------------------------


def asked(rows: DataFrame, group: Sequence[Asked], context: Context, *, with_keys: bool = False) -> DataFrame:
    """The rows with the answers of each lookup, and errors and marks of deferred rows where these are wanted."""
    keys = [key for lookup in group for key in _keys(lookup, rows, context)]
    fields = (column(f.name) for f in group[0].node.input.schema)
    given = rows.select(*fields, *hidden(rows), *keys)
    steps = tuple(step_of(lookup, context) for lookup in group)
    schema = [StructField(f.name, f.dataType, True) for f in given.schema]
    schema += [f for lookup in group for f in answer_fields(lookup)]
    schema += _fields([f"{METRICS} MAP<STRING, BIGINT>"])
    out = _observed(given.mapInArrow(LookupRows(steps).rows, StructType(schema)), group)
    return out if with_keys else out.drop(*(name for lookup in group for name in lookup.keys))


def _keys(lookup: Asked, rows: DataFrame, context: Context) -> list[Column]:
    """NULL, so that nothing is asked, in rows on their way to something else and in those that retract others."""
    passing = _asks_nothing(lookup.node, rows)
    items = zip(lookup.keys, lookup.node.keys, strict=True)
    values = [(name, context.column(key.expression, rows).cast(key.type.ddl())) for name, key in items]
    return [(value if passing is None else F.when(~passing, value)).alias(name) for name, value in values]


def _asks_nothing(node: Lookup, rows: DataFrame) -> Column | None:
    passing = passes_by(rows)
    if not node.remembers_answers:
        return passing
    retracts = F.expr(f"coalesce({ROW_KIND} IN ('-U', '-D'), false)")
    return retracts if passing is None else passing | retracts


def step_of(lookup: Asked, context: Context) -> LookupStep:
    source = context.runtime.lookup(lookup.node)
    asked = (lookup.keys, lookup.answers, lookup.node.options, lookup.error, lookup.deferred)
    return LookupStep(lookup.number, source, *asked, context.runtime.run_id)


def answer_fields(lookup: Asked) -> list[StructField]:
    members = ", ".join(f"{quoted(f.name)}: {f.type.ddl()}" for f in lookup.node.read)
    fields = [f"{lookup.answers} ARRAY<STRUCT<{members}>>"]
    fields += [f"{lookup.error} STRING"] if lookup.error is not None else []
    fields += [f"{lookup.deferred} BOOLEAN"] if lookup.deferred is not None else []
    return _fields(fields)


def _fields(texts: Sequence[str]) -> list[StructField]:
    struct = StructType.fromDDL(", ".join(texts))
    assert isinstance(struct, StructType)
    return list(struct)


# --- joining --------------------------------------------------------------------------------------------------


def joined(rows: DataFrame, group: Sequence[Asked], context: Context) -> DataFrame:
    """The rows with the outputs of each lookup for its answers; failed rows on their way to their tables."""
    markers: dict[str, str] = {}
    for lookup in group:
        failed = lookup.node.failed
        if failed is not None and lookup.error is not None:
            marker = markers[lookup.failed] = failed_marker(failed.table, lookup.number)
            rows = with_failures(rows, failed, Marks(lookup.error, lookup.failed, marker), context)
        rows = with_answers(rows, lookup.node, lookup.answers, context)
    return sent_aside(rows, markers) if markers else rows


# --- counting -------------------------------------------------------------------------------------------------


def _observed(rows: DataFrame, group: Sequence[Asked]) -> DataFrame:
    """The rows without those that hold counts, which are metrics of the query under the number of each lookup."""
    for lookup in group:
        rows = rows.observe(f"{METRIC}/{lookup.number}", *(_metric(lookup.number, name) for name in NAMES))
    return rows.where(column(METRICS).isNull()).drop(METRICS)


def _metric(number: int, name: str) -> Column:
    value = F.expr(f"try_element_at({METRICS}, {string(metric_key(number, name))})")
    return (F.max(value) if name == MAX_IN_FLIGHT else F.sum(value)).alias(name)
