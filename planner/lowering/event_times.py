"""Checks of event times as SQL text: they must not be NULL or out of the range that kernels can compute."""

from __future__ import annotations

from sqlstream.errors import repeating
from sqlstream.planner.lowering.columns import micros, quoted, string
from sqlstream.planner.nodes import AssignTime
from sqlstream.udfs.event_times import EARLIEST, HINT, LATEST, OUT_OF_RANGE, out_of_range

NULL_EVENT_TIME = repeating("SS401")

_VALUE = "{value}"


def time_of(node: AssignTime) -> str:
    """The time attribute in messages."""
    return time_name(node.column, node.table)


def time_name(column: str, table: str) -> str:
    return f'event time "{column}" of table "{table}"'


def null_time(name: str) -> str:
    """The message of SS401."""
    return f"{name} is NULL"


def time_error(name: str, column: str) -> str:
    """SQL text: code and message for the time in a column; NULL where nothing is wrong with it."""
    return (
        f"CASE WHEN {quoted(column)} IS NULL THEN {_null(name)} WHEN {_beyond(column)} THEN {_range(name, column)} END"
    )


def required_time(name: str, column: str, failure: str, otherwise: str, passing: str | None = None) -> str:
    """SQL text: ``otherwise``, NULL for rows that are ``passing``, and for bad times ``failure``, in which ``{error}``
    stands for the call that fails with SS401 or SS430."""
    passes = f"WHEN {passing} THEN NULL " if passing else ""
    null = failure.format(error=f"raise_error({_null(name)})")
    hinted = f"CONCAT({_range(name, column)}, {string(chr(10) + 'HINT: ' + HINT)})"
    beyond = failure.format(error=f"raise_error({hinted})")
    return (
        f"CASE {passes}WHEN {quoted(column)} IS NULL THEN {null} WHEN {_beyond(column)} THEN {beyond} "
        f"ELSE {otherwise} END"
    )


def _null(name: str) -> str:
    return string(f"{NULL_EVENT_TIME}: {null_time(name)}")


def _beyond(column: str) -> str:
    return f"{micros(column)} NOT BETWEEN {EARLIEST}L AND {LATEST}L"


def _range(name: str, column: str) -> str:
    before, after = out_of_range(name, _VALUE).split(_VALUE)
    return f"CONCAT({string(f'{OUT_OF_RANGE}: {before}')}, {micros(column)}, {string(after)})"
