"""The outcome of a lookup for a row: an answer, or what ON TIMEOUT and ON ERROR say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlstream.errors import ExecutionError
from sqlstream.udfs.lookup.answers import shown
from sqlstream.udfs.lookup.metrics import DEFERRED, ERRORS, TIMEOUTS
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout
from sqlstream.udfs.lookup.source import Key, LookupSource, Row

TIMED_OUT = "SS433"
FAILED = "SS432"


class LookupOutcome(NamedTuple):
    """``rows``: the answer, empty for a miss; None where there is none. ``failure`` ends the job.

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
