"""Windows of the plan as assigners of kernels; what they compute per row becomes columns of the input."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.lowering.columnar.inputs import END, START, Inputs
from sqlstream.planner.lowering.columnar.user_classes import user_class
from sqlstream.planner.windows import Cumulate, GlobalWindow, Hop, Session, Tumble, UserWindow, Window
from sqlstream.udfs import assigners
from sqlstream.udfs.kernel import Domain


def assigner_of(window: Window | None, time: str | None, domain: Domain, inputs: Inputs) -> assigners.Assigner:
    """``window`` None: the rows carry the bounds, in START and END. ``time``: the column of the rows' times."""
    match window:
        case None:
            return assigners.GivenWindows(START, END, domain)
        case Tumble():
            return assigners.Tumble(time, _us(window.size_ms), _us(window.offset_ms), window.zone, domain)
        case Hop():
            slide, size = _us(window.slide_ms), _us(window.size_ms)
            return assigners.Hop(time, slide, size, _us(window.offset_ms), window.zone, domain)
        case Cumulate():
            step, size = _us(window.step_ms), _us(window.size_ms)
            return assigners.Cumulate(time, step, size, _us(window.offset_ms), window.zone, domain)
        case Session():
            return assigners.Session(time, _gap(window.gap_ms, inputs), domain)
        case GlobalWindow():
            return assigners.Global(domain)
        case UserWindow(call=call):
            user = user_class(call, inputs.rows, inputs)
            return assigners.User(user.name, user.implementation, user.arguments, user.columns, time, domain)
    raise UnsupportedError("SS396", f"windows of the kind {type(window).__name__} are not executed")


def _us(ms: int) -> int:
    return ms * 1000


def _gap(gap: int | exp.Expression, inputs: Inputs) -> int | str:
    if isinstance(gap, int):
        return _us(gap)
    return inputs.add(exp.Mul(this=exp.Paren(this=gap.copy()), expression=exp.Literal.number(1000)), "BIGINT")
