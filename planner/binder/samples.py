"""TABLESAMPLE (n PERCENT) on a stream: each row is taken or not, whatever others are."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.nodes import Filter


def sampled(sample: exp.Expr, scope: Scope, context: Context) -> Scope:
    """UnsupportedError SS332 for a number of rows, buckets, REPEATABLE, and rows that are withdrawn.

    Spark draws other numbers in each micro-batch, whatever the seed: only over finished data a sample comes again.
    """
    percent = sample.args.get("percent")
    if percent is None or sample.args.get("seed") is not None or scope.node.changelog_mode != APPEND_ONLY:
        raise unsupported.refusal("sample", span_of(sample))
    refuse_rest(sample, ("percent",), context)
    random = exp.Anonymous(this="RAND", expressions=[])
    share = exp.Div(this=percent.copy(), expression=exp.Literal.number(100), typed=False, safe=False)
    condition = exp.LT(this=random, expression=share)
    return scope.over(Filter(scope.node, bind_condition(condition, scope, context, ClauseContext("TABLESAMPLE"))))
