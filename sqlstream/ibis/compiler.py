"""Expressions of Ibis as queries of the dialect: those that Spark has as Ibis writes them for Spark, windows as table
functions, and what Spark lacks and the dialect has. What the dialect lacks is listed, and refused by its name.
"""

from __future__ import annotations

from typing import Any

import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import sqlglot as sg
from ibis.backends.sql.compilers.base import FALSE, NULL, STAR, AggGen, FuncGen, SQLGlotCompiler
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from sqlstream.grammar.dialect import SqlStream
from sqlstream.ibis.datatypes import SqlStreamType
from sqlstream.ibis.values import Values

_EPOCHS = {"s": "timestamp_seconds", "ms": "timestamp_millis", "us": "timestamp_micros"}


class _Aggregates(AggGen):
    """Aggregates of the rows that meet a condition, as CASE: most leave NULL out."""

    def aggregate(self, compiler: Any, name: str, *args: Any, where: Any = None, order_by: Any = ()) -> Any:
        if where is not None:
            args = tuple(exp.Case(ifs=[exp.If(this=where, true=argument)]) for argument in args)
        return super().aggregate(compiler, name, *args, order_by=order_by)


class SqlStreamCompiler(Values):
    """Compiles Ibis's expressions to sqlglot's trees, which print as SQL of the dialect."""

    dialect = SqlStream
    type_mapper = SqlStreamType
    agg = _Aggregates()
    rewrites = SQLGlotCompiler.rewrites  # the dialect has OFFSET, for which Ibis's Spark numbers rows

    def __init__(self) -> None:
        super().__init__()
        # Our parser keeps functions as they were written, so that it does not know Ibis's names of them.
        self.f = FuncGen(dialect=Spark)

    def __sql_name__(self, op: Any) -> str:
        """The name by which the backend registers a function of Python (functions.py); Ibis's Spark has other ones."""
        name: str = SQLGlotCompiler.__sql_name__(self, op)
        return name

    # --- windows over a time attribute ---

    def visit_WindowAggregate(  # noqa: N802 - Ibis calls methods by the names of its operations
        self, op: Any, *, parent: Any, window_type: str, time_col: Any, groups: Any, metrics: Any, window_size: Any,
        window_slide: Any, window_offset: Any,
    ) -> Any:  # fmt: skip
        """``t.window_by(t.ts).tumble(…)`` and ``.hop(…)`` as TUMBLE and HOP, whose GROUP BY is by the window and the
        keys.
        """
        name = parent.alias_or_name
        arguments = [
            self.v[f"TABLE {_table_text(parent)}"],
            self.f.anon.descriptor(exp.column(time_col.this.copy())),
            *(interval for interval in (window_slide, window_size, window_offset) if interval is not None),
        ]
        windows = self.f.anon.table(self.f.anon[window_type](*arguments)).as_(name, quoted=True)
        bounds = [sg.column(bound, table=name, quoted=True) for bound in ("window_start", "window_end")]
        return (
            sg.select(*bounds, *self._cleanup_names(groups), *self._cleanup_names(metrics), copy=False)
            .from_(windows)
            .group_by(*bounds, *groups.values(), copy=False)
        )

    @staticmethod
    def _generate_groups(groups: Any) -> Any:
        """Keys by what they are: numbers of columns name no key of a stream."""
        return groups

    # --- joins ---

    def visit_JoinLink(self, op: Any, **kwargs: Any) -> Any:  # noqa: N802
        """A join as sqlglot has it; ``asof_join`` is the dialect's ASOF LEFT JOIN."""
        if op.how in ("any_inner", "any_left", "positional"):
            raise com.UnsupportedOperationError(
                f"sqlstream has no {op.how} join; take one row of each key by distinct(on=…)"
            )
        return SQLGlotCompiler.visit_JoinLink(self, op, **kwargs)

    # --- OVER ---

    @staticmethod
    def _minimize_spec(op: Any, spec: Any) -> Any:
        """Without an order all rows of a key are the frame, which the dialect does not let be written as ROWS."""
        return None if not op.order_by and op.start is None and op.end is None else spec

    def visit_WindowBoundary(self, op: Any, *, value: Any, preceding: bool) -> Any:  # noqa: N802
        """A bound of a frame; none away is the current row, also as an interval."""
        bound = op.value.arg if isinstance(op.value, ops.Cast) else op.value
        if isinstance(bound, ops.Literal) and bound.value == 0:
            return {"value": "CURRENT ROW", "side": None}
        return {"value": value, "side": "PRECEDING" if preceding else "FOLLOWING"}

    def visit_WindowFunction(self, op: Any, **kw: Any) -> Any:  # noqa: N802
        """A call with OVER. NTH_VALUE has a frame, which Ibis's Spark leaves out."""
        framed = isinstance(op.func, ops.NthValue)
        return (
            SQLGlotCompiler.visit_WindowFunction(self, op, **kw) if framed else super().visit_WindowFunction(op, **kw)
        )

    # --- literals and columns ---

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        """A value as a literal, where the dialect spells it in another way than sqlglot; else None."""
        if dtype.is_floating():
            return SQLGlotCompiler.visit_DefaultLiteral(self, op, value=value, dtype=dtype)
        if dtype.is_array() and not value:
            return self.cast(self.f.array(), dtype)
        if dtype.is_json():
            return exp.convert(str(value))
        if dtype.is_timestamp():
            return self.cast(value.isoformat(sep=" ", timespec="microseconds"), dtype)
        if dtype.is_time():
            return self.cast(value.isoformat(timespec="microseconds"), dtype)
        if dtype.is_date():
            return self.cast(value.isoformat(), dtype)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    def visit_Field(self, op: Any, *, rel: Any, name: str) -> Any:  # noqa: N802
        """A column. NaN is a value: Ibis's Spark may show it as NULL, by an option that the dialect has not."""
        return SQLGlotCompiler.visit_Field(self, op, rel=rel, name=name)

    # --- times ---

    def visit_Cast(self, op: Any, *, arg: Any, to: Any) -> Any:  # noqa: N802
        """CAST, where Ibis reads numbers as seconds since 1970, and times as microseconds."""
        from_ = op.arg.dtype
        if to.is_timestamp() and from_.is_numeric():
            return self.cast(self._of_epoch("s", arg), to)
        if from_.is_timestamp() and to.is_integer():
            return self.cast(self.f.anon.unix_micros(self.cast(arg, dt.Timestamp("UTC"))), to)
        return super().visit_Cast(op, arg=arg, to=to)

    def _of_epoch(self, unit: str, arg: Any) -> Any:
        return self.f.anon[_EPOCHS[unit]](arg)

    def visit_TimestampFromUNIX(self, op: Any, *, arg: Any, unit: Any) -> Any:  # noqa: N802
        """``as_timestamp`` of seconds, milliseconds and microseconds."""
        if op.arg.dtype.is_integer() and unit.short in ("s", "ms"):
            return self.cast(self.f.anon.to_timestamp_ltz(arg, exp.convert({"s": 0, "ms": 3}[unit.short])), op.dtype)
        if unit.short not in _EPOCHS:
            raise com.UnsupportedOperationError(f"sqlstream has times to microseconds, none from {unit.plural}")
        return self.cast(self._of_epoch(unit.short, arg), op.dtype)

    def visit_TimestampNow(self, op: Any) -> Any:  # noqa: N802
        """The time at which a row is computed, on the clock of the session."""
        return self.cast(self.f.anon.current_timestamp(), op.dtype)

    def visit_ExtractDayOfYear(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """The day of the year, from 1."""
        return self.f.anon.dayofyear(arg)

    def visit_IsInf(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """Whether a value is infinite; Ibis's Spark says it of none."""
        return self.f.abs(arg).eq(self.POS_INF) if op.arg.dtype.is_floating() else FALSE

    def visit_ExtractMicrosecond(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """The digits of a second behind its point, as an integer."""
        return self.cast(self.f.anon.date_format(arg, "SSSSSS"), op.dtype)

    # --- rows ---

    def visit_CountStar(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: N802
        """COUNT(*), of rows that meet a condition with FILTER, which is 0 and not NULL without such rows."""
        count = self.f.count(STAR)
        return _filtered(count, where)

    def visit_CountDistinctStar(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: N802
        """The rows that differ, also those with NULL, which COUNT(DISTINCT *) leaves out."""
        columns = [sg.column(name, table=arg.alias_or_name, quoted=self.quoted) for name in op.arg.schema]
        return _filtered(self.f.count(exp.Distinct(expressions=[self.f.anon.struct(*columns)])), where)

    def visit_Mean(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: N802
        """The mean; of decimals with the scale that Ibis promises."""
        mean = super().visit_Mean(op, arg=arg, where=where)
        return self.cast(mean, op.dtype) if op.arg.dtype.is_decimal() else mean

    def visit_Median(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: N802
        """The middle, of rows that meet a condition."""
        return self.f.percentile(arg if where is None else self.if_(where, arg, NULL), 0.5)

    def visit_First(self, op: Any, *, arg: Any, where: Any, order_by: Any, include_null: bool) -> Any:  # noqa: N802
        """FIRST and LAST, in an order or as rows arrive."""
        values = exp.Order(this=arg, expressions=order_by) if order_by else arg
        picked = self.f.anon[type(op).__name__.lower()](values)
        return _filtered(picked if include_null else exp.IgnoreNulls(this=picked), where)

    visit_Last = visit_First  # noqa: N815

    def visit_GroupConcat(self, op: Any, *, arg: Any, sep: Any, where: Any, order_by: Any) -> Any:  # noqa: N802
        """LISTAGG, in an order or as rows arrive."""
        joined = self.f.anon.listagg(arg, sep)
        if order_by:
            joined = exp.WithinGroup(this=joined, expression=exp.Order(expressions=order_by))
        return _filtered(joined, where)

    def visit_ArrayCollect(  # noqa: N802
        self, op: Any, *, arg: Any, where: Any, order_by: Any, include_null: bool, distinct: bool
    ) -> Any:
        """ARRAY_AGG, which keeps NULLs in this dialect, and leaves them out by its FILTER."""
        if not include_null:
            present = arg.is_(sg.not_(NULL, copy=False))
            where = present if where is None else sg.and_(where, present)
        values = exp.Distinct(expressions=[arg]) if distinct else arg
        ordered = exp.Order(this=values, expressions=order_by) if order_by else values
        collected = self.f.anon.array_agg(ordered)
        return _filtered(collected, where)


def _filtered(call: Any, where: Any) -> Any:
    return call if where is None else exp.Filter(this=call, expression=exp.Where(this=where))


def _table_text(parent: Any) -> str:
    """What stands behind TABLE: the name of a table, or a query in parentheses."""
    relation = parent.this if isinstance(parent, exp.Subquery | exp.Alias) else parent
    if isinstance(relation, exp.Table):
        named: exp.Table = relation.copy()
        named.set("alias", None)
        return named.sql(SqlStream)
    text = relation.sql(SqlStream)
    return text if isinstance(relation, exp.Identifier) else f"({text})"


compiler = SqlStreamCompiler()
