"""Tables that are looked up, read whole: one task asks for all rows."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from sqlstream.planner.lowering.columns import quoted
from sqlstream.udfs.lookup.operator import WholeTable
from sqlstream.udfs.lookup.source import LookupSource


def whole_table(spark: SparkSession, source: LookupSource) -> DataFrame:
    """A DataFrame of the columns that the source's request names."""
    schema = ", ".join(f"{quoted(name)} {type_.ddl()}" for name, type_ in source.request.columns)
    return spark.range(1, numPartitions=1).mapInArrow(WholeTable(source).rows, schema)
