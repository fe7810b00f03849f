"""What only a grouped SELECT can say: window_start, TUMBLE_START(…), Spark's window.start, GROUPING(…)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.binder.calls import PANES, SPARK_WINDOWS, WINDOW_PROPERTIES
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind
from sqlstream.planner.binder.grouping import GroupedWindow, bind_property_window, bind_spark_window
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.naming import field_of
from sqlstream.planner.windows import Session, WindowColumns


@dataclass(frozen=True)
class GroupNames:
    """Answers for columns and calls outside of aggregates before the scope does; None where it does not know.

    ``scope`` is that below the window, where time columns are time attributes still.
    """

    scope: Scope
    columns: WindowColumns
    grouped: GroupedWindow | None
    keys: tuple[exp.Expr, ...]
    grouping_id: str | None
    panes: tuple[str, str] | None
    context: Context

    def column(self, column: exp.Column) -> exp.Expr | None:
        """``window_start`` of a window clause, ``window`` and ``window.start`` of Spark's."""
        if self.grouped is None:
            return None
        name, table = column.name.lower(), column.table.lower()
        if self.grouped.spark and table in SPARK_WINDOWS and name in ("start", "end"):
            return field_of(self.columns.start if name == "start" else self.columns.end)
        if table:
            return None
        if self.grouped.spark and name == self._spark_name:
            return self._struct()
        by_name = {"window_start": self.columns.start, "window_end": self.columns.end, "window_time": self.columns.time}
        return field_of(by_name[name]) if name in by_name else None

    def call(self, call: exp.Expr) -> exp.Expr | None:
        """The field behind TUMBLE_START(…), GROUPING(…) and the like."""
        name = spark_name(call)
        if name in WINDOW_PROPERTIES:
            return self._property(call, name)
        if name in SPARK_WINDOWS and self.grouped is not None:
            self._check_same(call, bind_spark_window(call, self.scope, self.context))
            return self._struct()
        if name == "window_time" and self.grouped is not None and self.grouped.spark:
            return field_of(self.columns.time)
        if name in ("grouping", "grouping_id"):
            return self._grouping(call, name)
        return self._pane(call, name) if name in PANES else None

    def _pane(self, call: exp.Expr, name: str) -> exp.Expr | None:
        """None, and so an error of the call itself, where there is no window."""
        if self.panes is None:
            return None
        if call.expressions:
            raise bind_error("SS207", f"{name} takes no arguments", call)
        return field_of(self.panes[name == "window_pane_index"])

    @property
    def _spark_name(self) -> str:
        assert self.grouped is not None
        return "session_window" if isinstance(self.grouped.window, Session) else "window"

    def _struct(self) -> exp.Expr:
        text = exp.Literal.string
        start, end = field_of(self.columns.start), field_of(self.columns.end)
        return exp.Anonymous(this="named_struct", expressions=[text("start"), start, text("end"), end])

    def _property(self, call: exp.Expr, name: str) -> exp.Expr | None:
        """None, and so an error of the call itself, where there is no window clause."""
        kind, _, property_name = name.partition("_")
        if self.grouped is None:
            return None
        self._check_same(call, bind_property_window(kind.upper(), call, self.scope, self.context))
        columns = self.columns
        return field_of({"start": columns.start, "end": columns.end}.get(property_name, columns.time))

    def _check_same(self, call: exp.Expr, window: GroupedWindow) -> None:
        assert self.grouped is not None
        if (window.window, window.time) != (self.grouped.window, self.grouped.time):
            message = f"{(spark_name(call) or '').upper()} speaks of another window than GROUP BY"
            raise bind_error(
                "SS221", message, call, "Repeat the arguments of GROUP BY, or use window_start and window_end."
            )

    def _grouping(self, call: exp.Expr, name: str) -> exp.Expr:
        """Bits of the grouping id: 1 where a key is not part of the row's grouping set; the last key is bit 0."""
        if self.grouping_id is None:
            hint = "Use it with GROUPING SETS, CUBE or ROLLUP."
            raise bind_error("SS221", f"{name.upper()} needs grouping sets", call, hint)
        if name == "grouping_id" and not call.expressions:
            return field_of(self.grouping_id)
        if name == "grouping" and len(call.expressions) != 1:
            raise bind_error("SS207", f"GROUPING takes 1 argument, not {len(call.expressions)}", call)
        bits = [self._bit(argument, name) for argument in call.expressions]
        if name == "grouping":
            return exp.Cast(this=bits[0], to=exp.DataType.build("TINYINT", dialect="spark"))
        if bits == [self._bit_at(i) for i in range(len(self.keys))]:
            return field_of(self.grouping_id)
        total = bits[0]
        for bit in bits[1:]:
            doubled = exp.Mul(this=exp.paren(total, copy=False), expression=exp.Literal.number(2))
            total = exp.Add(this=doubled, expression=bit)
        return exp.Cast(this=total, to=exp.DataType.build("BIGINT", dialect="spark"))

    def _bit(self, argument: exp.Expr, name: str) -> exp.Expr:
        bound = bind(argument, self.scope, self.context, ClauseContext(name.upper()))
        if bound not in self.keys:
            raise bind_error("SS208", f"{name.upper()} needs a key of GROUP BY", argument)
        return self._bit_at(self.keys.index(bound))

    def _bit_at(self, position: int) -> exp.Expr:
        assert self.grouping_id is not None
        shift = len(self.keys) - 1 - position
        shifted = exp.Anonymous(this="shiftright", expressions=[field_of(self.grouping_id), exp.Literal.number(shift)])
        return exp.Mod(this=shifted, expression=exp.Literal.number(2))
