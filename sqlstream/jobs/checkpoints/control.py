"""Control rows: files that lift the watermark of a table, or move the clock of processing time, from outside.

They end bounded inputs, tick processing time and drive tests. Each file holds one row, ``{"watermark_ms": …}`` of a
table or ``{"processing_time_ms": …}`` of the clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.path_names import as_segment
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLOCK = "control-clock"
_END = "end-of-input"

END_FILE = f"{_END}.json"
"""The name of the files that say the end of an input."""


@dataclass(frozen=True)
class ControlRows:
    """The control rows of a job, a folder per table and one for the clock.

    ``transient``: Spark deletes the files that it has read. Operators that ask for the same rows share one source, or
    one of two would delete what the other has still to read.
    """

    storage: Storage
    transient: bool = False
    _streams: dict[str, DataFrame] = field(default_factory=dict, compare=False, repr=False)

    def stream(self, spark: SparkSession, table: str) -> DataFrame:
        """A streaming DataFrame of one column ``watermark_ms BIGINT``, the same one for the table each time."""
        return self._stream(spark, _folder(table), "watermark_ms BIGINT")

    def clock(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame of one column ``processing_time_ms BIGINT``, the same one each time."""
        return self._stream(spark, _CLOCK, "processing_time_ms BIGINT")

    def _stream(self, spark: SparkSession, folder: str, schema: str) -> DataFrame:
        if folder not in self._streams:
            self.storage.make_folder(folder)
            reader = spark.readStream.schema(schema).option("recursiveFileLookup", "true")
            reader = reader.option("cleanSource", "delete" if self.transient else "off")
            self._streams[folder] = reader.json(self.storage.location(folder))
        return self._streams[folder]

    def lift(self, table: str, watermark_ms: int, name: str) -> None:
        """Lift the table's watermark to exactly ``watermark_ms``; ``name`` is unique within table and job."""
        self.storage.write(f"{_folder(table)}/{name}.json", json.dumps({"watermark_ms": watermark_ms}))

    def tick(self, processing_time_ms: int, name: str) -> None:
        """Move the clock; ``name`` is unique among the ticks of the job."""
        self.storage.write(f"{_CLOCK}/{name}.json", json.dumps({"processing_time_ms": processing_time_ms}))

    def has_ended(self, table: str) -> bool:
        """True where the end has been said before."""
        return self.storage.read(f"{_folder(table)}/{_END}.json") is not None

    def end(self, table: str) -> None:
        """Say once that no more rows of the table will come."""
        if not self.has_ended(table):
            self.lift(table, END_OF_INPUT_MS, _END)

    @property
    def clock_has_ended(self) -> bool:
        return self.storage.read(f"{_CLOCK}/{_END}.json") is not None

    def end_clock(self) -> None:
        """Say once that processing time has come to its end."""
        if not self.clock_has_ended:
            self.tick(END_OF_INPUT_MS, _END)


def _folder(table: str) -> str:
    return f"control/{as_segment(table)}"
