"""The statement that is proposed: columns, an event time with its watermark, and the options of the connector."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlstream.grammar import format_script
from sqlstream.grammar.quoting import quote_name
from sqlstream.inferring.types import InferredColumn, digits_of_epochs, disorder
from sqlstream.types import DataType

NO_SAMPLE = "SS590"
_DELAYS = {5: "'5' SECOND", 10: "'10' SECOND", 30: "'30' SECOND", 60: "'1' MINUTE", 300: "'5' MINUTE",
           900: "'15' MINUTE", 3600: "'1' HOUR"}  # fmt: skip
"""Delays of watermarks by their seconds."""
_DAY = "'1' DAY"
_OF_EVENTS = re.compile(r"(?i:(^|_)(event|occurred|created|time|timestamp|ts|at|date)($|_)|timestamp$)|(Time|At|Date)$")
_TIME = "event_time"


@dataclass(frozen=True)
class Sample:
    """What was seen of a source: its columns and the options that read it.

    ``more``: columns as SQL that are no fields of the rows, such as keys. ``has_times``: messages have a time of their
    own. ``notes``: what a reader should look at. ``seen``: how many rows or messages there were, in words.
    """

    columns: Sequence[InferredColumn]
    options: Mapping[str, str]
    seen: str
    more: tuple[str, ...] = ()
    has_times: bool = False
    notes: tuple[str, ...] = field(default=())


def proposed(name: str, sample: Sample) -> str:
    """The CREATE TABLE statement of a sample, formatted, after comments that say what it is made of."""
    elements = [f"{quote_name(column.name)} {column.type.ddl()}" for column in sample.columns]
    time, watermark, note = _event_time(sample)
    elements += [*sample.more, *time, *([watermark] if watermark else [])]
    options = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in sample.options.items())
    statement = f"CREATE TABLE {quote_name(name)} ({', '.join(elements)}) WITH ({options})"
    comments = [f"-- Proposed from {sample.seen}; look at names and types before you rely on them."]
    comments += [f"-- {text}" for text in (*sample.notes, *([note] if note else []))]
    return "\n".join([*comments, format_script(statement).rstrip().rstrip(";") + ";", ""])


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _event_time(sample: Sample) -> tuple[list[str], str | None, str | None]:
    """Columns to add for the event time, the watermark, and a note; none where nothing is a time."""
    stored = [c for c in sample.columns if c.type == DataType("TIMESTAMP") and not c.nullable]
    if stored:
        best = next((c for c in stored if _OF_EVENTS.search(c.name)), stored[0])
        delay, note = _delay(best)
        name = quote_name(best.name)
        return [], f"WATERMARK FOR {name} AS {name} - INTERVAL {delay}", note
    added = _free(_TIME, sample)
    for column in sample.columns:
        digits = digits_of_epochs(column) if _OF_EVENTS.search(column.name) else None
        if digits is not None:
            computed = f"{added} AS TO_TIMESTAMP_LTZ({quote_name(column.name)}, {digits})"
            unit = "milliseconds" if digits else "seconds"
            note = f'"{column.name}" is taken for {unit} since 1970; the delay of the watermark is a guess.'
            return [computed], f"WATERMARK FOR {added} AS {added} - INTERVAL '5' SECOND", note
    if sample.has_times:
        note = "No column is an event time without NULL, so the time of the message is; its delay is a guess."
        stamped = f"{added} TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
        return [stamped], f"WATERMARK FOR {added} AS {added} - INTERVAL '5' SECOND", note
    return [], None, "No column is an event time without NULL: windows need one, and WATERMARK FOR … AS …."


def _free(name: str, sample: Sample) -> str:
    taken = {column.name.casefold() for column in sample.columns}
    while name in taken:
        name = f"{name}_"
    return name


def _delay(column: InferredColumn) -> tuple[str, str]:
    if not column.values:
        return _DELAYS[5], "The delay of the watermark is a guess: how late may rows come?"
    late = disorder(column)
    seconds = next((seconds for seconds in _DELAYS if late <= timedelta(seconds=seconds)), None)
    what = f"came up to {late.total_seconds():g} s late" if late else "came in order"
    note = f'What was seen {what} by "{column.name}"; the delay of the watermark follows from that.'
    return _DAY if seconds is None else _DELAYS[seconds], note
