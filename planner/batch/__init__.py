"""Queries over finished data as one query of Spark SQL: which ones they are, and how they are spelled there.

Nothing here needs Spark. ``sqlstream.batch`` makes the tables known to Spark and runs the query.
"""

from sqlstream.planner.batch.decision import BatchDecision, chosen_way
from sqlstream.planner.batch.spark_text import Input, Resolved, SparkText, conditions_of, resolve, spark_text
from sqlstream.planner.batch.stream_gaps import refused_by_streams_alone, stream_gaps

__all__ = [
    "BatchDecision",
    "Input",
    "Resolved",
    "SparkText",
    "chosen_way",
    "conditions_of",
    "refused_by_streams_alone",
    "resolve",
    "spark_text",
    "stream_gaps",
]
