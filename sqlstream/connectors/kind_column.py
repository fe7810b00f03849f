"""A column that tells the kind of each row, of tables whose format has none: ``'source.kind-column' = 'op'``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.formats import quoted, shown
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, WRONG_VALUE, Option, hint_of
from sqlstream.planner.bad_rows import BAD_ROW
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

KIND_COLUMN = Option(
    "source.kind-column",
    NAME,
    "The column with the kind of each row, +I, -U, +U or -D, or a word for it such as DELETE; with 'changelog-mode'.",
)
_WORDS = {
    RowKind.INSERT: ("+I", "I", "INSERT"),
    RowKind.UPDATE_BEFORE: ("-U", "UB", "UPDATE_BEFORE"),
    RowKind.UPDATE_AFTER: ("+U", "U", "UA", "UPDATE", "UPDATE_AFTER"),
    RowKind.DELETE: ("-D", "D", "DELETE"),
}


def kind_column(table: Table) -> str | None:
    return table.option(KIND_COLUMN.key)


def check_kind_column(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """A column of texts, of a table whose rows are not all inserts."""
    name = kind_column(table)
    if name is None:
        return
    span, kinds = spans.get(KIND_COLUMN.key), {c.name: c.type for c in table.physical_columns}
    if name not in kinds:
        message = f'option "{KIND_COLUMN.key}" names the column "{name}", which table "{table.name}" does not have'
        yield Diagnostic(WRONG_COLUMN, message, span, hint=hint_of(name, kinds, "Columns"))
    elif kinds[name].name != "STRING":
        message = f'column "{name}" of option "{KIND_COLUMN.key}" is of type {kinds[name]}, not STRING'
        yield Diagnostic(WRONG_COLUMN, message, span, hint="Declare it STRING: its values are +I, -U, +U and -D.")
    if table.changelog == APPEND_ONLY:
        message = f"option \"{KIND_COLUMN.key}\" needs a 'changelog-mode' of more kinds than I"
        yield Diagnostic(WRONG_VALUE, message, span, hint="Add 'changelog-mode' = 'I,UB,UA,D', or the kinds that come.")


def read_columns(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    """``columns`` of the table, and that of the kinds."""
    name = kind_column(table)
    return columns if name is None or name in columns else (*columns, name)


def with_kinds(rows: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """The rows with ROW_KIND, and NULL in the column of the kinds where it is among ``columns``: a row that goes must
    be equal to the one that came. The job fails with SS402 at a kind that the table does not declare.
    """
    from pyspark.sql import functions as F

    name = kind_column(table)
    assert name is not None
    rows = rows.withColumn(ROW_KIND, _kind(F.col(quoted(name)), table, name))
    return rows.withColumn(name, F.lit(None).cast("STRING")) if name in columns else rows.drop(name)


def _kind(told: SparkColumn, table: Table, name: str) -> SparkColumn:
    from pyspark.sql import functions as F

    word, kinds = F.upper(F.trim(told)), sorted(table.changelog, key=list(RowKind).index)
    listed = ", ".join(kind.value for kind in kinds)
    start = F.lit(f'{BAD_ROW}: column "{name}" of table "{table.name}" tells the kind "')
    message = F.concat(start, F.coalesce(shown(told), F.lit("NULL")), F.lit(f'" of a row, which is none of {listed}'))
    kind = F.raise_error(message).cast("STRING")
    for declared in kinds:
        kind = F.when(word.isin(*_WORDS[declared]), F.lit(declared.value)).otherwise(kind)
    return kind
