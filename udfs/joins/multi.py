"""Multi-way join: rows of several inputs with equal keys are joined in one step, and each input is stored once.

A chain of regular joins stores the results of each join as rows of the next one. Where all of them compare the same
keys, one key group has the rows of all inputs, and no result in between is needed. The semantics are those of the
chain, and of Flink's StreamingMultiJoinOperator for INNER joins. The changes of a micro-batch are combined as in a
regular join: retractions of results, then insertions.

What goes away because rows of input ``i`` are removed are their combinations with the unchanged rows of the inputs
before ``i`` and all old rows of those behind it, so that each result goes once; what comes, likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.joins.pairs import Indices, Side, blocks, in_order
from sqlstream.udfs.joins.stored_side import Changes, SideChange, SideState, StoredSide
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context, Kernel
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.windows.ranges import Ranges, expanded

_ADDS, _RETRACTS = "+I", "-D"


@dataclass(frozen=True)
class MultiJoinKernel(Kernel):
    """The kernel of an inner join of several ``sides`` on the same ``keys``, columns of all inputs, of equal types;
    NULL matches nothing.

    Results have the outputs of all sides in their order, then ROW_KIND if results are retracted.
    """

    sides: tuple[Side, ...]
    keys: tuple[str, ...]

    @cached_property
    def output(self) -> pa.Schema:
        outputs = [side.input.field(own).with_name(name) for side in self.sides for name, own in side.outputs]
        return pa.schema([*outputs, *([(ROW_KIND, pa.string())] if self.updates else [])])

    @property
    def updates(self) -> bool:
        """True if results may be retracted later, so that they have ROW_KIND."""
        return any(side.updates for side in self.sides)

    @property
    def ports(self) -> int:
        return len(self.sides)

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        never = (False,) * len(self.keys)
        changes = [kept.changes(rows.get(port), self.keys, never)[0] for port, kept in enumerate(self._kept)]
        stored = [
            StoredSide(kept, of_side, _needed(port, changes), context)
            for port, (kept, of_side) in enumerate(zip(self._kept, changes, strict=True))
        ]
        ignored = sum(side.ignored for side in stored)
        if ignored:
            context.count(IGNORED, ignored)
        self._emit([side.rows for side in stored], context)
        for side in stored:
            side.write(side.rows.partners, drop_matched=False, context=context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        raise AssertionError("no timer of processing time was set")

    def _emit(self, sides: Sequence[SideChange], context: Context) -> None:
        """Emits the retractions of results, then the insertions."""
        ids = _numbered([side.table for side in sides], self.keys)
        for kind, steps in ((_RETRACTS, _removals(sides)), (_ADDS, _additions(sides))):
            for changed, slices in enumerate(steps):
                for indices in _combined(ids, slices, changed):
                    context.emit(self._results(kind, [side.table for side in sides], indices))

    def _results(self, kind: str, tables: Sequence[pa.Table], indices: Sequence[Indices]) -> pa.Table:
        columns: list[pa.ChunkedArray | pa.Array] = []
        for side, rows, of_side in zip(self.sides, tables, indices, strict=True):
            taken = pa.array(of_side)
            columns += [rows.column(own).take(taken) for _, own in side.outputs]
        if self.updates:
            columns.append(pa.repeat(kind, len(indices[0])))
        return pa.Table.from_arrays(columns, schema=self.output)

    @cached_property
    def _kept(self) -> tuple[SideState, ...]:
        return tuple(SideState(f"input {port}", side, self.keys, False) for port, side in enumerate(self.sides))


def _needed(port: int, changes: Sequence[Changes]) -> np.ndarray:
    """The hashes of the rows to load of an input: those that changes of other inputs meet, and those that change."""
    others = [rows for other, of_side in enumerate(changes) if other != port for rows in of_side]
    touched = [*others, changes[port].removed, changes[port].repeated]
    return np.concatenate([rows.column(KEY_HASH).to_numpy() for rows in touched])


def _removals(sides: Sequence[SideChange]) -> Iterator[list[slice]]:
    """For each input the rows of all inputs whose results are retracted because rows of that one are removed."""
    for changed, side in enumerate(sides):
        before = [other.unchanged_rows for other in sides[:changed]]
        yield [*before, side.removed_rows, *(other.old_rows for other in sides[changed + 1 :])]


def _additions(sides: Sequence[SideChange]) -> Iterator[list[slice]]:
    """For each input the rows of all inputs whose results are added because rows of that one are added."""
    for changed, side in enumerate(sides):
        before = [other.unchanged_rows for other in sides[:changed]]
        yield [*before, side.added_rows, *(other.new_rows for other in sides[changed + 1 :])]


def _numbered(tables: Sequence[pa.Table], keys: Sequence[str]) -> list[Indices]:
    """For each table the ids of its rows: rows that are equal in ``keys`` have the same id, in all tables."""
    ids = dense_ids(pa.concat_tables([table.select(keys) for table in tables]), keys).ids
    return np.split(ids, np.cumsum([table.num_rows for table in tables])[:-1])


def _combined(ids: Sequence[Indices], slices: Sequence[slice], changed: int) -> Iterator[list[Indices]]:
    """The combinations of a row of each input with equal ids, of those rows that ``slices`` say: for each input the
    indices of its rows, in blocks. The rows of the input ``changed`` are combined in their order.
    """
    chosen = [of_side[part] for of_side, part in zip(ids, slices, strict=True)]
    own, others = chosen[changed], [port for port in range(len(ids)) if port != changed]
    if not all(len(of_side) for of_side in chosen):
        return
    most = max(int(of_side.max()) for of_side in chosen) + 1
    counts = {port: np.bincount(chosen[port], minlength=most) for port in others}
    orders = {port: in_order(chosen[port]) for port in others}
    begins = {port: np.cumsum(counts[port]) - counts[port] for port in others}
    matches = np.prod([counts[port] for port in others], axis=0)[own]
    for block in blocks(matches):
        rows = expanded(Ranges(np.zeros(block.stop - block.start, np.int64), matches[block]))
        owner, rest = rows.owner + block.start, rows.row
        key = own[owner]
        found: dict[int, Indices] = {changed: owner + slices[changed].start}
        for port in reversed(others):  # the rows of the last input change the fastest
            rest, nth = np.divmod(rest, counts[port][key])
            found[port] = orders[port][begins[port][key] + nth] + slices[port].start
        yield [found[port] for port in range(len(ids))]
