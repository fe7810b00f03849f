"""Messages of sources, such as lines of a socket, as rows: tasks decode them, as they do files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sqlstream.connectors.formats import quoted
from sqlstream.types import DataType, from_arrow
from sqlstream.udfs.messages import PLACE, VALUE, MessageRows
from sqlstream.udfs.spark.batches import rows_of


def decoded(
    messages: DataFrame,
    value: SparkColumn,
    reader: MessageRows,
    keep: Mapping[str, SparkColumn] | None = None,
    position: SparkColumn | None = None,
) -> DataFrame:
    """Returns the rows of messages: the columns of ``reader``, and ``keep``.

    ``value``: what a message holds, a STRING or BINARY. ``keep``: further columns of each row by name, as expressions
    over the messages. ``position``: where a message is in the source, for errors.
    """
    kept = {f"__kept{i}": name for i, name in enumerate(keep or {})}
    place = (F.lit(None) if position is None else position).cast("STRING").alias(PLACE)
    given = (column.alias(own) for own, column in zip(kept, (keep or {}).values(), strict=True))
    texts = messages.select(value.cast("BINARY").alias(VALUE), place, *given)
    own = [f"{quoted(field.name)} {from_arrow(field.type).ddl()}" for field in reader.schema]
    others = [_field(texts.schema, name) for name in (PLACE, *kept)]
    rows = texts.mapInArrow(rows_of(reader), ", ".join([*own, *others]))
    columns = (F.col(quoted(field.name)) for field in reader.schema)
    return rows.select(*columns, *(F.col(own).alias(name) for own, name in kept.items()))


def _field(schema: StructType, name: str) -> str:
    return f"{quoted(name)} {schema[name].dataType.simpleString()}"


# --- VARIANT: tasks give its JSON, of which Spark makes it --------------------------------------------------------


def as_variants(name: str, kind: DataType) -> SparkColumn:
    """The column of that name, of the type ``with_raw_json(kind)``, in the type ``kind``."""
    column = F.col(quoted(name))
    return _variants(column, kind).alias(name) if _has_variants(kind) else column


def _variants(value: SparkColumn, kind: DataType) -> SparkColumn:
    if not _has_variants(kind):
        return value
    match kind.name:
        case "ARRAY":
            return F.transform(value, lambda v: _variants(v, kind.inner[0]))
        case "MAP":
            return F.transform_values(value, lambda _, v: _variants(v, kind.inner[1]))
        case "STRUCT":
            members = (_variants(value[name], inner).alias(name) for name, inner in kind.fields())
            return F.when(value.isNotNull(), F.struct(*members))
    return F.parse_json(value)


def _has_variants(kind: DataType) -> bool:
    return any(part.name == "VARIANT" for part in kind.parts())
