"""Control rows: files of a table that lift its watermark from outside.

They end bounded inputs, tick processing time and drive tests. Each file holds one row ``{"watermark_ms": …}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlstream.jobs.storage import Storage
from sqlstream.planner.lowering.columns import END_OF_INPUT_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_END = "end-of-input"


@dataclass(frozen=True)
class ControlRows:
    """The control rows of a job, a folder per table. ``transient``: Spark deletes the files that it has read."""

    storage: Storage
    transient: bool = False

    def stream(self, spark: SparkSession, table: str) -> DataFrame:
        """A streaming DataFrame of one column ``watermark_ms BIGINT``."""
        folder = _folder(table)
        self.storage.make_folder(folder)
        reader = spark.readStream.schema("watermark_ms BIGINT").option("recursiveFileLookup", "true")
        reader = reader.option("cleanSource", "delete" if self.transient else "off")
        return reader.json(self.storage.location(folder))

    def lift(self, table: str, watermark_ms: int, name: str) -> None:
        """Lift the table's watermark to exactly ``watermark_ms``; ``name`` is unique within table and job."""
        self.storage.write(f"{_folder(table)}/{name}.json", json.dumps({"watermark_ms": watermark_ms}))

    def has_ended(self, table: str) -> bool:
        """True where the end has been said before."""
        return self.storage.read(f"{_folder(table)}/{_END}.json") is not None

    def end(self, table: str) -> None:
        """Say once that no more rows of the table will come."""
        if not self.has_ended(table):
            self.lift(table, END_OF_INPUT_MS, _END)


def _folder(table: str) -> str:
    return f"control/{quote(table, safe='')}"
