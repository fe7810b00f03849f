"""Aggregate functions over Arrow columns, for many groups at once: rows are lifted into accumulators, these are merged,
and finished into results."""

from sqlstream.udfs.aggregates.accumulator import AggregateCall, Ordering
from sqlstream.udfs.aggregates.aggregates import Aggregates
from sqlstream.udfs.aggregates.registry import supports

__all__ = ["AggregateCall", "Aggregates", "Ordering", "supports"]
