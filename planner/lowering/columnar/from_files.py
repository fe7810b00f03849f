"""Operators whose exchange reads its rows from Parquet files itself: their columns are as they are in the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.clocks import WindowNode
from sqlstream.planner.lowering.columnar.inputs import Inputs, Taken, clock_of
from sqlstream.planner.lowering.columnar.kernels import sees_arrival
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.lowering.time import null_time
from sqlstream.planner.missing_columns import missing_are_null
from sqlstream.planner.naming import below_projections
from sqlstream.planner.nodes import AssignTime, Node, Project, Scan
from sqlstream.udfs.exchange import CLOCK, PARTS, Content, Exchange
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.parquet import FromFile, ParquetRows
from sqlstream.udfs.spark.batches import BLOBS_DDL, to_blobs

METRIC, ROWS = "files", "rows"
"""The metric of an operator whose exchange reads files, whose number ends its name: the rows that it has read."""

_TYPES = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY",
                    "DATE", "TIMESTAMP"})  # fmt: skip


@dataclass(frozen=True)
class Files:
    """``reader`` makes rows of ``places``."""

    places: DataFrame
    reader: ParquetRows

    def blobs(self, exchange: Exchange, number: int) -> DataFrame:
        """What the exchange of an operator makes of the rows, which a metric counts: Spark sees places alone."""
        blobs = self.places.mapInArrow(to_blobs(exchange, self.reader.schema, self.reader), BLOBS_DDL)
        read = f"content = {Content.READ.value}"
        counted = F.sum(F.expr(f"IF({read}, clock, 0L)")).alias(ROWS)
        return blobs.observe(f"{METRIC}/{number}", counted).where(f"NOT {read}")


def files_below(
    node: WindowNode, taken: Mapping[str, Taken], inputs: Inputs, rows: pa.Schema, context: Context
) -> Files | None:
    """The files below the node, where its exchange can make ``rows`` of them; None where only Spark can.

    ``taken``: the fields that columns are, keys too. ``rows``: the exchange's input but for PARTS.
    """
    scan = _scan_below(node, inputs, context)
    if scan is None:
        return None
    columns: dict[str, FromFile] = {}
    for name in rows.names:
        if name in (KEY_HASH, CLOCK):
            continue
        found = _column(taken[name], node, inputs, scan) if name in taken else None
        if found is None:
            return None
        columns[name] = found
    in_order = context.in_order or sees_arrival(node)
    places = context.runtime.places(scan, in_order=in_order) if columns else None
    if places is None:
        return None
    if CLOCK in rows.names:  # else a constant that is another one in each micro-batch, and so code to compile
        places = places.select("*", F.expr(clock_of(places)).alias(CLOCK))
    kinds = zip(PARTS, (pa.int64(), pa.string(), pa.int64()), strict=True)
    parts = [pa.field(name, kind) for name, kind in kinds if name != PARTS[1] or name in places.columns]
    return Files(
        places, ParquetRows(pa.schema([*rows, *(parts if in_order else [])]), columns, missing_are_null(scan.table))
    )


def _scan_below(node: WindowNode, inputs: Inputs, context: Context) -> Scan | None:
    """The scan whose rows reach the node one by one, of which Spark need not know the times."""
    here = context.below(node)
    told = inputs.watermark.source if inputs.watermark is not None else None
    *between, _ = _chain(node)
    told_by_rows = any(isinstance(n, AssignTime) and n is not told and here.awaits(n.domain) for n in between)
    return None if told_by_rows else scan_below(node)


def scan_below(node: WindowNode) -> Scan | None:
    """The scan of a table of Parquet files that only projections and times part from the node."""
    *_, last = _chain(node)
    if not isinstance(last, Scan) or last.predicates or last.on_error.tolerates:
        return None
    return last if (last.table.option("format") or "").strip().lower() == "parquet" else None


def _chain(node: WindowNode) -> Iterator[Node]:
    """What stands below the node, as far as it leaves rows as they are, and what stands below that."""
    below = node.input
    while isinstance(below, Project | AssignTime):
        yield below
        below = below.input
    yield below


def _column(taken: Taken, node: WindowNode, inputs: Inputs, scan: Scan) -> FromFile | None:
    """The column of the file that the field is; None where it is computed, or of a type that is not read alike."""
    below: Node = node.input
    name = taken.field
    while below is not scan:
        found = below_projections(below, name)
        if found is None:
            return None
        below, name = found
        if isinstance(below, AssignTime):
            if name == below.column and name not in scan.columns:
                return None
            below = below.input
    column = next((c for c in scan.table.physical_columns if c.name == name), None)
    if column is None or column.type.name not in _TYPES:
        return None
    if taken.micros and column.type.name != "TIMESTAMP":
        return None
    told = inputs.watermark
    required = null_time(told.source) if taken.required and told is not None else None
    not_null = None if column.nullable else f'column "{name}" of table "{scan.table.name}" is NOT NULL and got NULL'
    return FromFile(name, column.type.to_arrow(), taken.micros, required, not_null)
