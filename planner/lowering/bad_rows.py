"""Bad rows part from the others where they are found: they are counted, and dropped or on their way to a table.

A dead letter leaves the query beside its result (``side_outputs``), as JSON in LATE, so that no Python is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.bad_rows import BAD, OnError
from sqlstream.planner.catalog import Table
from sqlstream.planner.lowering.columns import column, quoted
from sqlstream.udfs.exchange import LATE, LATE_TABLE

_LETTER = "source STRING, record BINARY, error STRING, place STRING"
_ERROR = "__bad_error"


@dataclass(frozen=True)
class Letter:
    """The parts of a row's dead letter; ``error`` is NULL for good rows."""

    source: str
    record: Column
    error: Column
    place: Column

    @property
    def bytes(self) -> Column:
        named = (F.lit(self.source).alias("source"), self.record.cast("BINARY").alias("record"))
        letter = F.struct(*named, column(_ERROR).alias("error"), self.place.cast("STRING").alias("place"))
        return F.encode(F.to_json(letter), "UTF-8")


def parted(rows: DataFrame, letter: Letter, on_error: OnError, counted: str | None) -> DataFrame:
    """The rows without the bad ones, which have NULL in all columns but the hidden ones where a table gets them.

    ``counted`` is the name of the metric; without it they are those of another reader of the same rows, and only
    dropped.
    """
    rows = rows.select("*", letter.error.alias(_ERROR))
    bad = column(_ERROR).isNotNull()
    if counted is not None:
        rows = rows.observe(counted, F.count_if(bad).alias("rows"))
    if counted is None or on_error.table is None:
        return rows.where(~bad).drop(_ERROR)
    side = {LATE_TABLE: F.lit(marker(on_error.table)), LATE: letter.bytes}
    values = [
        F.when(bad, side[name]).otherwise(column(name)) if name in side else F.when(~bad, column(name))
        for name in rows.columns
    ]
    named = [value.alias(name) for value, name in zip(values, rows.columns, strict=True) if name != _ERROR]
    missing = [F.when(bad, value).alias(name) for name, value in side.items() if name not in rows.columns]
    return rows.select(*named, *missing)


def marker(table: Table) -> str:
    """The value of LATE_TABLE for dead letters to this table."""
    return f"dead-letter/{table.name}"


def letters_for(table: Table, rows: DataFrame) -> DataFrame:
    """The dead letters for a table among the rows of a micro-batch, with the columns of the table."""
    bad = rows.where(column(LATE_TABLE) == F.lit(marker(table)))
    letters = bad.select(F.from_json(F.decode(column(LATE), "UTF-8"), _LETTER).alias("letter")).select("letter.*")
    letters = letters.withColumn("failed_at", F.current_timestamp())
    columns = ((c.name, c.type.ddl()) for c in table.physical_columns)
    return letters.select(*(F.col(quoted(name.lower())).cast(kind).alias(name) for name, kind in columns))


def bad_column(rows: DataFrame, member: str) -> Column | None:
    """A member of BAD, where the source tells it."""
    return F.col(f"{BAD}.{member}") if BAD in rows.columns else None
