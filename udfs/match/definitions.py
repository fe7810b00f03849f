"""The line of rows that patterns are matched on, and DEFINE: conditions split by what they read, their operands and
registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import And, Column, Expression
from sqlstream.udfs.match.automaton import Automaton

# --- the rows of some keys in the order of matching, and how they were mapped ---------------------------------


Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NO_ROW = -1


@dataclass(frozen=True)
class RowsByKey:
    """The rows that one call of the kernel matches, sorted by key, then by ORDER BY.

    The rows of a key have the indices ``[begin, stop)`` in ``table``. ``[begin, next)`` were mapped to variables in
    earlier calls, ``[next, ready)`` are mapped now, and ``[ready, stop)`` later, when the rows after them are known.
    ``time`` is the time of each row in microseconds.
    """

    table: pa.Table
    time: Times
    begin: Indices
    next: Indices
    ready: Indices
    stop: Indices

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def key(self) -> Indices:
        """For each row the index of its key, from 0."""
        return np.repeat(np.arange(len(self.begin)), self.stop - self.begin)

    def shifted(self, rows: Indices, shift: int) -> Indices:
        """For each row index of ``rows`` the index of the row ``shift`` rows later of the same key; NO_ROW if there is
        none.
        """
        if shift == 0:
            return rows
        to, key = rows + shift, self.key[rows]
        is_there = (rows != NO_ROW) & (to >= self.begin[key]) & (to < self.stop[key])
        return np.where(is_there, to, NO_ROW)

    def values(self, column: str, rows: Indices, absent: str | None = None) -> pa.Array:
        """The column's values in the rows with these indices, as an array. For NO_ROW the value is NULL or, with
        ``absent``, the value of the column of that name, which is the same in all rows.
        """
        values = self.column(column)
        missing = rows == NO_ROW
        if not missing.any():
            return values.take(pa.array(rows))
        values_there = values.take(pa.array(rows, mask=missing))
        if absent is None or not len(self):
            return values_there
        return pc.if_else(pa.array(missing), self.column(absent)[0], values_there)

    def column(self, name: str) -> pa.Array:
        """The column ``name`` of the table in one chunk."""
        if name not in self._columns:
            column = self.table.column(name)
            self._columns[name] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, pa.Array]:
        """The columns that were read so far: conditions read them for each row of a match."""
        return {}


# --- mappings of rows as a tree: open matches share their common beginning ------------------------------------


ROOT = -1


class PathTree:
    """Stores to which pattern variables the rows of partial matches were mapped. A path is the sequence of an
    automaton's places (see ``Automaton``), one for each row of a match.

    Paths with a common beginning share it, so together they are a tree. A node is the place of one row with a link to
    the node of the row before it; ROOT is the node before the first row.
    """

    def __init__(self) -> None:
        self._parents: list[Indices] = []
        self._places: list[Indices] = []
        self._count = 0

    def add(self, parent: Indices, place: Indices) -> Indices:
        """Extends paths by one row each: for every i, adds a node after the node ``parent[i]`` for a row at
        ``place[i]``, the automaton's position in the pattern. Returns the indices of the new nodes.
        """
        self._parents.append(parent)
        self._places.append(place)
        self._count += len(parent)
        return np.arange(self._count - len(parent), self._count)

    def repeat(self, parent: Indices, place: Indices, count: Indices) -> Indices:
        """Extends each path by ``count`` rows, all at its ``place``. Returns the nodes of the paths' last rows."""
        first, ends = self._count, np.cumsum(count)
        parents = np.arange(first - 1, first - 1 + int(count.sum()))
        parents[ends - count] = parent
        self.add(parents, np.repeat(place, count))
        return first + ends - 1

    def add_paths(self, places: Indices, lengths: Indices) -> Indices:
        """Adds whole paths of partial matches. ``places``: the automaton's place (see ``Automaton``) of each of their
        rows, path after path; ``lengths``: how many rows each path has. Returns, for each path, the node of its last
        row.
        """
        node = np.arange(self._count, self._count + len(places))
        parent = node - 1
        ends = np.cumsum(lengths)
        parent[ends - lengths] = ROOT
        self.add(parent, places)
        return node[ends - 1]

    def paths(self, node: Indices, lengths: Indices) -> Indices:
        """The places (the automaton's positions in the pattern) of the rows on the paths that end in these nodes, all
        paths one after the other. ``lengths`` is the number of rows of each path.
        """
        parents, places = (np.concatenate([np.zeros(0, np.int64), *part]) for part in (self._parents, self._places))
        path = np.empty(int(lengths.sum()), np.int64)
        at, begin = np.cumsum(lengths) - 1, np.cumsum(lengths) - lengths
        while len(at):
            path[at] = places[node]
            further = at > begin
            node, at, begin = parents[node[further]], at[further] - 1, begin[further]
        return path


@dataclass(frozen=True)
class Definition:
    """The condition of one variable in DEFINE. Each column in the ``condition`` stands for the operand of that name in
    ``Definitions.operands``: a value of the row, of a neighbour, or of rows mapped earlier.
    """

    variable: str
    condition: Expression


@dataclass(frozen=True)
class Definitions:
    """The conditions of all variables in DEFINE. A variable without a condition accepts every row.

    They are divided by what they read: only the row and its neighbours, or also rows mapped earlier in the match.
    """

    automaton: Automaton
    definitions: tuple[Definition, ...]
    operands: tuple[Operand, ...]
    input: pa.Schema

    def of_rows(self, ordered: RowsByKey) -> Flags:
        """Evaluates the conditions that read only the row and its neighbours. Returns a boolean matrix by variable and
        row: whether the row may be mapped to the variable.
        """
        fits = np.ones((len(self.automaton.names), len(ordered)), np.bool_)
        rows = np.arange(len(ordered))
        read = {column.name for conditions in self._of_rows.values() for c in conditions for column in c.columns}
        columns = {
            Column(operand.name): ordered.values(operand.column, ordered.shifted(rows, operand.shift), operand.absent)
            for operand in self.operands
            if isinstance(operand, Current) and operand.name in read
        }
        for variable, conditions in self._of_rows.items():
            for condition in conditions:
                fits[self.automaton.names.index(variable)] &= is_true(condition, columns)
        return fits

    @cached_property
    def of_matches(self) -> dict[str, Expression]:
        """The conditions that read rows mapped earlier in the match, by variable. They are evaluated for each partial
        match.
        """
        conjuncts = {name: tuple(c for c in all_of if not self._is_of_rows(c)) for name, all_of in self._conjuncts}
        return {name: conditions[0] if len(conditions) == 1 else And(conditions)
                for name, conditions in conjuncts.items() if conditions}  # fmt: skip

    @cached_property
    def _of_rows(self) -> dict[str, list[Expression]]:
        return {name: [c for c in conjuncts if self._is_of_rows(c)] for name, conjuncts in self._conjuncts}

    @cached_property
    def _conjuncts(self) -> list[tuple[str, tuple[Expression, ...]]]:
        used = (d for d in self.definitions if d.variable in self.automaton.names)
        return [(d.variable, tuple(_conjuncts(d.condition))) for d in used]

    def _is_of_rows(self, condition: Expression) -> bool:
        return all(isinstance(self._by_name[column.name], Current) for column in condition.columns)

    @cached_property
    def _by_name(self) -> dict[str, Operand]:
        return {operand.name: operand for operand in self.operands}

    @cached_property
    def reads(self) -> dict[str, dict[Column, Operand]]:
        """What the conditions ``of_matches`` read: for each variable a dictionary from a column in its condition to the
        operand, such as LAST(A.price), for which the column stands.
        """
        return {
            variable: {c: self._by_name[c.name] for c in sorted(condition.columns, key=lambda c: c.name)}
            for variable, condition in self.of_matches.items()
        }

    @cached_property
    def registers(self) -> Registers:
        """The layout of the registers: what each partial match remembers of its rows, because later conditions will
        read it.
        """
        return Registers(self.automaton, [o for read in self.reads.values() for o in read.values()])

    @cached_property
    def reads_start(self) -> bool:
        """True if some condition reads all rows of the match from the first one on."""
        operands = (o for read in self.reads.values() for o in read.values())
        return any(
            not isinstance(o, Current) and o.variable is None and (isinstance(o, Aggregated) or not o.last or o.offset)
            for o in operands
        )

    @cached_property
    def is_read(self) -> Flags:
        """A boolean matrix by place (position in the pattern) and variable: true if the condition of a row after the
        place may read rows that were mapped to the variable.
        """
        names = self.automaton.names
        reads = np.zeros((len(names), len(names)), np.bool_)
        for variable, read in self.reads.items():
            for operand in read.values():
                if not isinstance(operand, Current) and operand.variable in names:
                    reads[names.index(variable), names.index(operand.variable)] = True
        return np.asarray(self.automaton.reachable @ reads)

    @cached_property
    def repeats(self) -> Flags:
        """For each place (position in the pattern), and last for the start, whether rows that are mapped to it change
        nothing that conditions read: it may follow itself, and no condition reads its variable in other rows.
        """
        operands = [o for read in self.reads.values() for o in read.values() if not isinstance(o, Current)]
        read = {o.variable for o in operands if o.variable is not None or isinstance(o, Aggregated)}
        places = enumerate(zip(self.automaton.variables, self.automaton.follow, strict=True))
        repeats = (place in after and read.isdisjoint((name, None)) for place, (name, after) in places)
        return np.array([*repeats, False], np.bool_)

    @cached_property
    def aggregates(self) -> dict[str | None, Aggregates]:
        """The aggregates that conditions contain, as a dictionary by the variable over whose rows they are computed;
        None is for all rows of the match.
        """
        operands = [o for read in self.reads.values() for o in read.values() if isinstance(o, Aggregated)]
        return aggregates_of(operands, self.input)


def aggregates_of(operands: Iterable[Aggregated], rows: pa.Schema) -> dict[str | None, Aggregates]:
    """The aggregate calls among ``operands``, as a dictionary by the variable over whose rows they are computed; the
    key None is for all rows of the match. ``rows`` is the schema of the rows.
    """
    by_variable: dict[str | None, dict[str, Aggregated]] = {}
    for operand in operands:
        by_variable.setdefault(operand.variable, {})[operand.name] = operand
    return {v: Aggregates(tuple(o.call for o in own.values()), rows) for v, own in by_variable.items()}


def _conjuncts(condition: Expression) -> Iterable[Expression]:
    if not isinstance(condition, And):
        return [condition]
    return [conjunct for part in condition.conditions for conjunct in _conjuncts(part)]


# --- operands of conditions and measures ----------------------------------------------------------------------
# They read the rows of the open match so far, including the one that is being mapped; measures read all rows of the
# match. ``variable`` None means all of its rows.


@dataclass(frozen=True)
class Current:
    """What a condition reads: the column's value in the row that is being mapped or, with ``shift``, that many rows
    after it (negative: before it), among all rows of the key. If there is no such row, it is the value of the column
    ``absent``, or NULL.
    """

    name: str
    column: str
    shift: int = 0
    absent: str | None = None


@dataclass(frozen=True)
class Mapped:
    """What a condition or measure reads by FIRST or LAST: the value of ``column`` in the first or ``last`` row of the
    ``variable`` (None: of the match) or, with ``offset``, that many rows of the variable after the first or before the
    last.

    With ``shift`` the value is read that many rows of the key after that row (negative: before it); if there is none,
    it is that of the column ``absent``, or NULL. ``running``: only rows up to the current one count.
    """

    name: str
    column: str
    variable: str | None
    last: bool = True
    offset: int = 0
    shift: int = 0
    absent: str | None = None
    running: bool = True


@dataclass(frozen=True)
class Aggregated:
    """What a condition or measure reads: an aggregate over the rows of a variable, or of the whole match."""

    call: AggregateCall
    variable: str | None
    running: bool = True

    @property
    def name(self) -> str:
        """The name of the result column."""
        return self.call.name


@dataclass(frozen=True)
class Classifier:
    """A measure: CLASSIFIER(), the name of the variable to which the row was mapped."""

    name: str
    running: bool = True


@dataclass(frozen=True)
class MatchNumber:
    """A measure: MATCH_NUMBER(), the number of the match among those of its key, from 1."""

    name: str


Operand = Current | Mapped | Aggregated
Measure = Mapped | Aggregated | Classifier | MatchNumber


def field_of(measure: Measure, rows: pa.Schema) -> pa.Field:
    """The result column of a measure over rows of this schema."""
    match measure:
        case Mapped():
            return pa.field(measure.name, rows.field(measure.column).type)
        case Aggregated():
            return pa.field(measure.name, measure.call.result)
        case Classifier():
            return pa.field(measure.name, pa.string())
        case MatchNumber():
            return pa.field(measure.name, pa.int64())


def columns_of(read: Operand | Measure) -> tuple[str, ...]:
    """The names of the input columns that an operand or a measure reads."""
    match read:
        case Current() | Mapped():
            return (read.column, *([read.absent] if read.absent else []))
        case Aggregated():
            call = read.call
            ordered = (ordering.column for ordering in call.order)
            return (*call.arguments, *ordered, *([call.filter] if call.filter else []))
    return ()


# --- registers: the mapped rows that conditions on later rows read --------------------------------------------
# For each variable that conditions read in other rows: its last and its first rows, as many as are read, and a number
# that identifies the set of its rows if aggregates are read. A register is a row of an array,
# a partial match is a column.


_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class _Slots:
    """The rows of the registers that are about one variable: of its last rows, of its first, and of their set."""

    variable: int
    last: range
    first: range
    set: range

    @property
    def all(self) -> range:
        return range(self.last.start, self.set.stop)


class Registers:
    """The layout of the registers of partial matches: int64 values, mostly the indices of mapped rows, that conditions
    on later rows will need. ``operands`` are the values that these conditions read.
    """

    def __init__(self, automaton: Automaton, operands: Iterable[Operand]) -> None:
        lasts: dict[str, int] = {}
        firsts: dict[str, int] = {}
        sets: dict[str, int] = {}
        for operand in operands:
            if isinstance(operand, Current) or operand.variable is None:
                continue
            of_kind = sets if isinstance(operand, Aggregated) else lasts if operand.last else firsts
            count = operand.offset + 1 if isinstance(operand, Mapped) else 1
            of_kind[operand.variable] = max(of_kind.get(operand.variable, 0), count)
        self._slots: dict[str, _Slots] = {}
        self.count = 0
        for name in automaton.names:
            if name in lasts or name in firsts or name in sets:
                self._slots[name] = self._added(automaton.names.index(name), lasts, firsts, sets, name)

    def _added(
        self, number: int, lasts: dict[str, int], firsts: dict[str, int], sets: dict[str, int], name: str
    ) -> _Slots:
        bounds = [self.count]
        for counts in (lasts, firsts, sets):
            bounds.append(bounds[-1] + counts.get(name, 0))
        self.count = bounds[-1]
        last, first, of_set = (range(*bounds[i : i + 2]) for i in range(3))
        return _Slots(number, last, first, of_set)

    def empty(self, count: int) -> Indices:
        """The registers of ``count`` matches that have no rows yet: a matrix with one row per register and one column
        per match.
        """
        return np.full((self.count, count), NO_ROW, np.int64)

    def row_of(self, read: Mapped, values: Indices, mapped_to: str, row: Indices, start: Indices) -> Indices:
        """For each match, the index of the row that ``read`` refers to, while ``row`` is about to be mapped to the
        variable ``mapped_to``; NO_ROW if there is none. ``values`` are the registers, ``start`` is the first row of
        each match. The shift of ``read`` is not applied.
        """
        if read.variable is None:
            wanted = row - read.offset if read.last else start + read.offset
            return np.where((wanted >= start) & (wanted <= row), wanted, NO_ROW)
        own, slots = read.variable == mapped_to, self._slots[read.variable]
        if read.last:
            if own and read.offset == 0:
                return row
            return np.asarray(values[slots.last[read.offset - own]])
        stored = values[slots.first[read.offset]]
        if not own:
            return np.asarray(stored)
        is_next = stored == NO_ROW
        if read.offset:
            is_next &= values[slots.first[read.offset - 1]] != NO_ROW
        return np.where(is_next, row, stored)

    def mapped(self, values: Indices, variable: Indices, row: Indices) -> Indices:
        """Updates the registers ``values`` in place, and returns them. Each column is a partial match, to which the row
        of that index in ``row`` was added; ``variable`` is the index of the variable to which this row was mapped.
        """
        for slots in self._slots.values():
            chosen = np.flatnonzero(variable == slots.variable)
            if not len(chosen):
                continue
            for slot in reversed(slots.last[1:]):
                values[slot, chosen] = values[slot - 1, chosen]
            if slots.last:
                values[slots.last[0], chosen] = row[chosen]
            for slot in reversed(slots.first):
                is_next = values[slot, chosen] == NO_ROW
                if slot > slots.first[0]:
                    is_next &= values[slot - 1, chosen] != NO_ROW
                values[slot, chosen[is_next]] = row[chosen[is_next]]
            for slot in slots.set:
                values[slot, chosen] = _mixed(values[slot, chosen], row[chosen])
        return values

    def forget(self, values: Indices, place: Indices, is_read: np.ndarray) -> None:
        """Clears registers that no later condition will read: ``place`` is the automaton's place (position in the
        pattern) of each partial match, ``is_read`` that of ``Definitions``. Partial matches that differ in nothing else
        become equal and can be joined.
        """
        for slots in self._slots.values():
            unread = ~is_read[place, slots.variable]
            if unread.any():
                values[slots.all.start : slots.all.stop, unread] = NO_ROW

    @property
    def rows(self) -> list[int]:
        """The indices of the registers that hold indices of rows, which must be changed when rows are numbered anew.
        The other registers hold a hash of a set of rows.
        """
        return [slot for slots in self._slots.values() for slot in (*slots.last, *slots.first)]


def _mixed(of_set: Indices, row: Indices) -> Indices:
    with np.errstate(over="ignore"):
        mixed = (of_set.astype(np.uint64) ^ row.astype(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed.astype(np.int64)


def register_numbers(values: Indices) -> Indices:
    """Numbers partial matches by their registers: one integer for each column of ``values``, the same for equal
    columns.
    """
    numbers = np.zeros(values.shape[1], np.int64)
    for register in values:
        numbers = _mixed(numbers, register)
    return numbers
