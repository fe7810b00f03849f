"""TO_CHANGELOG and FROM_CHANGELOG: the hidden column with the kinds of rows becomes a field, or is made of one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.catalog import RowKind
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import aligned, hidden_names, passes_by
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.operators.changelogs import FromChangelog, ToChangelog
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.kernel import ROW_KIND


@lower_node.register
def _(node: ToChangelog, step: Step, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    kind = column(ROW_KIND) if ROW_KIND in rows.columns else F.lit(RowKind.INSERT.value)
    code = F.lit(None).cast("string")
    for row_kind, text in node.codes:
        code = F.when(kind.eqNullSafe(F.lit(row_kind.value)), F.lit(text)).otherwise(code)
    passing = passes_by(rows)
    code = code if passing is None else F.when(~passing, code)
    kept = rows.withColumn(node.op, code).where(_either(column(node.op).isNotNull(), passing))
    hidden = [column(name) for name in hidden_names(rows) if name != ROW_KIND]
    return kept.select(*(column(f.name) for f in node.schema), *hidden)


@lower_node.register
def _(node: FromChangelog, step: Step, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    passing = passes_by(rows)
    kind = F.lit(None).cast("string")
    for row_kind, text in node.codes:
        kind = F.when(column(node.op).eqNullSafe(F.lit(text)), F.lit(row_kind.value)).otherwise(kind)
    if not node.skips:
        kind = F.coalesce(kind, F.raise_error(_unknown(node)).cast("string"))
    kind = kind if passing is None else F.when(~passing, kind)
    changed = rows.withColumn(ROW_KIND, kind)
    if node.skips:
        changed = changed.where(_either(column(ROW_KIND).isNotNull(), passing))
    fields = (column(f.name) for f in node.schema)
    return changed.select(*fields, *aligned(changed, {*hidden_names(rows), ROW_KIND}))


def _unknown(node: FromChangelog) -> Column:
    codes = ", ".join(sorted({text for _, text in node.codes}))
    code = F.coalesce(column(node.op), F.lit("NULL"))
    return F.concat(F.lit('FROM_CHANGELOG does not know the operation "'), code, F.lit(f'"; it knows {codes}'))


def _either(condition: Column, passing: Column | None) -> Column:
    return condition if passing is None else condition | passing
