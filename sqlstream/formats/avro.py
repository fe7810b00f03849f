"""The decoder of Avro: messages, and the blocks of files, whose records are found first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.formats.avro_columns import Reader, Record
from sqlstream.formats.avro_cursor import PADDING, Cursor, Data, Faults, Unread
from sqlstream.formats.avro_readers import Skippers, record_of
from sqlstream.formats.avro_schema import Member, Schema, parse_schema
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, rows_of_nothing

_AT_ONCE = 1 << 14
"""Records that are decoded together: their columns stay in the processor's cache."""


@dataclass(frozen=True)
class AvroDecoder(Decoder):
    """Decodes records that were written with one schema.

    ``writer``: its JSON text. ``reader``: the text of the schema to read by, whose aliases name fields of the writer,
    and whose defaults are the values of fields that it lacks; None: these are NULL. Fields are found by name.
    ``references``: the texts of schemas whose types the writer's names.
    """

    fields: tuple[Field, ...]
    writer: str
    reader: str | None = None
    references: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    @cached_property
    def _written(self) -> Schema:
        return self.record_schema(parse_schema(self.writer, self.references))

    @staticmethod
    def record_schema(schema: Schema) -> Schema:
        """Returns the schema of a record; values of another type are those of its one field ``value``."""
        return schema if schema.kind == "record" else Schema("record", members=(Member("value", schema),))

    @cached_property
    def _skipper(self) -> Reader:
        return Skippers().of(self._written, "")

    @cached_property
    def record(self) -> Record:
        """What reads a record. SchemaError where a default of the reader's schema is none of its column."""
        like = None if self.reader is None else parse_schema(self.reader)
        columns = pa.schema([(f.name, f.type.to_arrow()) for f in self.fields])
        return record_of(self._written, [*columns], "", Skippers(), like)

    def __getstate__(self) -> tuple[object, ...]:
        return self.fields, self.writer, self.reader, self.references

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(("fields", "writer", "reader", "references"), state, strict=True):
            object.__setattr__(self, name, value)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        offsets = np.frombuffer(values.buffers()[1] or bytes(4), np.int32)[values.offset :][: len(values) + 1]
        first, last = (int(offsets[i]) for i in (0, len(values))) if len(values) else (0, 0)
        data = _padded([(values.buffers()[2] or pa.py_buffer(b""))[first:last]])
        starts = offsets[: len(values)].astype(np.int64) - first
        ends = offsets[1 : len(values) + 1].astype(np.int64) - first
        if values.null_count:  # an array may have bytes there
            ends = np.where(values.is_null().to_numpy(zero_copy_only=False), starts, ends)
        faults = Faults()
        faults.add(np.flatnonzero(starts == ends), "the message is empty")
        return self._decoded(data, starts, ends, faults, np.zeros(len(values), np.int64), to_end=True)

    def block(self, data: pa.Buffer) -> Decoded:
        return self.blocks([data], [None])[0]

    def blocks(self, blocks: Sequence[pa.Buffer], counts: Sequence[int | None]) -> tuple[Decoded, np.ndarray]:
        """Decodes blocks, each with the number of its records, or None where they fill it. What follows a record whose
        end cannot be found is a part of it, up to the end of its block. ``Fault.start`` counts from the first block on.

        Returns also the number of the first record of each block among those of all.
        """
        data, sizes = _padded(blocks), np.array([block.size for block in blocks], np.int64)
        ends = np.cumsum(sizes)
        faults = Faults()
        found = Boundaries(self._skipper, data, ends - sizes, ends, counts)
        starts, record_ends, records = found.all(faults)
        return self._decoded(data, starts, record_ends, faults, starts, to_end=False), np.cumsum(records) - records

    def _decoded(
        self, data: Data, starts: np.ndarray, ends: np.ndarray, faults: Faults, places: np.ndarray, *, to_end: bool
    ) -> Decoded:
        read = [
            self._read(data, starts[n : n + _AT_ONCE], ends[n : n + _AT_ONCE], n, faults, to_end=to_end)
            for n in range(0, len(starts), _AT_ONCE)
        ]
        rows = _joined(read, self.schema)
        if not faults.reasons:
            return Decoded(rows, len(starts))
        bad = sorted(faults.reasons)
        good = np.ones(len(starts), bool)
        good[bad] = False
        found = [Fault(i, int(places[i]), data.bytes[starts[i] : ends[i]].tobytes(), faults.reasons[i]) for i in bad]
        return Decoded(rows.filter(pa.array(good)), len(starts), found)

    def _read(
        self, data: Data, starts: np.ndarray, ends: np.ndarray, first: int, faults: Faults, *, to_end: bool
    ) -> pa.RecordBatch:
        cursor = Cursor(data, starts, ends, np.arange(first, first + len(starts)), faults)
        columns = self.record.columns(cursor, to_end=to_end)
        more = cursor.at < ends
        if to_end and more.any():
            cursor.fail(more, [f"{rest:,} bytes follow the record" for rest in (ends - cursor.at)[more].tolist()])
        schema = self.schema
        if not len(schema):
            return _empty_rows(len(starts))
        return pa.RecordBatch.from_arrays([columns[f.name] for f in schema], schema=schema)


def _padded(blocks: Sequence[pa.Buffer]) -> Data:
    arrays = [np.frombuffer(block, np.uint8) for block in blocks if block.size]
    return Data(np.concatenate([*arrays, np.zeros(PADDING, np.uint8)]))


def _empty_rows(count: int) -> pa.RecordBatch:
    return rows_of_nothing(count)


def _joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not len(schema):
        return _empty_rows(sum(batch.num_rows for batch in batches))
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return joined[0] if joined else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


_LARGE = 1 << 18
"""Blocks of more bytes are read in segments: Avro's own library writes blocks of 64 KB, others whole files as one."""

_SEGMENT, _WINDOW, _TRIED = 1 << 15, 384, 6
"""The bytes of a segment, how many positions are tried as its beginning, and how many records are read from each."""


class Boundaries:
    """Finds the records of blocks. A step finds the next record of all blocks at once."""

    def __init__(
        self, skipper: Reader, data: Data, starts: np.ndarray, ends: np.ndarray, counts: Sequence[int | None]
    ) -> None:
        self._skipper, self._data, self._starts, self._ends = skipper, data, starts, ends
        # A record without bytes is none where nothing says how many there are.
        self._counts = np.array(
            [size if n is None else n for n, size in zip(counts, ends - starts, strict=True)], np.int64
        )
        self._counted = np.array([n is not None for n in counts], bool)

    def all(self, faults: Faults) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the positions where the records begin and end, and how many records each block has. The rest of a
        block after a record that cannot be read belongs to that one; so do bytes after the last record.
        """
        lanes, starts, ends = [], [], []
        wrong: dict[int, str] = {}
        for block in np.flatnonzero(self._counted & (self._ends - self._starts > _LARGE)).tolist():
            begins = self._in_segments(int(self._starts[block]), int(self._ends[block]), int(self._counts[block]))
            if begins is not None:
                self._counts[block] = 0
                lanes.append(np.full(len(begins), block))
                starts.append(begins)
                ends.append(np.append(begins[1:], self._ends[block]))
        for found, begin, end, broken in self._steps():
            lanes.append(found)
            starts.append(begin)
            ends.append(end)
            wrong.update({int(begin_): reason for begin_, reason in broken})
        of_blocks = np.concatenate([_NO_POSITIONS, *lanes])
        records = np.bincount(of_blocks, minlength=len(self._counts))
        if not lanes:
            return _NO_POSITIONS, _NO_POSITIONS, records
        order = np.argsort(of_blocks, kind="stable")
        begins, stops = np.concatenate(starts)[order], np.concatenate(ends)[order]
        if wrong:
            for number in np.flatnonzero(np.isin(begins, list(wrong))).tolist():
                faults.reasons.setdefault(number, wrong[int(begins[number])])
        return begins, stops, records

    def _in_segments(self, start: int, end: int, count: int) -> np.ndarray | None:
        """Returns where the records of a large block begin, found in many segments of it at once; None where that finds
        no whole records, and the block is to be read from its beginning.

        Where a segment begins is guessed. A guess counts only if the records of the segment before end there; else the
        segment is read again from where they end.
        """
        guesses = self._guessed(np.arange(start + _SEGMENT, end, _SEGMENT), end)
        begins = np.concatenate(([start], guesses))
        limits = np.append(begins[1:], end)
        found = self._walked(begins, limits, end)
        whole: list[np.ndarray] = []
        at = start
        for number, limit in enumerate(limits.tolist()):
            if at >= limit:
                continue
            if begins[number] != at:
                found[number] = self._walked(np.array([at]), np.array([limit]), end)[0]
            positions, at = found[number]
            if at < 0:
                return None
            whole.append(positions)
        every = np.concatenate(whole)
        return every if len(every) == count and at == end else None

    def _guessed(self, points: np.ndarray, end: int) -> np.ndarray:
        """For each point a position not before it at which a record seems to begin: of those from where some records
        can be read, the one that most lead to.
        """
        at = (points[:, None] + np.arange(_WINDOW)).reshape(-1)
        point = np.repeat(np.arange(len(points)), _WINDOW)
        point, at = point[at < end], at[at < end]
        for _ in range(_TRIED):
            unread = Unread(len(at))
            cursor = Cursor(self._data, at, np.full(len(at), end), np.arange(len(at)), unread)
            self._skipper.skip(cursor)
            point, at = point[~unread.mask], cursor.at[~unread.mask]
        guesses = points.copy()
        positions, votes = np.unique(np.stack((point, at)), axis=1, return_counts=True)
        order = np.argsort(votes, kind="stable")
        guesses[positions[0, order]] = positions[1, order]  # the last one, of most votes, stays
        return np.maximum.accumulate(guesses)

    def _walked(self, begins: np.ndarray, limits: np.ndarray, end: int) -> list[tuple[np.ndarray, int]]:
        """For each segment where its records begin, and the end of the last one; -1 where one cannot be read."""
        lanes, at = np.flatnonzero(begins < limits), begins[begins < limits]
        stops = begins.copy()
        found: list[tuple[np.ndarray, np.ndarray]] = []
        while len(lanes):
            unread = Unread(len(at))
            cursor = Cursor(self._data, at, np.full(len(at), end), np.arange(len(at)), unread)
            self._skipper.skip(cursor)
            found.append((lanes, at))
            # A record without bytes would be read for ever.
            after = np.where(unread.mask | (cursor.at <= at), -1, cursor.at)
            stops[lanes] = after
            more = (after >= 0) & (after < limits[lanes])
            lanes, at = lanes[more], after[more]
        of = np.concatenate([lane for lane, _ in found]) if found else _NO_POSITIONS
        every = np.concatenate([position for _, position in found]) if found else _NO_POSITIONS
        order = np.argsort(of, kind="stable")
        cuts = np.searchsorted(of[order], np.arange(1, len(begins)))
        return [*zip(np.split(every[order], cuts), stops.tolist(), strict=True)]

    def _steps(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, str]]]]:
        lanes = np.flatnonzero((self._counts > 0) & (self._counted | (self._starts < self._ends)))
        counts, counted = self._counts[lanes], self._counted[lanes]
        at, ends, done = self._starts[lanes], self._ends[lanes], 0
        while len(lanes):
            faults = Faults()
            cursor = Cursor(self._data, at, ends, np.arange(len(lanes)), faults)
            self._skipper.skip(cursor)
            done += 1
            stops, last = cursor.at, counts == done
            left = last & (cursor.at < ends) & counted
            for lane in np.flatnonzero(left).tolist():
                faults.reasons.setdefault(lane, f"{int(ends[lane] - stops[lane]):,} bytes follow the last record")
            if faults.reasons or last.any() or not counted.all():
                bad = np.zeros(len(lanes), bool)
                bad[list(faults.reasons)] = True
                stops = np.where(bad, ends, stops)
                yield lanes, at, stops, [(int(at[lane]), reason) for lane, reason in faults.reasons.items()]
                more = np.flatnonzero(~bad & ~last & (counted | (stops < ends)))
                lanes, counts, counted, at, ends = (a[more] for a in (lanes, counts, counted, stops, ends))
            else:
                yield lanes, at, stops, []
                at = stops


_NO_POSITIONS = np.zeros(0, np.int64)
