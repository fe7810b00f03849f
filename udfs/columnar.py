"""Python functions over Arrow arrays, the form in which Spark's workers call them.

This module travels to the workers by value, so that they need no installed sqlstream; it imports nothing of ours.
"""

from __future__ import annotations

import dataclasses
import reprlib
import traceback
import typing
from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import repeating
from sqlstream.udfs.texts import python_list

FUNCTION_FAILED = "SS411"
WRONG_RESULT = repeating("SS412")

_DETAIL = "\nDETAIL: "

Columnar = Callable[..., pa.Array]


class FunctionError(RuntimeError):
    """A user's function failed. The message starts with an error code of sqlstream, such as SS411."""


def by_row(name: str, function: Callable[..., object], returns: pa.DataType, arity: int) -> Columnar:
    """Makes a function over Arrow arrays that calls the user's function once per row. ``arity``: the number of its
    arguments. A function without arguments gets one array all the same, which only tells the number of rows.
    """
    return partial(_call_rows, name, function, returns, arity)


def by_batch(name: str, function: Callable[..., object], returns: pa.DataType) -> Columnar:
    """Makes a function over Arrow arrays that calls the user's vectorised function once per batch. It gets pandas
    Series where its annotations say so, else Arrow arrays.
    """
    return partial(_call_batch, name, function, returns, _wants_pandas(function))


def tolerant(columnar: Columnar, returns: pa.DataType) -> Columnar:
    """Wraps a function over Arrow arrays so that rows for which it fails do not fail the query. The result of a row is
    a STRUCT of the value, the error message, and the location of the error in user code.

    The first argument is an array that is true for rows to skip. Rows are called one by one only in batches that fail.
    """
    return partial(_call_tolerant, columnar, returns)


def unless(columnar: Columnar, returns: pa.DataType) -> Columnar:
    """Wraps a function over Arrow arrays so that it is not called for some rows. The first argument is an array that is
    true for these rows; their result is NULL.
    """
    return partial(_call_unless, columnar, returns)


def _call_unless(columnar: Columnar, returns: pa.DataType, skipped: pa.Array, *columns: pa.Array) -> pa.Array:
    wanted = _wanted(skipped)
    if wanted.true_count == 0:
        return pa.nulls(len(skipped), returns)
    given = [column.filter(wanted) for column in columns] or [skipped.filter(wanted)]
    return columnar(*given).take(_places(wanted))


def _wanted(skipped: pa.Array) -> pa.Array:
    return pc.invert(pc.fill_null(skipped, False))


def _places(wanted: pa.Array) -> pa.Array:
    """For each row the position of its result, where results exist only for the wanted rows; NULL for the others."""
    numbers = pc.subtract(pc.cumulative_sum(wanted.cast(pa.int64())), 1)
    return pc.if_else(wanted, numbers, pa.scalar(None, pa.int64()))


def _call_tolerant(columnar: Columnar, returns: pa.DataType, skipped: pa.Array, *columns: pa.Array) -> pa.Array:
    wanted = _wanted(skipped)
    given = [column.filter(wanted) for column in columns] or [skipped.filter(wanted)]
    count = len(given[0])
    try:
        values, errors, places = columnar(*given), pa.nulls(count, pa.string()), pa.nulls(count, pa.string())
    except Exception:
        attempts = [_attempt(columnar, returns, [column.slice(i, 1) for column in given]) for i in range(count)]
        values = pa.concat_arrays([value for value, _, _ in attempts])
        errors = pa.array([error for _, error, _ in attempts], pa.string())
        places = pa.array([line for _, _, line in attempts], pa.string())
    results = pa.StructArray.from_arrays([values, errors, places], ["value", "error", "place"])
    return results.take(_places(wanted))


def _attempt(columnar: Columnar, returns: pa.DataType, row: list[pa.Array]) -> tuple[pa.Array, str | None, str | None]:
    """The value of one row, what it fails with, and the line that raised it."""
    try:
        return columnar(*row), None, None
    except Exception as error:
        line = place_of(error.__cause__ or error)
        text = str(error) if isinstance(error, FunctionError) else f"{FUNCTION_FAILED}: {_said(error)}"
        return pa.nulls(1, returns), text.partition(_DETAIL)[0], line


def place_of(error: BaseException) -> str | None:
    """Where in the user's code an exception was raised: the last line of it in the traceback, as ``file:line in
    function``. None if no user code was running.
    """
    line = _line_of(error)
    return None if line is None else f"{line.filename}:{line.lineno} in {line.name}"


def see_line(error: BaseException) -> str:
    """A sentence that names the failing line of user code, to append to a message; empty if no user code was
    running.
    """
    line = _line_of(error)
    return "" if line is None else f' See line {line.lineno} of "{line.filename}".'


def _line_of(error: BaseException) -> traceback.FrameSummary | None:
    """The last line in the file of the user's function, which is directly above our own frames in the traceback."""
    ours = Path(called.__code__.co_filename).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not Path(f.filename).is_relative_to(ours)]
    return next((f for f in reversed(frames) if f.filename == frames[0].filename), None)


def by_group(name: str, kind: Callable[[], typing.Any], returns: pa.DataType) -> Columnar:
    """Makes a function over Arrow arrays that computes the user's aggregate, of the class ``kind``, once per group. Its
    argument has a list per group: the arguments of the group's rows, as STRUCTs.
    """
    return partial(_aggregate_groups, name, kind, returns)


def by_row_to_rows(
    name: str, function: Callable[..., Iterable[object] | None], row: pa.DataType, arity: int
) -> Columnar:
    """Makes a table function over Arrow arrays that calls the user's function once per row: each input row yields an
    array of result rows.
    """
    single = row.num_fields == 1

    def rows(*arguments: object) -> list[object] | None:
        returned = function(*arguments)
        return None if returned is None else [_member(r, row) if single else r for r in returned]

    return partial(_call_rows, name, rows, pa.list_(row), arity)


def _call_rows(
    name: str, function: Callable[..., object], returns: pa.DataType, arity: int, *columns: pa.Array
) -> pa.Array:
    rows = zip(*(python_values(c) for c in columns), strict=True)
    return arrow_array(name, [called(name, function, row[:arity]) for row in rows], returns)


def _call_batch(
    name: str,
    function: Callable[..., object],
    returns: pa.DataType,
    pandas: bool,
    *columns: pa.Array,
) -> pa.Array:
    result = called(name, function, [c.to_pandas() if pandas else c for c in columns])
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        return arrow_array(name, result, returns)
    return result if result.type == returns else result.cast(returns)


def _aggregate_groups(name: str, kind: Callable[[], typing.Any], returns: pa.DataType, groups: pa.Array) -> pa.Array:
    aggregate = kind()
    results = [_aggregated(name, aggregate, rows) for rows in python_values(groups)]
    return arrow_array(name, results, returns)


def _aggregated(name: str, aggregate: typing.Any, rows: typing.Any) -> object:
    state = called(name, aggregate.create, ())
    for row in rows:
        arguments = row.values() if isinstance(row, dict) else ()
        changed = called(name, aggregate.accumulate, (state, *arguments))
        state = state if changed is None else changed
    return called(name, aggregate.finish, (state,))


def called(name: str, function: Callable[..., object], arguments: Sequence[object]) -> object:
    """Calls a user's function and returns its value. If it raises, FunctionError SS411 names the function and the
    line.
    """
    try:
        return function(*arguments)
    except Exception as error:
        detail = _call_of(name, function, arguments, error)
        message = f'{FUNCTION_FAILED}: function "{name}" failed: {_said(error)}'
        raise FunctionError(f"{message}{_DETAIL}{detail}") from error


def _said(error: Exception) -> str:
    """The error's text on one line, as diagnostics have it."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _call_of(name: str, function: Callable[..., object], arguments: Sequence[object], error: Exception) -> str:
    method = f".{getattr(function, '__name__', '')}" if getattr(function, "__self__", None) is not None else ""
    call = f"{name}{method}({', '.join(map(_shown, arguments))})"
    return f"The call was {call}.{see_line(error)}"


def _shown(value: object) -> str:
    """An argument, shortened; of a batch its length, of an object that shows nothing of itself its type."""
    if isinstance(value, Sized) and (isinstance(value, pa.Array) or hasattr(value, "iloc")):
        return f"<{len(value)} values>"
    texts = reprlib.Repr()
    texts.maxstring = texts.maxother = texts.maxlong = 60
    text = " ".join(texts.repr(value).split())
    return f"<{type(value).__name__}>" if " object at 0x" in text or " instance at 0x" in text else text


def _wants_pandas(function: Callable[..., object]) -> bool:
    texts = (str(a) for a in getattr(function, "__annotations__", {}).values())
    return any("Series" in text for text in texts)


# --- values ---------------------------------------------------------------------------------------------------


def python_values(column: pa.Array) -> list[object]:
    """A column as Python values, with maps as dicts. ConnectorError SS585 for a STRING that is not UTF-8."""
    values = python_list(column, "a value")
    return [_python(v, column.type) for v in values] if _has_map(column.type) else values


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(i).type) for i in range(kind.num_fields))


def _python(value: typing.Any, kind: pa.DataType) -> object:
    if value is None or not _has_map(kind):
        return value
    if pa.types.is_map(kind):
        return {k: _python(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        return {f.name: _python(value[f.name], f.type) for f in kind}
    return [_python(v, kind.value_type) for v in value]


def arrow_array(name: str, values: typing.Any, kind: pa.DataType) -> pa.Array:
    """The values that a user's function returned, as an Arrow array of type ``kind``. FunctionError SS412 where they do
    not fit.
    """
    try:
        return pa.array([arrow_value(v, kind) for v in values], kind)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise FunctionError(f'{WRONG_RESULT}: function "{name}" returned what is no {kind}: {error}') from error


def arrow_value(value: typing.Any, kind: pa.DataType) -> object:
    """A value in the form that Arrow accepts: structs as dicts, maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: arrow_value(v, f.type) for f, v in zip(kind, members(value, kind), strict=True)}
    if pa.types.is_map(kind):
        return [(k, arrow_value(v, kind.item_type)) for k, v in dict(value).items()]
    if pa.types.is_list(kind):
        return [arrow_value(v, kind.value_type) for v in value]
    return value


def members(value: typing.Any, struct: pa.DataType) -> list[object]:
    """The values of a struct's members as a list, in the order of the members in ``struct``. ``value`` is a dict or a
    dataclass, whose members are found by name, or a sequence in that order.
    """
    if isinstance(value, dict):
        return [value.get(f.name) for f in struct]
    if dataclasses.is_dataclass(value):
        return [getattr(value, f.name) for f in struct]
    return list(value)


def _member(row: object, struct: pa.DataType) -> object:
    """A row of one column, which table functions may yield bare."""
    bare = not isinstance(row, dict | tuple) and not dataclasses.is_dataclass(row)
    return {struct.field(0).name: row} if bare else row
