"""IGNORE NULLS and RESPECT NULLS of aggregates: where they may stand, and what holds where nothing is said."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.binder.context import Context
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.type_inference import call_arguments

TREATMENTS = (exp.IgnoreNulls, exp.RespectNulls)

_TAKERS = frozenset({
    "any_value", "array_agg", "collect_list", "collect_set", "first", "first_value", "last", "last_value",
})  # fmt: skip

# As in Flink, for the names that Flink has; FIRST, LAST and COLLECT_LIST do what they do in Spark.
DEFAULTS: dict[str | None, type[exp.Expression]] = {
    "array_agg": exp.RespectNulls,
    "first_value": exp.IgnoreNulls,
    "last_value": exp.IgnoreNulls,
}


def with_null_treatment(call: exp.Expr, context: Context) -> exp.Expr:
    """The bound aggregate with what it does with NULLs around all of it, where Spark reads it. SS207.

    It may have stood behind the argument or behind the parentheses. The default is written out, so that nothing below
    the binder needs to know it.
    """
    treatments = [node for node in call.walk() if isinstance(node, TREATMENTS)]
    name = spark_name(_function(call))
    if treatments and name not in _TAKERS:
        context.wrong("SS207", f'aggregate "{name}" takes neither IGNORE NULLS nor RESPECT NULLS', treatments[0], _HINT)
        return exp.Null()
    if len(treatments) > 1:
        context.wrong("SS207", f'"{name}" is told twice what to do with NULLs', treatments[1], "Remove one of the two.")
        return exp.Null()
    if treatments:
        return type(treatments[0])(this=_without(call, treatments[0]))
    default = DEFAULTS.get(name)
    return default(this=call) if default is not None and len(call_arguments(_function(call))) == 1 else call


_HINT = "FILTER (WHERE x IS NOT NULL) leaves rows out of any aggregate."


def _function(call: exp.Expr) -> exp.Expr:
    """The call without FILTER and its kin."""
    while isinstance(call, AGGREGATE_WRAPPERS):
        call = call.this
    return call


def _without(call: exp.Expr, treatment: exp.Expr) -> exp.Expr:
    if call is treatment:
        inner: exp.Expr = treatment.this
        return inner
    treatment.replace(treatment.this)
    return call
