"""Windows that run in one call with those below them: what goes to Spark is the exchange of the lowest alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.chaining import Link
from sqlstream.planner.lowering.columnar.from_files import Files
from sqlstream.planner.lowering.columnar.kernels import sees_arrival
from sqlstream.planner.lowering.columnar.operator import Above, Operator
from sqlstream.planner.lowering.columns import micros, quoted
from sqlstream.planner.lowering.lower import Context, awaited_by
from sqlstream.planner.nodes import WindowAggregate
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.handover import Handed, Handover
from sqlstream.udfs.kernel import KEY_HASH


@dataclass(frozen=True)
class Prepared:
    """An operator and the rows of its exchange, or ``files`` with them. ``above``: those that run in its call."""

    rows: DataFrame
    operator: Operator
    files: Files | None = None
    above: tuple[Above, ...] = ()

    @property
    def results(self) -> DataFrame:
        """What the last of the kernels emits, by names and types alone: it is never run."""
        last = self.above[-1].operator if self.above else self.operator
        return self.rows.mapInArrow(_nothing, last.output)

    def with_above(self, operator: Operator, handover: Handover) -> Prepared:
        return replace(self, above=(*self.above, Above(operator, handover)))


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def below_of(node: WindowAggregate, context: Context) -> Context:
    """Where the operator below is lowered, whose rows are not lowered by ``Context.lower_input``."""
    below = replace(context, awaited=context.awaited | awaited_by(node), above=(*context.above, node))
    return replace(below, in_order=context.in_order or sees_arrival(node))


def handover_of(
    link: Link, emitted: Mapping[str, Handed], texts: Mapping[str, str], keys: Sequence[str], schema: pa.Schema
) -> Handover:
    """``emitted``: where fields of the operator below are in what its kernel emits. ``texts``: the SQL texts of the
    columns of the rows above, each a field or its microseconds, of which ``schema`` is the whole and ``keys`` a part.
    """
    known: dict[str, Handed] = {}
    for field, name in link.fields:
        known |= {quoted(field): emitted[name], micros(field): replace(emitted[name], micros=True)}
    read = [name for name in schema.names if name not in (KEY_HASH, CLOCK)]
    return Handover(tuple((name, known[texts[name]]) for name in read), tuple(keys), schema)
