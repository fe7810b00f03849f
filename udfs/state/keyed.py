"""Rows by key: the main state of kernels. Rows are stored in buckets by hash, and changes of few rows of many buckets
in a log: a batch pays for the rows of its keys, not for their buckets."""

from __future__ import annotations

from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, Domain, StateKey, Store
from sqlstream.udfs.state.buckets import (
    CHUNKS,
    DENSE,
    EVENT,
    LOW,
    NO_PLACES,
    NUMBER,
    PROCESSING,
    ROWS,
    TIMER_OF,
    TIMERS,
    Bucket,
    BucketPiece,
    Buckets,
    Chunk,
    RequestedRows,
    alive,
    cut,
    distinct,
    first_merged,
    is_dense,
    merged,
    neighbours,
    one,
    read_chunk,
    replace_any,
    split,
    splits,
    write_chunks,
)
from sqlstream.udfs.state.chunked import MOST_CHUNKS, chunk_key, chunk_keys, whole
from sqlstream.udfs.state.log import LEAST_BUCKETS, LOG_ROWS, ChangeLog, changes_of, log_key

BUCKET_ROWS = 1024
"""A bucket of more rows is split. Smaller buckets make small batches cheaper, larger ones make large batches
cheaper."""

LARGER = 4
"""Buckets may hold this many times as many rows if a call writes at least half of all rows: then the number of entries
dominates the cost."""


class KeyedState:
    """Stores rows of one schema, which are found by KEY_HASH and by the timers in EVENT_TIMER and PROCESSING_TIMER, if
    the schema has these columns.

    ``by``: the column by which rows are found, if it is not KEY_HASH. Its value is called the *place* of a row; buckets
    contain ranges of places. Rows of one place are loaded, replaced and deleted together, and keep their order.
    ``formerly``: the schema, with other names of columns, with which earlier builds stored the same rows.
    An instance serves one call of a kernel. Buckets do not change until ``flush``, which writes all changes, splits
    overfull buckets and merges small ones, in one call of the store. After it nothing is loaded.

    A state of many buckets adds its changes to a log (``ChangeLog``), whose chunks come after those of all buckets. The
    numbers of rows and the timers in the index include the rows of the log. A call that needs whole buckets moves the
    log to them first, and adds its changes there.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        schema: pa.Schema,
        bucket_rows: int = BUCKET_ROWS,
        by: str = KEY_HASH,
        formerly: pa.Schema | None = None,
    ) -> None:
        self.name = name
        self._by = by
        self.schema = schema.remove_metadata()
        self._formerly = formerly
        self._store = store
        self._bucket_rows = self._most_rows = bucket_rows
        self._timed = any(column in self.schema.names for column in TIMERS.values())
        self._index: Buckets | None = None
        self._log = ChangeLog(name, self.schema, None)
        self._logs = False
        self._counted: set[int] = set()
        self._open: dict[int, Bucket] = {}
        self._given = RequestedRows(by, self.schema)

    @staticmethod
    def keys(name: str) -> list[StateKey]:
        """The state keys that each call reads first, whatever rows it needs."""
        return [*Buckets.keys(name), log_key(name)]

    def load(self, hashes: np.ndarray) -> pa.Table:
        """Loads the rows with these key hashes. The result may contain others of the same buckets."""
        places = np.sort(hashes)
        positions = self._fetch(self._buckets().holding(places))
        if positions:
            sizes = [self._open[position].rows for position in positions]
            fullest = self._open[positions[int(np.argmax(sizes))]]
            self._give(places, is_dense(places, fullest, sum(sizes), self._by))
        return self._table(positions)

    def load_all(self) -> pa.Table:
        """Loads all rows of the key group."""
        positions = self._fetch(np.arange(len(self._buckets().index)))
        self._give(NO_PLACES, dense=True)
        return self._table(positions)

    def due(self, domain: Domain, time: int) -> pa.Table:
        """Loads the rows of all keys (values of the column ``by``) that have a timer up to ``time`` (microseconds). The
        result may contain others of the same buckets.
        """
        positions = self._fetch(self._buckets().due(domain, time))
        if positions and self._given.places is not None:
            chunks = [chunk for position in positions for chunk in self._open[position].chunks]
            rows = pa.Table.from_batches(alive([*chunks, *self._log.chunks], self._by), self.schema)
            timers = rows.column(TIMERS[TIMER_OF[domain]]).to_numpy()
            is_due = (timers <= time) & (timers != END_OF_TIME)
            self._give(self._places(rows)[is_due], is_due.sum() * DENSE >= len(is_due))
        return self._table(positions)

    def loaded(self) -> pa.Table:
        """All rows that were loaded since the last ``flush``, with the changes made since."""
        return self._table(self._loaded())

    def replace(self, rows: pa.Table) -> None:
        """Replaces all loaded rows by ``rows``; loaded rows that are not among them are deleted."""
        if self._given.places is not None:
            assert np.isin(self._places(rows), self._given.places).all(), "rows of keys that were not given"
        if self._logs:
            self._log_replaced(self._checked(rows))
            return
        pieces = self._cut(rows)
        assert pieces.keys() <= set(self._loaded()), "rows of keys whose buckets are not loaded"
        if self._given.places is None:
            self._replace_buckets(pieces)
        else:
            self._replace_places(pieces)

    def append(self, rows: pa.Table) -> None:
        """Adds rows after the stored rows of the same keys (values of the column ``by``), without loading these."""
        index = self._buckets()
        if self._logs and rows.num_rows > LOG_ROWS * len(index.index):
            self._move_log()
        pieces = self._cut(rows) if self._timed or not self._logs else {}
        if self._logs:
            self._log_added(Chunk(whole(self._checked(rows))), NO_PLACES)
        else:
            for position, piece in pieces.items():
                self._add(position, Chunk(piece.rows), piece.rows.num_rows)
        if pieces:
            positions = list(pieces)
            stored = index.index[positions, EVENT : PROCESSING + 1]
            self._timers(positions, np.minimum(stored, np.stack([piece.timers for piece in pieces.values()])))

    def next_timer(self, domain: Domain) -> int:
        """The earliest timer of all rows on the clock ``domain``, in microseconds, from the index; END_OF_TIME for
        none.
        """
        return self._buckets().next_timer(domain)

    def rows(self) -> int:
        """The number of all rows as of the last ``flush``, from the index."""
        return int(self._buckets().index[:, ROWS].sum())

    def flush(self) -> None:
        """Writes all changes in one call of the store, if there are any."""
        if self._logs and self._log.is_changed:
            if self._log.overflows(self._buckets().index) or not self._count():
                self._fetch(np.array(self._move_log(), np.int64))
            elif self._log.has_many:
                self._fetch(NO_PLACES)
        changes, added = ({}, []) if self._logs else self._bucket_changes()
        changes |= self._log.written(self._by)
        if changes:
            index = self._buckets()
            for position in self._counted if self._logs else ():
                index.index[position, ROWS] = self._open[position].rows
            index.changed |= self._counted
            if not self._logs and (added or (index.index[:, ROWS] == 0).any()):
                index = self._index = index.with_buckets(added)
            if self._counted or not self._logs:
                changes |= index.written(self.schema, self.name)
            self._store.put(changes)
        self._open.clear()
        self._counted.clear()
        self._given = RequestedRows(self._by, self.schema)
        self._begin_log(self._log)

    def _bucket_changes(self) -> tuple[dict[StateKey, bytes | None], list[list[int]]]:
        """The entries of buckets to write, and the rows of the index of new buckets."""
        self._most_rows = self._fitting()
        first = {position: first_merged(bucket, MOST_CHUNKS) for position, bucket in self._open.items()}
        moved = {position for position, bucket in self._open.items() if self._is_moved(position, bucket)}
        written = moved | {position for position, bucket in self._open.items() if first[position] < len(bucket.chunks)}
        changes: dict[StateKey, bytes | None] = {}
        added: list[list[int]] = []
        for group in neighbours({position: self._open[position] for position in sorted(written)}, self._most_rows // 2):
            if len(group) == 1 and group[0] not in moved:
                changes |= self._extend(group[0], first[group[0]])
            else:
                changes |= self._move(group, added)
        return changes, added

    # --- loading ----------------------------------------------------------------------------------------------

    def _buckets(self) -> Buckets:
        if self._index is None:
            *entries, log = self._store.get(self.keys(self.name))
            self._index = Buckets.from_entries(entries, self.schema, self.name, self._formerly)
            self._begin_log(ChangeLog(self.name, self.schema, log))
        return self._index

    def _begin_log(self, log: ChangeLog) -> None:
        self._log = log
        many = self._index is not None and len(self._index.index) >= LEAST_BUCKETS and self._by == KEY_HASH
        self._logs = many or log.is_used

    def _loaded(self) -> list[int]:
        return [position for position, bucket in self._open.items() if bucket.loaded]

    def _fetch(self, positions: np.ndarray) -> list[int]:
        """Loads buckets that are not; all of them as a list."""
        loaded: list[int] = positions.tolist()
        keys = {p: self._keys(p) for p in loaded if p not in self._open or not self._open[p].loaded}
        of_log = self._log.missing()
        wanted = [*of_log, *(key for of_bucket in keys.values() for key in of_bucket)]
        entries = iter(self._store.get(wanted) if wanted else ())
        self._log.load(islice(entries, len(of_log)))
        for position, of_bucket in keys.items():
            bucket = self._opened(position)
            stored = [read_chunk(next(entries), self.schema, number) for number in range(len(of_bucket))]
            bucket.chunks[:0] = stored
            bucket.stored, bucket.loaded = len(stored), True
        return loaded

    def _opened(self, position: int) -> Bucket:
        if position not in self._open:
            self._open[position] = Bucket([], 0, False, int(self._buckets().index[position, ROWS]))
        return self._open[position]

    def _keys(self, position: int, start: int = 0) -> list[StateKey]:
        entry = self._buckets().index[position]
        return chunk_keys(self.name, int(entry[NUMBER]), int(entry[CHUNKS]), start)

    def _table(self, positions: list[int]) -> pa.Table:
        """The rows that were asked for in some loaded buckets."""
        buckets = [self._open[position] for position in positions]
        given = self._given.places
        if not self._log.chunks or given is None:
            return self._given.rows(buckets)
        here = given[np.isin(self._buckets().positions(given), positions)]
        return self._given.rows(buckets, self._log.chunks, here) if len(here) else self.schema.empty_table()

    def _give(self, places: np.ndarray, dense: bool) -> None:
        """Requests the rows of these places; with ``dense`` all rows of the loaded buckets, which then have the log."""
        if dense and self._logs:
            self._move_log()
        self._given.add(places, dense)

    def _batches(self, positions: list[int]) -> list[pa.RecordBatch]:
        return [rows for position in positions for rows in alive(self._open[position].chunks, self._by)]

    # --- changes ----------------------------------------------------------------------------------------------

    def _cut(self, rows: pa.Table) -> dict[int, BucketPiece]:
        return self._cut_batch(whole(self._checked(rows)))

    def _cut_batch(self, rows: pa.RecordBatch) -> dict[int, BucketPiece]:
        return cut(rows, self._buckets().positions(self._places(rows)))

    def _add(self, position: int, chunk: Chunk, rows: int) -> None:
        bucket = self._opened(position)
        bucket.chunks.append(chunk)
        bucket.rows += rows
        self._given.changed()

    def _log_replaced(self, rows: pa.Table) -> None:
        old = self.loaded()
        chunk = changes_of(old, rows, self._by)
        if chunk is None:
            return
        gone = self._places(old)
        gone = gone[np.isin(gone, chunk.replaced)]
        if self._timed:
            touched = self._buckets().positions(np.concatenate((self._places(chunk.rows), chunk.replaced)))
            before, after = self._cut(old), self._cut(rows)
            for position in np.unique(touched).tolist():
                timers = self._timers_after(position, before.get(position), after.get(position))
                self._timers([position], timers)
        self._log_added(chunk, gone)

    def _log_added(self, chunk: Chunk, gone: np.ndarray) -> None:
        """Adds a chunk to the log. ``gone``: the places of the rows that it replaces, each as often as it has rows."""
        index = self._buckets()
        come, left = (
            np.bincount(index.positions(places), minlength=len(index.index))
            for places in (self._places(chunk.rows), gone)
        )
        more = come - left
        for position in np.flatnonzero(more).tolist():
            self._opened(position).rows += int(more[position])
            self._counted.add(position)
        self._log.add(chunk)
        self._given.changed()

    def _move_log(self) -> list[int]:
        """Moves the log to the buckets, for which it must be read; the positions of those that get changes."""
        self._fetch(NO_PLACES)
        chunk = self._log.moved(self._by)
        self._logs = False
        if chunk is None:
            return []
        pieces, of_replaced = self._cut_batch(chunk.rows), self._buckets().positions(chunk.replaced)
        positions = sorted(pieces.keys() | set(of_replaced.tolist()))
        begins, ends = (np.searchsorted(of_replaced, positions, side=side) for side in ("left", "right"))
        for position, begin, end in zip(positions, begins.tolist(), ends.tolist(), strict=True):
            rows = pieces[position].rows if position in pieces else self._nothing
            self._opened(position).chunks.append(Chunk(rows, chunk.replaced[begin:end]))
        self._given.changed()
        return positions

    def _replace_buckets(self, pieces: dict[int, BucketPiece]) -> None:
        positions = self._loaded()
        if len(pieces) < len(positions):
            pieces = dict.fromkeys(positions, BucketPiece(self._nothing, np.full(2, END_OF_TIME))) | pieces
        bucket_pieces = [pieces[position] for position in positions]
        if bucket_pieces:
            self._timers(positions, np.stack([piece.timers for piece in bucket_pieces]))
        for position, (rows, _) in zip(positions, bucket_pieces, strict=True):
            if not self._has(self._open[position].chunks, rows):
                chunks = [Chunk(rows)] if rows.num_rows else []
                self._open[position] = Bucket(chunks, 0, True, rows.num_rows)

    def _has(self, chunks: list[Chunk], rows: pa.RecordBatch) -> bool:
        """Whether chunks that replace nothing have these rows."""
        if len(chunks) == 1:
            return bool(chunks[0].rows.num_rows == rows.num_rows and chunks[0].rows.equals(rows))
        if sum(chunk.rows.num_rows for chunk in chunks) != rows.num_rows or replace_any(chunks):
            return False
        return bool(pa.Table.from_batches([c.rows for c in chunks], self.schema).equals(pa.Table.from_batches([rows])))

    def _replace_places(self, pieces: dict[int, BucketPiece]) -> None:
        given = self._cut(self.loaded())
        for position in sorted(given.keys() | pieces.keys()):
            old, new = given.get(position), pieces.get(position)
            if old is None or new is None or not old.rows.equals(new.rows):
                self._replace_piece(position, old, new)

    def _replace_piece(self, position: int, old: BucketPiece | None, new: BucketPiece | None) -> None:
        if self._timed:
            self._timers([position], self._timers_after(position, old, new))
        rows = self._nothing if new is None else new.rows
        replaced = NO_PLACES if old is None else distinct(self._places(old.rows))
        self._add(position, Chunk(rows, replaced), rows.num_rows - (0 if old is None else old.rows.num_rows))

    def _timers_after(self, position: int, old: BucketPiece | None, new: BucketPiece | None) -> np.ndarray:
        timers = self._buckets().index[position, EVENT : PROCESSING + 1]
        if old is not None and ((old.timers <= timers) & (timers != END_OF_TIME)).any():
            timers = self._timers_of_others(position)
        return timers if new is None else np.minimum(timers, new.timers)

    def _timers_of_others(self, position: int) -> np.ndarray:
        """The earliest timers of the rows of a bucket that are not given."""
        assert self._given.places is not None, "all rows are given"
        without = Chunk(self._nothing, self._given.places)
        pieces = self._cut_batch(one(alive([*self._open[position].chunks, *self._log.chunks, without], self._by)))
        return pieces[position].timers if position in pieces else np.full(2, END_OF_TIME)

    def _timers(self, positions: list[int], timers: np.ndarray) -> None:
        self._buckets().index[positions, EVENT : PROCESSING + 1] = timers
        if self._logs:
            for position in positions:
                self._opened(position)
                self._counted.add(position)

    # --- writing ----------------------------------------------------------------------------------------------

    def _fitting(self) -> int:
        """How many rows a bucket may have that this call writes."""
        written = sum(chunk.rows.num_rows for bucket in self._open.values() for chunk in bucket.chunks[bucket.stored :])
        if written <= self._bucket_rows:
            return self._bucket_rows
        rows = self._count()
        if 2 * written < rows:
            return self._bucket_rows
        return min(max(rows // 2, self._bucket_rows), LARGER * self._bucket_rows)

    def _count(self) -> int:
        """The number of all rows with the changes since the last ``flush``."""
        before = int(self._buckets().index[[*self._open], ROWS].sum())
        return self.rows() - before + sum(bucket.rows for bucket in self._open.values())

    def _is_moved(self, position: int, bucket: Bucket) -> bool:
        """Buckets without rows go; those whose rows are all known and too many split."""
        if bucket.rows == 0:
            return True
        is_loaded = bucket.loaded or int(self._buckets().index[position, CHUNKS]) == 0
        return is_loaded and bucket.rows > self._most_rows and self._overflows(self._batches([position]))

    def _extend(self, position: int, first: int) -> dict[StateKey, bytes | None]:
        """Writes the chunks from ``first`` on as one chunk, after those that remain."""
        bucket, index = self._open[position], self._buckets()
        entry = index.index[position]
        number = first if bucket.loaded else int(entry[CHUNKS])
        chunk = merged(bucket.chunks[first:], self._by)
        changes: dict[StateKey, bytes | None] = dict.fromkeys(self._keys(position, number))
        own, chunks = int(entry[NUMBER]), write_chunks(chunk, number)
        changes |= {chunk_key(self.name, own, at): written for at, written in enumerate(chunks, number)}
        entry[[ROWS, CHUNKS]] = bucket.rows, number + len(chunks)
        index.changed.add(position)
        return changes

    def _move(self, group: list[int], added: list[list[int]]) -> dict[StateKey, bytes | None]:
        """Writes neighbours as one bucket, or as many as they need, whose index entries it adds."""
        index = self._buckets()
        changes: dict[StateKey, bytes | None] = dict.fromkeys(key for position in group for key in self._keys(position))
        number = int(index.index[group[0], NUMBER])
        for i, (low, piece) in enumerate(self._pieces(group)):
            own, chunks = index.new_number() if i else number, write_chunks(Chunk(piece.rows), 0)
            added.append([low, own, piece.rows.num_rows, len(chunks), *piece.timers.tolist()])
            changes |= {chunk_key(self.name, own, at): chunk for at, chunk in enumerate(chunks)}
        index.index[group, ROWS] = 0
        return changes

    def _pieces(self, group: list[int]) -> list[tuple[int, BucketPiece]]:
        """The rows of neighbours in buckets that are not too large, with their lowest places."""
        batches, low = self._batches(group), int(self._buckets().index[group[0], LOW])
        rows = one(batches) if batches else self._nothing
        if self._overflows(batches):
            return split(rows, self._places(rows), low, self._most_rows)
        timers = self._buckets().index[group, EVENT : PROCESSING + 1].min(axis=0)
        return [(low, BucketPiece(rows, timers))] if rows.num_rows else []

    def _overflows(self, batches: list[pa.RecordBatch]) -> bool:
        if sum(map(len, batches)) <= self._most_rows:
            return False
        return splits(np.concatenate([*map(self._places, batches)]), self._most_rows)

    def _places(self, rows: pa.RecordBatch | pa.Table) -> np.ndarray:
        return np.asarray(rows.column(self._by).to_numpy())

    @cached_property
    def _nothing(self) -> pa.RecordBatch:
        return whole(self.schema.empty_table())

    def _checked(self, rows: pa.Table) -> pa.Table:
        if not rows.schema.equals(self.schema):
            raise TypeError(f'rows of state "{self.name}" must be of {self.schema}, not {rows.schema}')
        return rows.replace_schema_metadata(None)
