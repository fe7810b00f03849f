"""Regular join: every row of one input is joined with every matching row of the other, whenever they arrive.

The state holds the rows of both inputs. The changes of a micro-batch are combined: the kernel emits the retractions of
results, then the insertions, and no pair of them that cancel out, except of equal rows. The semantics are those of
Flink's StreamingJoinOperator and StreamingSemiAntiJoinOperator, which process row by row.

A batch loads the rows of the other side that its rows can match; it loads rows of its own side only for retractions.
Outer joins, SEMI and ANTI store the number of partners with each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.tree import Expression, columns_read
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.pairs import Indices, JoinResults, Pairs, Side, equal, fulfilling, numbered
from sqlstream.udfs.joins.stored_side import Changes, Flags, SideChange, SideState, StoredSide
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context, Domain, Kernel

_ADDS, _RETRACTS = "+I", "-D"


@dataclass(frozen=True)
class RegularJoinKernel(Kernel):
    """The kernel of a regular join, which stores the rows of both inputs. ``keys`` are columns of both inputs, of equal
    types; NULL equals NULL in those that are ``null_safe``.

    Results have the outputs of the left side, then those of the right side unless the kind is SEMI or ANTI, then
    ROW_KIND if results are retracted.
    """

    kind: JoinKind
    sides: tuple[Side, Side]
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    condition: Expression | None = None

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*self._results.schema, *([(ROW_KIND, pa.string())] if self.updates else [])])

    @property
    def updates(self) -> bool:
        """True if results may be retracted later, so that they have ROW_KIND."""
        return any(side.updates for side in self.sides) or self.kind not in (JoinKind.INNER, JoinKind.SEMI)

    @property
    def ports(self) -> int:
        return 2

    @property
    def uses_processing_time(self) -> bool:
        return any(side.ttl for side in self.sides)

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        changes_by_port = [
            kept.changes(rows.get(port), self.keys, self.null_safe) for port, kept in enumerate(self._kept)
        ]
        changes, alone = [met for met, _ in changes_by_port], [without for _, without in changes_by_port]
        hashes = [self._needed(port, changes) for port in range(2)]
        sides = [StoredSide(*of_side, context) for of_side in zip(self._kept, changes, hashes, strict=True)]
        ignored = sum(side.ignored for side in sides)
        if ignored:
            context.count(IGNORED, ignored)
        partners = self._emit(sides[0].rows, sides[1].rows, alone, context)
        wakes = [
            side.write(of_side, drop_matched=self._drops_matched and port == 0, context=context)
            for port, (side, of_side) in enumerate(zip(sides, partners, strict=True))
        ]
        context.set_timer(Domain.PROCESSING, min(wakes))

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        context.set_timer(Domain.PROCESSING, min(kept.drop(context) for kept in self._kept))

    # --- what changes -------------------------------------------------------------------------------------------

    def _needed(self, port: int, changes: Sequence[Changes]) -> np.ndarray:
        """The hashes of the rows to load: those that the other side meets, and those that change."""
        own, other = changes[port], changes[1 - port]
        touched = (*other, own.removed, own.repeated)  # an expired row that is inserted again has partners, too
        return np.concatenate([rows.column(KEY_HASH).to_numpy() for rows in touched])

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(
        self, left: SideChange, right: SideChange, unmet: Sequence[Changes], context: Context
    ) -> tuple[Indices, Indices]:
        """Emits the change of the result; the number of partners that the rows of each side have after it.

        ``unmet``: changes of rows that can have no partner.
        """
        ids = numbered(left.table, right.table, self.keys)
        retracted = list(
            self._pairs(
                ids, left, right, (left.removed_rows, right.old_rows), (left.unchanged_rows, right.removed_rows)
            )
        )
        added = list(
            self._pairs(ids, left, right, (left.added_rows, right.new_rows), (left.unchanged_rows, right.added_rows))
        )
        partners = (
            self._partners(0, left, [pair.left for pair in retracted], [pair.left for pair in added]),
            self._partners(1, right, [pair.right for pair in retracted], [pair.right for pair in added]),
        )
        alone = [
            (port, *self._alone(rows, partners[port], unmet[port]))
            for port, rows in enumerate((left, right))
            if self._kept[port].counts_partners
        ]
        tables = left.table, right.table
        self._emit_all(_RETRACTS, retracted, tables, [(port, gone) for port, gone, _ in alone], context)
        self._emit_all(_ADDS, added, tables, [(port, come) for port, _, come in alone], context)
        return partners

    def _pairs(
        self, ids: tuple[Indices, Indices], left: SideChange, right: SideChange, *parts: tuple[slice, slice]
    ) -> Iterator[Pairs]:
        """The pairs of parts of the rows."""
        for of_left, of_right in parts:
            matching = equal(ids[0][of_left], ids[1][of_right])
            moved = (Pairs(pair.left + of_left.start, pair.right + of_right.start) for pair in matching)
            yield from fulfilling(moved, self.condition, left.table, right.table)

    def _partners(self, port: int, rows: SideChange, lost: Sequence[Indices], won: Sequence[Indices]) -> Indices:
        """If the other side retracts nothing, knowing whether a row has a partner is enough."""
        if not self._kept[port].counts_partners:
            return rows.partners
        count = rows.table.num_rows
        partners = rows.partners.copy()
        for row_indices in won:
            partners += np.bincount(row_indices, minlength=count)
        for row_indices in lost:
            partners -= np.bincount(row_indices, minlength=count)
        return partners if self.sides[1 - port].updates else np.minimum(partners, 1)

    def _alone(self, rows: SideChange, partners: Indices, unmet: Changes) -> tuple[pa.Table, pa.Table]:
        """The rows of a side whose result without a partner (for SEMI: with one) is retracted, and those for which it
        is added."""
        before, after = self._comes_alone(rows.partners), self._comes_alone(partners)
        gone, come = before.copy(), after.copy()
        gone[rows.unchanged_rows] &= ~after[rows.unchanged_rows]
        come[rows.unchanged_rows] &= ~before[rows.unchanged_rows]
        gone[rows.added_rows] = come[rows.removed_rows] = False
        unpaired = (rows.table.filter(pa.array(flags)) for flags in (gone, come))
        if self.kind is JoinKind.SEMI:
            return next(unpaired), next(unpaired)
        return pa.concat_tables([next(unpaired), unmet.removed]), pa.concat_tables([next(unpaired), unmet.added])

    def _comes_alone(self, partners: Indices) -> Flags:
        return partners > 0 if self.kind is JoinKind.SEMI else partners == 0

    def _emit_all(
        self,
        kind: str,
        pairs: Sequence[Pairs],
        tables: tuple[pa.Table, pa.Table],
        alone: Sequence[tuple[int, pa.Table]],
        context: Context,
    ) -> None:
        """Results of one kind: pairs of the rows of both ``tables``, and rows alone of some sides."""
        if self.kind.pairs:
            for pair in pairs:
                context.emit(self._with_kind(kind, len(pair.left), self._results.of_pairs(*tables, pair)))
        for port, rows in alone:
            if rows.num_rows:
                context.emit(self._with_kind(kind, rows.num_rows, self._results.alone(port, rows)))

    def _with_kind(self, kind: str, count: int, columns: Iterator[pa.ChunkedArray]) -> pa.Table:
        own = [pa.repeat(kind, count)] if self.updates else []
        return pa.Table.from_arrays([*columns, *own], schema=self.output)

    @cached_property
    def _results(self) -> JoinResults:
        return JoinResults(self.kind, self.sides)

    # --- state -------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> tuple[SideState, SideState]:
        left, right = self.sides
        counts_left, counts_right = self.kind.padded
        return (
            SideState("left", left, self._read(0), counts_left or self.kind is JoinKind.SEMI),
            SideState("right", right, self._read(1), counts_right),
        )

    def _read(self, side: int) -> tuple[str, ...]:
        return (*self.keys, *columns_read(self.condition, side))

    @property
    def _drops_matched(self) -> bool:
        """True where a row of the left side is done with its first partner."""
        return not self.kind.pairs and not any(side.updates for side in self.sides)
