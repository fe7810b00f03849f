"""Queries over finished data as one query of Spark SQL: chosen, run, written into tables, explained.

``planner.batch`` says which queries they are and how Spark reads them. Importing this package loads no PySpark.
"""

from sqlstream.batch.choosing import Batch, chosen, only_as_batch, set_of_streams

__all__ = ["Batch", "chosen", "only_as_batch", "set_of_streams"]
