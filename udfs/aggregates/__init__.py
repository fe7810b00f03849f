"""Aggregate functions over Arrow columns: lifted into accumulators, merged, finished; for many groups at once."""

from sqlstream.udfs.aggregates.accumulator import AggregateCall, Ordering
from sqlstream.udfs.aggregates.aggregates import Aggregates
from sqlstream.udfs.aggregates.registry import supports

__all__ = ["AggregateCall", "Aggregates", "Ordering", "supports"]
