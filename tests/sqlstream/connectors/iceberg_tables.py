"""Snapshots of Iceberg tables that the library cannot write: with delete files, and of compaction."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from sqlstream.connectors.lakes import iceberg_commits
from sqlstream.connectors.lakes.iceberg_tables import IcebergFiles, all_columns


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def add_deletes(table: Table, folder: Path, rows: pa.Table, equal: Sequence[int] = ()) -> None:
    """Commits a file of deletes: of rows with the values of columns whose ids are ``equal``, or of positions in files
    (``file_path`` and ``pos``).
    """
    path = folder / f"{uuid.uuid4()}-deletes.parquet"
    pq.write_table(rows, path)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equal else DataFileContent.POSITION_DELETES,
        file_path=f"file://{path}", file_format=FileFormat.PARQUET, partition=Record(), record_count=rows.num_rows,
        file_size_in_bytes=path.stat().st_size, equality_ids=list(equal) or None,
    )  # fmt: skip
    _commit(table, file)


def add_vector(table: Table, path: Path, data_file: str, rows: Sequence[int]) -> None:
    """Commits a deletion vector of version 3: a Puffin file with the positions of deleted rows of a data file."""
    bits = b"\xd1\xd3\x39\x64" + BitMap64(rows).serialize()
    blob = struct.pack(">I", len(bits)) + bits + struct.pack(">I", zlib.crc32(bits))
    described = {
        "type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4,
        "length": len(blob), "properties": {"referenced-data-file": data_file, "cardinality": str(len(rows))},
    }  # fmt: skip
    footer = json.dumps({"blobs": [described], "properties": {}}).encode()
    path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1")
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=f"file://{path}", file_format=FileFormat.PUFFIN,
        partition=Record(), record_count=len(rows), file_size_in_bytes=path.stat().st_size,
    )  # fmt: skip
    _commit(table, file)


def _commit(table: Table, file: DataFile) -> None:
    """Commits a file of deletes."""
    file.spec_id = table.spec().spec_id

    def write(self: Any, files: Sequence[DataFile]) -> list[ManifestFile]:
        output = table.io.new_output(self._path(f"{uuid.uuid4()}-m0.avro"))
        with _DeleteManifestWriter(table.spec(), table.schema(), output, self._id, "deflate") as writer:
            for file in files:
                writer.add(ManifestEntry.from_args(data_file=file))
        return [writer.to_manifest_file()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iceberg_commits._MetadataFiles, "_added", write)
        iceberg_commits.commit(table, iceberg_commits.live_manifests(table), [file], {}, {}, {})


def compact(table: Table, rows: pa.Table) -> None:
    """Commits a file with all rows of the table in place of the files that are there."""
    files = IcebergFiles(table.metadata, table.io, all_columns(table)).written(rows)
    manifests = iceberg_commits.live_manifests(table)
    shortened = {}
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(table.io)
        paths = frozenset(entry.data_file.file_path for entry in entries)
        shortened[manifest.manifest_path] = iceberg_commits.Shortened(entries, paths)
    iceberg_commits.commit(table, manifests, files, shortened, {}, {}, rewrites=True)
