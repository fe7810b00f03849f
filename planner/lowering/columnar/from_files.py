"""Operators whose exchange reads its rows from Parquet files itself: their columns are as they are in the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.inputs import InputField, Inputs, clock_of
from sqlstream.planner.lowering.event_times import time_of
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.missing_columns import missing_are_null
from sqlstream.planner.physical.readers import FilesToRead
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK, PARTS, Content, Exchange
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.keys import can_hash
from sqlstream.udfs.parquet import FromFile, ParquetRows
from sqlstream.udfs.spark.batches import BLOBS_DDL, to_blobs

METRIC, ROWS = "files", "rows"
"""The metric of an exchange that reads files: the rows that it has read. The numbers of operator and input and the name
of the table end it."""


@dataclass(frozen=True)
class Files:
    """``reader`` makes rows of ``places``, which are those of files of ``table``."""

    places: DataFrame
    reader: ParquetRows
    table: str

    def blobs(self, exchange: Exchange, number: int) -> DataFrame:
        """The blobs that an exchange makes of the files' rows, which it also counts, because Spark sees file ranges
        alone."""
        blobs = self.places.mapInArrow(to_blobs(exchange, self.reader.schema, self.reader), BLOBS_DDL)
        read = f"content = {Content.READ.value}"
        counted = F.sum(F.expr(f"IF({read}, clock, 0L)")).alias(ROWS)
        name = f"{METRIC}/{number}/{exchange.port}/{quote(self.table, safe='')}"
        return blobs.observe(name, counted).where(f"NOT {read}")


def hashed_by_exchange(keys: tuple[str, ...], rows: pa.Schema) -> tuple[str, ...]:
    """The keys if the exchange computes their hash, in place of Spark; none else. State is found by that hash, so it is
    the same whoever reads the files."""
    return keys if all(can_hash(rows.field(name).type) for name in keys) else ()


def files_of(
    step: Operator,
    fields_of: Mapping[str, InputField],
    inputs: Inputs,
    rows: pa.Schema,
    hashed: tuple[str, ...],
    context: Context,
    port: int = 0,
) -> Files | None:
    """What the exchange of an operator's input reads to make ``rows``; None where Spark reads.

    ``fields_of``: by column, keys included, the field that it is. ``rows``: what the kernel gets. ``hashed``: the keys
    of KEY_HASH, which then the exchange adds.
    """
    files = step.ports[port].files
    if files is None:
        return None
    rows = rows.remove(rows.get_field_index(KEY_HASH)) if hashed else rows
    names = (name for name in rows.names if name not in (KEY_HASH, CLOCK))
    columns = {name: _from_file(fields_of[name], files, inputs) for name in names}
    scan = files.scan
    places = context.runtime.places(scan, in_order=step.in_order)
    if CLOCK in rows.names:  # else a constant that is another one in each micro-batch, and so code to compile
        places = places.select("*", F.expr(clock_of(places)).alias(CLOCK))
    kinds = zip(PARTS, (pa.int64(), pa.string(), pa.int64()), strict=True)
    parts = [pa.field(name, kind) for name, kind in kinds if name != PARTS[1] or name in places.columns]
    whole = pa.schema([*rows, *(parts if step.in_order else [])])
    return Files(places, ParquetRows(whole, columns, missing_are_null(scan.table)), scan.table.name)


def _from_file(source: InputField, files: FilesToRead, inputs: Inputs) -> FromFile:
    column, told, table = files.column(source.field), inputs.watermark, files.scan.table.name
    event_time = time_of(told.source) if source.required and told is not None else None
    not_null = None if column.nullable else f'column "{column.name}" of table "{table}" is NOT NULL and got NULL'
    return FromFile(column.name, column.type.to_arrow(), source.micros, event_time, not_null)
