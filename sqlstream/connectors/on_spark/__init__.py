"""What connectors do on Spark: the modules that read and write tables, which import PySpark and PyArrow.

The other modules of connectors describe them, and are imported to check statements. They reach these functions as
``on_spark.kafka.read`` and so on. A module is imported when it is first used: PySpark takes a second to load, and
statements that start no job need none of it.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from sqlstream.spark.running import loaded

if TYPE_CHECKING:
    from sqlstream.connectors.on_spark import (
        change_messages,
        cut_files,
        database_changes,
        datagen,
        decoders,
        delta_sink,
        encoders,
        file_sink,
        file_source,
        iceberg_sink,
        kafka,
        kafka_sink,
        kafka_source,
        kafka_times,
        keyed_rows,
        lake_source,
        messages,
        object_sink,
        object_source,
        postgres,
        received,
        record_files,
        records,
        rows,
        spark_files,
        task_files,
        test,
        topic_records,
        topic_rows,
        unrepresentable,
    )

__all__ = [
    "change_messages",
    "cut_files",
    "database_changes",
    "datagen",
    "decoders",
    "delta_sink",
    "encoders",
    "file_sink",
    "file_source",
    "iceberg_sink",
    "kafka",
    "kafka_sink",
    "kafka_source",
    "kafka_times",
    "keyed_rows",
    "lake_source",
    "messages",
    "object_sink",
    "object_source",
    "postgres",
    "received",
    "record_files",
    "records",
    "rows",
    "spark_files",
    "task_files",
    "test",
    "topic_records",
    "topic_rows",
    "unrepresentable",
]


def __getattr__(name: str) -> ModuleType:
    """Import the module of that name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module: ModuleType = loaded(f"{__name__}.{name}")
    return module
