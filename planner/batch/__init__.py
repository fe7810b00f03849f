"""Queries over finished data as one query of Spark SQL: which ones they are, and how they are spelled there.

Nothing here needs Spark. ``sqlstream.batch`` makes the tables known to Spark and runs the query.
"""

from sqlstream.planner.batch.decision import Way, batch_features, chosen_way
from sqlstream.planner.batch.inputs import Input, Resolved, conditions_of, resolve
from sqlstream.planner.batch.spark_text import SparkText, spark_text

__all__ = [
    "Input",
    "Resolved",
    "SparkText",
    "Way",
    "batch_features",
    "chosen_way",
    "conditions_of",
    "resolve",
    "spark_text",
]
