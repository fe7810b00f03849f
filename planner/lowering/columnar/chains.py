"""Windows that run in one call with those below them: what goes to Spark is the exchange of the lowest alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.from_files import Files
from sqlstream.planner.lowering.columnar.inputs import InputField
from sqlstream.planner.lowering.columnar.operator import Above, Running
from sqlstream.planner.node import Link
from sqlstream.udfs.exchange import CLOCK, Handed, Handover
from sqlstream.udfs.kernel import KEY_HASH


@dataclass(frozen=True)
class Prepared:
    """An operator and the rows of its exchange, or ``files`` with them. ``above``: those that run in its call."""

    rows: DataFrame
    operator: Running
    files: Files | None = None
    above: tuple[Above, ...] = ()

    @property
    def results(self) -> DataFrame:
        """The output schema of the last chained kernel; this DataFrame never runs."""
        last = self.above[-1].operator if self.above else self.operator
        return self.rows.mapInArrow(_nothing, last.output)

    def with_above(self, operator: Running, handover: Handover) -> Prepared:
        return replace(self, above=(*self.above, Above(operator, handover)))


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def handover_of(
    link: Link,
    emitted: Mapping[str, Handed],
    fields_of: Mapping[str, InputField],
    keys: Sequence[str],
    schema: pa.Schema,
) -> Handover:
    """The handover between chained operators. ``emitted``: the output columns of the kernel below, by field.
    ``fields_of``: the fields that the columns of the input above are. ``schema`` has all of these columns, ``keys``
    are some of them."""
    below = dict(link.fields)
    read = {name: fields_of[name] for name in schema.names if name not in (KEY_HASH, CLOCK)}
    handed = ((name, replace(emitted[below[column.field]], micros=column.micros)) for name, column in read.items())
    return Handover(tuple(handed), tuple(keys), schema)
