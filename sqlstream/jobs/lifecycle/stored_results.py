"""Results with Spark Connect, where Python of this process cannot see micro-batches: through Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from sqlstream.jobs.lifecycle.results import ResultQueue, with_kind_first

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FILE = "__file"


class StoredResults(ResultQueue):
    """``location`` is a folder that the server writes and reads; its file sink shows whole micro-batches only."""

    def __init__(self, names: tuple[str, ...], spark: SparkSession, location: str) -> None:
        super().__init__(names)
        self._spark = spark
        self._location = location
        self._seen: list[str] = []

    def sink(self, rows: DataFrame) -> DataStreamWriter:
        rows = with_kind_first(rows)
        plain = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))  # Parquet does not take every name
        return plain.writeStream.format("parquet").option("path", self._location)

    def on_progress(self, last_batch: int) -> None:
        """Fetch the files that have not been fetched."""
        from pyspark.sql import functions as F

        try:
            rows = self._spark.read.parquet(self._location)
            with_file = rows.select("*", F.col("_metadata.file_name").alias(_FILE))
            new_rows = with_file.where(~F.col(_FILE).isin(self._seen)).toArrow()
        except AnalysisException:
            return  # nothing has been written yet, which Connect finds out when it is asked for the rows
        self._seen += set(new_rows.column(_FILE).to_pylist())
        self.put(new_rows.drop_columns([_FILE]))
