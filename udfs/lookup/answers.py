"""Answers of lookup sources as Arrow lists of structs, the check that they fit, the outcome of a lookup, and the batch
of rows that waits for outcomes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError
from sqlstream.udfs.columnar import python_values
from sqlstream.udfs.exchange import LATE_TABLE
from sqlstream.udfs.keys import Ids, dense_ids
from sqlstream.udfs.lookup.metrics import DEFERRED, ERRORS, TIMEOUTS
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout
from sqlstream.udfs.lookup.source import Key, LookupSource, Request, Row

MOST_TEXT = 200
"""The maximum number of characters of a value in a message."""


class WrongAnswer(Exception):
    """Raised for an answer of a lookup source that does not fit its declared columns."""


class AnswerShape:
    """The Arrow type of a lookup's answers: LIST<STRUCT<columns>>, one list of rows per key."""

    def __init__(self, request: Request) -> None:
        self._columns = request.columns
        self._struct = pa.struct([(name, kind.to_arrow()) for name, kind in request.columns])
        self._fields = list(self._struct)
        self._plain = [_PLAIN.get(kind.name, _never) for _, kind in request.columns]
        self.type = pa.list_(self._struct)

    def lists(self, answers: Sequence[Sequence[Row] | None]) -> pa.ListArray:
        """The answers as an Arrow array with one list of rows per answer; NULL for None."""
        row_lists = [rows or () for rows in answers]
        offsets = np.zeros(len(row_lists) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, row_lists), np.int32, len(row_lists)), out=offsets[1:])
        structs = self._structs(list(chain.from_iterable(row_lists)))
        mask = pa.array([rows is None for rows in answers]) if None in answers else None
        return pa.ListArray.from_arrays(pa.array(offsets), structs, type=self.type, mask=mask)

    def checked(self, keys: int, returned: Sequence[Sequence[Row]]) -> list[Sequence[Row] | Exception]:
        """The ``returned`` answers, one per key, if they are well-formed. Raises WrongAnswer, which describes the
        mistake, if their number is not ``keys`` or a row does not fit.
        """
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
    """A value as text for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"


# --- outcomes: an answer, or what ON TIMEOUT and ON ERROR specify ---------------------------------------------


TIMED_OUT = "SS433"
FAILED = "SS432"


class LookupOutcome(NamedTuple):
    """The result of a lookup for one key. ``rows``: the rows found, empty for a miss, None without an answer.
    ``error``: the error's message, where ON ERROR TO sends the row to a table. ``deferred``: the row waits in the state
    of a kernel (ON TIMEOUT DEFER). ``failure``: the error that ends the job. ``counted``: the names of the metrics in
    which the row counts.
    """

    rows: Sequence[Row] | None
    error: str | None = None
    deferred: bool = False
    failure: ExecutionError | None = None
    counted: tuple[str, ...] = ()


NOT_ASKED = LookupOutcome(())
PASSES_BY = LookupOutcome(None)


def of_timeout(source: LookupSource, key: Key, options: LookupOptions) -> LookupOutcome:
    """The outcome for a row whose TIMEOUT has passed without an answer, as the clause ON TIMEOUT specifies."""
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
    """The outcome for a row whose lookup failed, as the clause ON ERROR specifies."""
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


# --- a batch of rows: keys to ask for, answers that have arrived, rows to emit --------------------------------
# Python loops over distinct keys, never over rows.


Identity = Callable[[Key], Hashable]
RowSelection = slice | np.ndarray
"""Positions in a batch, ascending."""


class LookupKeys:
    """The distinct keys of one lookup in one batch of rows, with their outcomes.

    ``ids``: for each row the index of its key (int64); ``len(keys)`` for a key with NULL, and ``len(keys) + 1`` for a
    row that bypasses the lookup.
    """

    def __init__(
        self, table: pa.Table, columns: Sequence[str], late: np.ndarray | None, identity: Identity | None
    ) -> None:
        asked = _asked(table, columns, late)
        some = table if asked is None else table.filter(pa.array(asked))
        key_ids = dense_ids(some, columns)
        distinct = some.take(pa.array(key_ids.first)) if key_ids.count < some.num_rows else some
        values = [python_values(distinct.column(name)) for name in columns]
        self.keys: list[Key] = list(zip(*values, strict=True))
        self.identities: Sequence[Hashable] = self.keys if identity is None else list(map(identity, self.keys))
        self.outcomes: list[LookupOutcome | None] = [*[None] * key_ids.count, NOT_ASKED, PASSES_BY]
        self.ids = key_ids.ids if asked is None else _with_gaps(key_ids, asked, late)
        self._sizes: np.ndarray | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each key, as an array."""
        if self._sizes is None:
            self._sizes = np.bincount(self.ids, minlength=len(self.outcomes))
        return self._sizes

    @property
    def unknown(self) -> np.ndarray:
        """One boolean per key: true if its outcome has not arrived yet."""
        return np.fromiter((outcome is None for outcome in self.outcomes), np.bool_, len(self.outcomes))

    @property
    def asked(self) -> int:
        """The number of rows whose key is requested from the source: those without NULL in the key that do not bypass
        the lookup.
        """
        return int(self.sizes[: len(self.keys)].sum())

    def of(self, rows: RowSelection) -> tuple[list[LookupOutcome], np.ndarray]:
        """Returns a pair for the rows with the given indices: their distinct outcomes, and an array with the index of
        each row's outcome among these.
        """
        ids = self.ids[rows]
        if 8 * len(ids) < len(self.outcomes):
            numbers, places = np.unique(ids, return_inverse=True)
        else:
            there = np.zeros(len(self.outcomes), np.bool_)
            there[ids] = True
            numbers, places = np.flatnonzero(there), (np.cumsum(there) - 1)[ids]
        outcomes = cast(Sequence[LookupOutcome], self.outcomes)  # rows leave once all their outcomes are known
        return [outcomes[number] for number in numbers.tolist()], places


def _asked(table: pa.Table, columns: Sequence[str], late: np.ndarray | None) -> np.ndarray | None:
    """Which rows ask; None for all."""
    valid = [np.asarray(pc.is_valid(c)) for name in columns if (c := table.column(name)).null_count]
    if late is not None:
        valid.append(~late)
    return np.logical_and.reduce(valid) if valid else None


def _with_gaps(key_ids: Ids, asked: np.ndarray, late: np.ndarray | None) -> np.ndarray:
    ids = np.full(len(asked), key_ids.count)
    ids[asked] = key_ids.ids
    if late is not None:
        ids[late] = key_ids.count + 1
    return ids


class LookupLayout(NamedTuple):
    """What a batch of rows needs to know about one lookup: its key columns, the type of its answers, the function that
    makes keys hashable (``identity``), and whether the lookup adds the columns for errors and for deferred rows.
    """

    columns: Sequence[str]
    shape: AnswerShape
    identity: Identity | None
    has_error_column: bool
    has_deferred_column: bool


class LookupBatch:
    """A batch of rows that waits for the answers of all its lookups.

    Rows with the same keys in all lookups are a group; ``groups`` has the index of each row's group, numbered by first
    appearance. ``left``: in ORDERED mode, the number of rows that have been emitted.
    """

    def __init__(self, number: int, batch: pa.RecordBatch, lookups: Sequence[LookupLayout]) -> None:
        self.number = number
        self.rows = batch
        self.left = 0
        table = pa.Table.from_batches([batch])
        late = _late(batch)
        self.steps = [LookupKeys(table, asked.columns, late, asked.identity) for asked in lookups]
        self._lookups = lookups
        self.groups = _groups([step.ids for step in self.steps])
        self._order: np.ndarray | None = None

    def numbers(self, group: int) -> list[int]:
        """Returns the indices of the keys of a group (rows with the same keys in all lookups): one index per lookup,
        into its ``LookupKeys.outcomes``.
        """
        row = self.groups.first[group]
        return [int(step.ids[row]) for step in self.steps]

    def undone(self) -> np.ndarray:
        """The indices of the groups (rows with the same keys in all lookups) that still wait for an answer, as an
        array.
        """
        waits = np.zeros(self.groups.count, np.bool_)
        for step in self.steps:
            waits |= step.unknown[step.ids[self.groups.first]]
        return np.flatnonzero(waits)

    def rows_of(self, groups: np.ndarray) -> np.ndarray:
        """The indices, in ascending order, of the rows that belong to the groups with the indices ``groups``. A group
        is the rows with the same keys in all lookups.
        """
        if 8 * len(groups) > self.groups.count:
            wanted = np.zeros(self.groups.count, np.bool_)
            wanted[groups] = True
            return np.flatnonzero(wanted[self.groups.ids])
        if self._order is None:
            self._order = np.argsort(self.groups.ids, kind="stable")
            self._ends = np.cumsum(np.bincount(self.groups.ids, minlength=self.groups.count))
        starts, ends = np.concatenate(([0], self._ends))[groups], self._ends[groups]
        parts = [self._order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def leaving(self, rows: RowSelection, schema: pa.Schema) -> pa.RecordBatch:
        """The output rows for the input rows with the given indices: their columns and the answers, in the output
        ``schema``.
        """
        if isinstance(rows, slice):
            columns_of_rows = self.rows.slice(rows.start, rows.stop - rows.start)
        else:
            columns_of_rows = self.rows.take(pa.array(rows))
        columns = list(columns_of_rows.columns)
        for step, asked in zip(self.steps, self._lookups, strict=True):
            outcomes, places = step.of(rows)
            row_indices = pa.array(places)
            columns.append(asked.shape.lists([outcome.rows for outcome in outcomes]).take(row_indices))
            if asked.has_error_column:
                columns.append(pa.array([outcome.error for outcome in outcomes], pa.string()).take(row_indices))
            if asked.has_deferred_column:
                columns.append(pa.array([outcome.deferred for outcome in outcomes], pa.bool_()).take(row_indices))
        columns.append(pa.nulls(columns_of_rows.num_rows, schema.field(len(schema) - 1).type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _late(batch: pa.RecordBatch) -> np.ndarray | None:
    """The late rows on their way; None where there are none."""
    if LATE_TABLE not in batch.schema.names:
        return None
    column = batch.column(LATE_TABLE)
    return np.asarray(pc.is_valid(column)) if column.null_count < len(column) else None


def _groups(ids: Sequence[np.ndarray]) -> Ids:
    names = [str(number) for number in range(len(ids))]
    return dense_ids(pa.table([pa.array(of_step) for of_step in ids], names=names), names)
