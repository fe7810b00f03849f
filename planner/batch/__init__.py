"""Queries over finished data as one query of Spark SQL: which ones they are, and how they are spelled there.

Nothing here needs Spark. ``sqlstream.batch`` makes the tables known to Spark and runs the query.
"""

from sqlstream.planner.batch.decision import Way, chosen_way
from sqlstream.planner.batch.spark_text import Input, Resolved, SparkText, conditions_of, resolve, spark_text
from sqlstream.planner.batch.stream_gaps import WITH_SAME_NAMES, stream_gaps

__all__ = [
    "WITH_SAME_NAMES",
    "Input",
    "Resolved",
    "SparkText",
    "Way",
    "chosen_way",
    "conditions_of",
    "resolve",
    "spark_text",
    "stream_gaps",
]
