"""Upserts into Iceberg tables by copy-on-write: rows with keys of a micro-batch are removed, and new ones added.

Files of Iceberg never change, thus what an upsert does to a file is computed once. After a conflict with other writers
only files are read that their commits have added and that may hold keys of the micro-batch, by their partitions and
statistics. What was written for a file that others have replaced is left out, and the files that replace it are read.
Where the commits of others hold none of the keys an attempt therefore takes as long as an append.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.lakes.iceberg_commits import Shortened, commit, live_manifests
from sqlstream.connectors.lakes.iceberg_tables import IcebergFiles, all_columns, data_files
from sqlstream.connectors.lakes.keys import key_ranges
from sqlstream.udfs.keys import dense_ids

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.delete_file_index import DeleteFileIndex

_COMPARED = 200
"""Keys up to which each is compared with the statistics of a file."""


_CUT = 999
"""Microseconds by which a bound in the statistics of a file may be wrong that is cut to milliseconds."""


class _Seen(NamedTuple):
    """What a manifest lists: ``candidates`` may hold keys, and ``entries`` are all, unless there is no candidate."""

    candidates: Sequence[ManifestEntry] = ()
    entries: Sequence[ManifestEntry] = ()


class IcebergMerge:
    """An upsert of a micro-batch, which is committed again after conflicts. ``keys``: each once; rows with them are
    removed. ``rows``: those that are added.
    """

    def __init__(self, keys: pa.Table, rows: pa.Table) -> None:
        self._keys, self._rows = keys, rows
        self.bytes_added = 0
        """Of the files that the last attempt has added: those of new rows, and of the rows that were left of others."""
        self._near, self._is_exact = near_keys(keys)
        self._by_statistics = near_keys(keys, cut=True)[0]
        self._layout: tuple[int, ...] = ()
        self._new: list[DataFile] = []
        self._seen: dict[str, _Seen] = {}
        self._rests: dict[tuple[str, frozenset[str]], list[DataFile] | None] = {}

    def commit(self, table: IcebergTable, properties: Mapping[str, str | None], summary: Mapping[str, str]) -> None:
        """Commits the upsert to the newest version of the table, as ``iceberg_commits.commit`` does."""
        self._begin(table)
        manifests = live_manifests(table)
        self._look(table, manifests)
        deletes = self._deletes(manifests)
        added, shortened = [*self._new], {}
        for manifest in (manifest for manifest in manifests if not lists_deletes(manifest)):
            seen, removed = self._seen[manifest.manifest_path], set()
            for entry in seen.candidates:
                rest = self._rest(table, entry, deletes)
                if rest is not None:
                    removed.add(entry.data_file.file_path)
                    added += rest
            if removed:
                shortened[manifest.manifest_path] = Shortened(seen.entries, frozenset(removed))
        self.bytes_added = sum(file.file_size_in_bytes for file in added)
        commit(table, manifests, added, shortened, properties, summary)

    def _begin(self, table: IcebergTable) -> None:
        """Writes the new rows; again, as all files, where the table has other columns or partitions by now."""
        metadata = table.metadata
        layout = (metadata.current_schema_id, metadata.default_spec_id)
        if layout == self._layout:
            return
        own = IcebergFiles(metadata, table.io, all_columns(table))
        self._new = own.written(self._rows)
        kinds = {name: own.schema.field(name).type for name in self._keys.column_names}
        self._keys = pa.table({name: self._keys[name].cast(kind) for name, kind in kinds.items()})
        self._seen, self._rests, self._layout = {}, {}, layout

    # --- which files may hold keys --------------------------------------------------------------------------------

    def _look(self, table: IcebergTable, manifests: Sequence[ManifestFile]) -> None:
        """Reads the manifests that were not there before."""
        from pyiceberg.table import ManifestGroupPlanner
        from pyiceberg.utils.concurrent import ExecutorFactory

        new = [manifest for manifest in manifests if manifest.manifest_path not in self._seen]
        planner = ManifestGroupPlanner(table.metadata, table.io, self._near)
        specs = {manifest.partition_spec_id for manifest in new}
        may_list = {spec: planner._build_manifest_evaluator(spec) for spec in specs}
        in_partition = {spec: planner._build_partition_evaluator(spec) for spec in specs}
        by_statistics = ManifestGroupPlanner(table.metadata, table.io, self._by_statistics)._build_metrics_evaluator()

        def seen(manifest: ManifestFile) -> _Seen:
            spec = manifest.partition_spec_id
            if not may_list[spec](manifest):
                return _Seen()
            entries = manifest.fetch_manifest_entry(table.io)
            near = [entry for entry in entries if in_partition[spec](entry.data_file)]
            if lists_deletes(manifest):
                return _Seen(near)
            candidates = [entry for entry in near if by_statistics(entry.data_file)]
            return _Seen(candidates, entries if candidates else ())

        found = ExecutorFactory.get_or_create().map(seen, new)
        self._seen |= zip((manifest.manifest_path for manifest in new), found, strict=True)

    def _deletes(self, manifests: Sequence[ManifestFile]) -> DeleteFileIndex:
        return deletes_of(
            entry
            for manifest in filter(lists_deletes, manifests)
            for entry in self._seen[manifest.manifest_path].candidates
        )

    # --- what is left of them -------------------------------------------------------------------------------------

    def _rest(self, table: IcebergTable, entry: ManifestEntry, deletes: DeleteFileIndex) -> list[DataFile] | None:
        """The files with the rows of a file that have none of the keys; None where that are all rows, so that the file
        itself remains.
        """
        file = entry.data_file
        applied = deletes.for_data_file(entry.sequence_number or 0, file, partition_key=file.partition)
        key = (file.file_path, frozenset(delete.file_path for delete in applied))
        if key not in self._rests:
            self._rests[key] = self._without_keys(table, file, applied)
        return self._rests[key]

    def _without_keys(self, table: IcebergTable, file: DataFile, deletes: set[DataFile]) -> list[DataFile] | None:
        schema = table.schema()
        if self._is_exact and _is_covered(schema, self._near, file):
            return []
        has_key = self._have_keys(rows_of(table, file, deletes, schema.select(*self._keys.column_names)))
        if not has_key.any():
            return None
        if has_key.all():
            return []
        rest = rows_of(table, file, deletes, schema).filter(pa.array(~has_key))
        return data_files(table.metadata, rest, table.io)

    def _have_keys(self, rows: pa.Table) -> np.ndarray:
        """For each row whether its key is among those of the micro-batch."""
        names = self._keys.column_names
        found = pa.table({name: rows[name].cast(self._keys.schema.field(name).type) for name in names})
        ids = dense_ids(pa.concat_tables([self._keys, found]), names).ids
        own = np.zeros(len(ids), np.bool_)
        own[ids[: self._keys.num_rows]] = True
        matching: np.ndarray = own[ids[self._keys.num_rows :]]
        return matching


def lists_deletes(manifest: ManifestFile) -> bool:
    """Whether a manifest has files of deletes, not of rows."""
    from pyiceberg.manifest import ManifestContent

    return bool(manifest.content == ManifestContent.DELETES)


def deletes_of(entries: Iterable[ManifestEntry]) -> DeleteFileIndex:
    """The files that delete rows of other files by their positions. ValueError for those that compare values."""
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table.delete_file_index import DeleteFileIndex

    index = DeleteFileIndex()
    for entry in entries:
        if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
            raise ValueError("the table has equality deletes, which are not supported")
        index.add_delete_file(entry, partition_key=entry.data_file.partition)
    return index


def _is_covered(schema: Schema, keys: BooleanExpression, file: DataFile) -> bool:
    """Whether the statistics of a file show that all rows have one of the keys."""
    from pyiceberg.expressions.visitors import ROWS_MUST_MATCH, _StrictMetricsEvaluator

    return bool(_StrictMetricsEvaluator(schema, keys).eval(file) == ROWS_MUST_MATCH)


def rows_of(table: IcebergTable, file: DataFile, deletes: set[DataFile], columns: Schema) -> pa.Table:
    """The rows of a file that are not deleted."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import FileScanTask

    scan = ArrowScan(table.metadata, table.io, columns, AlwaysTrue())
    return scan.to_table([FileScanTask(file, deletes)])


# --- keys as expressions --------------------------------------------------------------------------------------


def near_keys(keys: pa.Table, *, cut: bool = False) -> tuple[BooleanExpression, bool]:
    """The rows of a table whose keys are among these, as an expression of Iceberg, and whether it is exact: where the
    statistics of a file show that all its rows pass, all have one of the keys. It is not with many keys of several
    columns: each column of the rows has a value of some key; nor with times, whose statistics some writers cut to
    milliseconds. NULL is equal to NULL, NaN to NaN.

    ``cut``: the expression is compared with statistics, which may be cut.
    """
    from pyiceberg import expressions

    ice: Any = expressions  # whose annotations do not know terms as texts
    times = {f.name for f in keys.schema if pa.types.is_timestamp(f.type) or pa.types.is_time(f.type)}
    near = {name: _near_times if cut and name in times else _near_values for name in keys.column_names}
    if keys.num_columns == 1:
        return near[keys.column_names[0]](keys.column_names[0], keys.column(0)), not times
    if keys.num_rows > _COMPARED:
        return ice.And(*(near[name](name, keys[name]) for name in keys.column_names)), False

    def same(name: str, value: Any) -> Any:
        if value is None:
            return ice.IsNull(name)
        if cut and name in times:
            return _near_times(name, pa.chunked_array([pa.array([value], keys.schema.field(name).type)]))
        return ice.IsNaN(name) if _is_nan(value) else _equal(name, value, keys.schema.field(name).type)

    rows = [ice.And(*(same(*pair) for pair in row.items())) for row in keys.to_pylist()]
    return (ice.Or(*rows) if len(rows) > 1 else rows[0]), not times


def _near_times(name: str, values: pa.ChunkedArray) -> BooleanExpression:
    """The rows with a time in the milliseconds around one of these; of many times, between the first and the last."""
    from pyiceberg import expressions

    ice: Any = expressions
    numbers = np.unique(np.asarray(values.drop_null().cast(pa.int64())))
    few = len(numbers) <= _COMPARED
    spans = [(n, n) for n in numbers.tolist()] if few else [(int(numbers[0]), int(numbers[-1]))]
    near = [
        ice.And(ice.GreaterThanOrEqual(name, low - _CUT), ice.LessThanOrEqual(name, high + _CUT)) for low, high in spans
    ]
    if values.null_count:
        near.append(ice.IsNull(name))
    whole: BooleanExpression = ice.Or(*near) if len(near) > 1 else near[0]
    return whole


def _near_values(name: str, values: pa.ChunkedArray) -> BooleanExpression:
    """The rows with one of the values in a column. More of them are compared as ranges first: the library does not
    compare many single values with the statistics of a file.
    """
    from pyiceberg import expressions

    ice: Any = expressions
    whole = pc.unique(values).to_pylist()
    infinite = [value for value in whole if isinstance(value, float) and math.isinf(value)]
    plain = [value for value in whole if value is not None and not _is_nan(value) and value not in infinite]
    near: BooleanExpression = ice.In(name, plain) if plain else ice.AlwaysFalse()
    ranges = key_ranges(values) if len(plain) > _COMPARED else None
    if ranges:
        pairs = [ice.And(ice.GreaterThanOrEqual(name, low), ice.LessThanOrEqual(name, high)) for low, high in ranges]
        near = ice.And(ice.Or(*pairs) if len(pairs) > 1 else pairs[0], near)
    for value in infinite:
        near = ice.Or(near, _equal(name, value, values.type))
    if any(_is_nan(value) for value in whole):
        near = ice.Or(near, ice.IsNaN(name))
    return ice.Or(near, ice.IsNull(name)) if None in whole else near


def _equal(name: str, value: Any, kind: pa.DataType) -> BooleanExpression:
    """The rows with a value. Of FLOATs the library takes the infinite ones for values that the type does not have."""
    from pyiceberg import expressions

    ice: Any = expressions
    if not (pa.types.is_float32(kind) and math.isinf(value)):
        equal: BooleanExpression = ice.EqualTo(name, value)
        return equal
    greatest = float(np.finfo(np.float32).max)
    beyond: BooleanExpression = ice.GreaterThan(name, greatest) if value > 0 else ice.LessThan(name, -greatest)
    return beyond


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
