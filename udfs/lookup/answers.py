"""Answers of lookup sources as Arrow lists of structs, the check that they fit, and the outcome of a lookup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError
from sqlstream.udfs.lookup.metrics import DEFERRED, ERRORS, TIMEOUTS
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout
from sqlstream.udfs.lookup.source import Key, LookupSource, Request, Row

MOST_TEXT = 200
"""The maximum number of characters of a value in a message."""


class WrongAnswer(Exception):
    """A source returned an answer that does not fit its columns."""


class AnswerShape:
    """The Arrow type of the answers to a request: LIST<STRUCT<columns>>."""

    def __init__(self, request: Request) -> None:
        self._columns = request.columns
        self._struct = pa.struct([(name, kind.to_arrow()) for name, kind in request.columns])
        self._fields = list(self._struct)
        self._plain = [_PLAIN.get(kind.name, _never) for _, kind in request.columns]
        self.type = pa.list_(self._struct)

    def lists(self, answers: Sequence[Sequence[Row] | None]) -> pa.ListArray:
        """One list per answer; NULL for None."""
        row_lists = [rows or () for rows in answers]
        offsets = np.zeros(len(row_lists) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, row_lists), np.int32, len(row_lists)), out=offsets[1:])
        structs = self._structs(list(chain.from_iterable(row_lists)))
        mask = pa.array([rows is None for rows in answers]) if None in answers else None
        return pa.ListArray.from_arrays(pa.array(offsets), structs, type=self.type, mask=mask)

    def checked(self, keys: int, returned: Sequence[Sequence[Row]]) -> list[Sequence[Row] | Exception]:
        """The answer for each key, or an exception that describes what is wrong with it. Raises WrongAnswer if the
        number of answers is not that of the keys."""
        try:
            answers = [list(rows) for rows in returned]
        except TypeError:
            raise WrongAnswer(f"an answer must be a list of rows for each key, not {shown(returned)}") from None
        if len(answers) != keys:
            raise WrongAnswer(f"{keys} keys got {len(answers)} answers")
        if self._defect([row for rows in answers for row in rows]) is None:
            return list(answers)
        return [self._judged(rows) for rows in answers]

    def _judged(self, rows: Sequence[Row]) -> Sequence[Row] | Exception:
        defect = self._defect(rows)
        return rows if defect is None else WrongAnswer(defect)

    def _structs(self, rows: Sequence[Row]) -> pa.StructArray:
        if not rows or not self._fields:
            return pa.array([{}] * len(rows), self._struct)
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._fields, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=self._fields)

    def _defect(self, rows: Sequence[Row]) -> str | None:
        """A description of the first wrong row: its length, or a value that is not of its column's type."""
        if all(map(self._is_plain, rows)):
            return None
        try:
            self._structs(rows)
        except _REFUSED:
            width = len(self._fields)
            for row in rows:
                if not _has_width(row, width):
                    return f"a row must have {width} values, not {shown(row)}"
            return next((text for row in rows if (text := self._wrong_value(row))), "Arrow does not take its rows")
        return None

    def _is_plain(self, row: object) -> bool:
        """True where the Python types of a row guarantee that it fits. The full check by Arrow takes longer than many a
        request."""
        if type(row) is not tuple or len(row) != len(self._plain):
            return False
        return all(value is None or fits(value) for value, fits in zip(row, self._plain, strict=True))

    def _wrong_value(self, row: Row) -> str | None:
        for value, (name, kind), field in zip(row, self._columns, self._fields, strict=True):
            try:
                pa.array([value], field.type)
            except _REFUSED:
                return f'column "{name}" is {kind} and got {shown(value)}'
        return None


def _has_width(row: object, width: int) -> bool:
    return isinstance(row, Sequence) and len(row) == width


def _never(value: object) -> bool:
    return False


def _integer(bits: int) -> Callable[[object], bool]:
    bound = 1 << (bits - 1)
    return lambda value: type(value) is int and -bound <= value < bound


_PLAIN: dict[str, Callable[[object], bool]] = {
    "BOOLEAN": lambda value: type(value) is bool,
    "INT": _integer(32),
    "BIGINT": _integer(64),
    "DOUBLE": lambda value: type(value) is float,
    "STRING": lambda value: type(value) is str and value.isascii(),  # others may be no text in UTF-8
}
"""Which Python values are surely of a type."""

_REFUSED = (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError)


def shown(value: object) -> str:
    """A value as text for a message."""
    text = repr(value)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"


# --- outcomes: an answer, or what ON TIMEOUT and ON ERROR specify ---------------------------------------------


TIMED_OUT = "SS433"
FAILED = "SS432"


class LookupOutcome(NamedTuple):
    """The outcome of a lookup for a row. ``rows``: the answer, empty for a miss, None for no answer. ``error``: the
    text for ON ERROR TO. ``deferred``: the row waits in state. ``failure``: the error that ends the job.

    ``counted``: the metrics that count the row.
    """

    rows: Sequence[Row] | None
    error: str | None = None
    deferred: bool = False
    failure: ExecutionError | None = None
    counted: tuple[str, ...] = ()


NOT_ASKED = LookupOutcome(())
PASSES_BY = LookupOutcome(None)


def of_timeout(source: LookupSource, key: Key, options: LookupOptions) -> LookupOutcome:
    """The outcome of a row whose TIMEOUT has passed, as ON TIMEOUT specifies."""
    match options.on_timeout:
        case OnTimeout.NULL:
            return LookupOutcome((), counted=(TIMEOUTS,))
        case OnTimeout.DEFER:
            return LookupOutcome(None, deferred=True, counted=(TIMEOUTS, DEFERRED))
    message = f'the lookup in "{source.name}" for {_spelled(source, key)} got no answer in {options.timeout_ms} ms'
    hint = (
        "Give it more time with TIMEOUT, or say what happens then: ON TIMEOUT NULL answers nothing, "
        "ON TIMEOUT DEFER asks on."
    )
    return LookupOutcome(None, failure=ExecutionError(TIMED_OUT, message, hint=hint), counted=(TIMEOUTS,))


def of_error(source: LookupSource, key: Key, options: LookupOptions, error: BaseException) -> LookupOutcome:
    """The outcome of a row whose lookup failed, as ON ERROR specifies."""
    cause = str(error).strip() or type(error).__name__
    match options.on_error:
        case OnError.NULL:
            return LookupOutcome((), counted=(ERRORS,))
        case OnError.TO:
            return LookupOutcome(None, error=cause, counted=(ERRORS,))
    message = f'the lookup in "{source.name}" for {_spelled(source, key)} failed: {_one_line(cause)}'
    hint = (
        "RETRY ON ERROR tries again; ON ERROR NULL answers nothing, ON ERROR TO sends such rows to a table, "
        "and the job goes on."
    )
    return LookupOutcome(None, failure=ExecutionError(FAILED, message, hint=hint), counted=(ERRORS,))


def _spelled(source: LookupSource, key: Key) -> str:
    names = (name for name, _ in source.request.keys)
    return ", ".join(f"{name} = {shown(value)}" for name, value in zip(names, key, strict=True))


def _one_line(text: str) -> str:
    """Messages travel through Spark as one line of text."""
    return " ".join(text.split())
