"""Calls of functions of OVER that are no aggregates: their arguments, and what they say of NULLs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import kind_of
from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.expressions import NULL_TREATMENTS, is_whole_number
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.operators.over import NTH, NUMBERS, PLACES, SHIFTS

POSITIONAL = NUMBERS | SHIFTS | PLACES | {NTH}
WRONG_OVER = "SS239"
_NTILE = "ntile"
_MOST_DIGITS = 15

_NO_FOLLOWING = "In processing time no row knows what follows: order by the column named by WATERMARK FOR."
_NEVER_ALL = (
    "More rows always come, and each changes the results of all before: order by event time, or another column."
)


def name_of(call: exp.Expr) -> str:
    """The name of a call in lower case."""
    return spark_name(call) or type(call).__name__.lower()


def without_treatment(call: exp.Expr) -> tuple[exp.Expr, type[exp.Expr] | None]:
    """Splits a call into the call without IGNORE NULLS or RESPECT NULLS, and that clause's sqlglot class, None if it is
    not written. The clause may follow the call or one of its arguments.

    BindError SS207 where the call has two. Aggregates are unchanged.
    """
    inner = call.this if isinstance(call, NULL_TREATMENTS) else call
    if not isinstance(inner, exp.Anonymous) or name_of(inner) not in POSITIONAL:
        return call, None
    found = [node for node in dict.fromkeys((call, *inner.expressions)) if isinstance(node, NULL_TREATMENTS)]
    if not found:
        return call, None
    if len(found) > 1:
        message = f'"{name_of(inner)}" is told twice what to do with NULLs'
        raise bind_error("SS207", message, found[1], "Remove one of the two.")
    arguments = [e.this if isinstance(e, NULL_TREATMENTS) else e for e in inner.expressions]
    plain = exp.Anonymous(this=inner.this, expressions=[argument.copy() for argument in arguments])
    mark_as(plain, inner)
    return plain, type(found[0])


def with_treatment_behind(call: exp.Expr) -> exp.Expr:
    """The call with IGNORE NULLS or RESPECT NULLS after it, where Spark expects it; any other expression unchanged."""
    if isinstance(call, NULL_TREATMENTS):
        return call
    plain, treatment = without_treatment(call)
    return call if treatment is None else treatment(this=plain)


def with_treatment(bound: exp.Expression, treatment: type[exp.Expr] | None, at: exp.Expr) -> exp.Expression:
    """Returns the bound call, inside sqlglot's IgnoreNulls if IGNORE NULLS was written and changes its result.
    ``treatment`` is the class of the written clause, None without one. BindError SS239 for functions that count rows.
    """
    called = name_of(bound)
    if treatment is not None and called in NUMBERS | PLACES:
        message = f"{called.upper()} takes neither IGNORE NULLS nor RESPECT NULLS"
        raise bind_error(WRONG_OVER, message, at, "Leave it out: the function counts rows, not values.")
    own_value = called in SHIFTS and len(bound.expressions) > 1 and int(bound.expressions[1].name) == 0
    return exp.IgnoreNulls(this=bound) if treatment is exp.IgnoreNulls and not own_value else bound


def number_argument(called: str) -> int:
    """The position, from 0, of the argument of a window function that must be a constant number: the offset of LAG, the
    count of NTILE.
    """
    return 0 if called == _NTILE else 1


def check_positional(
    call: exp.Expr, called: str, arguments: Sequence[exp.Expr], spec: exp.Expr, domain: TimeDomain | None
) -> None:
    """Checks the bound arguments of a function that reads rows by position (LAG, NTH_VALUE, …), and that its OVER
    clause suits it. ``spec`` is that clause, ``domain`` the time domain of its order. Mistakes raise BindError SS239,
    SS245.
    """
    wrong = _wrong_count(called, len(arguments)) or _wrong_number(called, arguments)
    if wrong is not None:
        raise bind_error(WRONG_OVER, wrong, call)
    if called in PLACES and spec.args.get("order") is None:
        hint = "Write ORDER BY into the parentheses of OVER."
        raise bind_error(WRONG_OVER, f"{called.upper()} needs an order of rows", call, hint)
    if called != NTH and spec.args.get("spec") is not None:
        raise bind_error(WRONG_OVER, f"{called.upper()} takes no frame", call, "Leave ROWS or RANGE out.")
    if called == "lead" and domain is TimeDomain.PROCESSING:
        raise needs_event_time("LEAD", call)


def _wrong_count(called: str, count: int) -> str | None:
    if called == _NTILE:
        return None if count == 1 else "NTILE takes the number of buckets"
    if called in NUMBERS | PLACES:
        return f"{called.upper()} takes no argument" if count else None
    if called == NTH:
        return None if count == 2 else "NTH_VALUE takes a value and a number"
    good = 1 <= count <= 3
    return None if good else f"{called.upper()} takes a value, an offset and a default, of which the value is needed"


def _wrong_number(called: str, arguments: Sequence[exp.Expr]) -> str | None:
    position = number_argument(called)
    if len(arguments) <= position:
        return None
    number = arguments[position]
    what = "the number of buckets of NTILE" if called == _NTILE else f"the second argument of {called.upper()}"
    if not is_whole_number(number):
        return f"{what} must be a whole number, written as such"
    require_few(number, what)
    if int(number.name) == 0 and called == _NTILE:
        return "NTILE needs one bucket at least"
    return "NTH_VALUE counts rows from 1 on" if int(number.name) == 0 and called == NTH else None


def require_few(value: exp.Expr, what: str) -> None:
    """Raises BindError SS245 if a number does not fit int64, in which kernels compute. ``what`` names it in the
    message.
    """
    if len(value.name.lstrip("0")) > _MOST_DIGITS:
        raise bind_error("SS245", f"{what} has more than {_MOST_DIGITS} digits", value, "Write a number below 10^15.")


def needs_event_time(what: str, at: exp.Expr) -> SqlStreamError:
    """Returns the error for a function or frame (``what``) that reads following rows, although rows are ordered by
    processing time.
    """
    return bind_error(WRONG_OVER, f"{what} needs an order of event time", at, _NO_FOLLOWING)


def needs_all_rows(what: str, at: exp.Expr) -> SqlStreamError:
    """Returns the error for a function (``what``) that reads all rows of a partition, although rows are ordered by
    processing time.
    """
    return bind_error(WRONG_OVER, f"{what} needs another order than that of processing time", at, _NEVER_ALL)


def not_over(call: exp.Expr, called: str) -> SqlStreamError:
    """Returns the error for a call that OVER does not support: SS304 for a window function of Spark, SS239 for any
    other function.
    """
    if kind_of(called) is BuiltinKind.WINDOW:
        return unsupported.refusal("over function", span_of(call), f"It is {called.upper()}.")
    hint = "Write an aggregate, ROW_NUMBER, RANK, DENSE_RANK, NTILE, PERCENT_RANK, CUME_DIST, LAG, LEAD or NTH_VALUE."
    return bind_error(WRONG_OVER, f'"{called}" is no function over a frame', call, hint)
