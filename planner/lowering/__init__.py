"""Plan to Spark: one lowering function per plan node (``functools.singledispatch``)."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from sqlstream.errors import BindError, UnsupportedError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering import aggregate, correlate, project, scan, union  # noqa: F401 - fill the registry
from sqlstream.planner.lowering.lower import Context, stateful_domains
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.nodes import Node

__all__ = ["Runtime", "lower"]


def lower(plan: Node, runtime: Runtime) -> DataFrame:
    """The streaming DataFrame of a plan, with the fields of its schema (of the table, for an Insert) as columns.

    UnsupportedError SS39x for what Spark's native operators cannot run, BindError SS290 for what only Spark could
    tell to be wrong, such as a type that sqlglot does not infer.
    """
    domains = stateful_domains(plan)
    _check_one_clock(domains)
    try:
        return Context(runtime, domains).lower(plan)
    except (AnalysisException, ParseException) as error:
        raise BindError("SS290", f"Spark refuses the query: {_first_line(error)}") from error


def _check_one_clock(domains: frozenset[TimeDomain]) -> None:
    if TimeDomain.PROCESSING in domains and len(domains) > 1:
        raise UnsupportedError(
            "SS393",
            "windows on event time and on processing time in one query are not executed",
            hint="Write two queries, one per kind of time: Spark has one watermark per query.",
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
