"""Delta tables that the library cannot write, made by hand: with deletion vectors, mapped columns, and old commits."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def deletion_vector(rows: Iterable[int]) -> dict[str, Any]:
    """The descriptor of a deletion vector that stands in the log."""
    raw = struct.pack("<I", 1681511377) + BitMap64([*rows]).serialize()
    words = struct.unpack(f">{-(-len(raw) // 4)}I", raw + b"\0" * (-len(raw) % 4))
    text = "".join("".join(_DIGITS[word // 85**power % 85] for power in (4, 3, 2, 1, 0)) for word in words)
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(raw), "cardinality": len([*rows])}


def field(name: str, kind: str, stored: str | None = None, number: int = 0) -> dict[str, Any]:
    """A column; ``stored``: its name in files, where columns are mapped."""
    names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored}
    return {"name": name, "type": kind, "nullable": True, "metadata": names if stored else {}}


def metadata(fields: list[dict[str, Any]], partitions: tuple[str, ...] = (), **properties: str) -> dict[str, Any]:
    """The action with the columns of a table. In properties ``_`` stands for a dot."""
    return {
        "metaData": {
            "id": "4d2",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": partitions,
            "createdTime": 0,
            "configuration": {key.replace("_", "."): value for key, value in properties.items()},
        }
    }


def protocol(*features: str, reader: int = 3, writer: int = 7) -> dict[str, Any]:
    lists = {"readerFeatures": features, "writerFeatures": features} if reader == 3 else {}
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}


def added(folder: Path, path: str, rows: pa.Table | None = None, **more: Any) -> dict[str, Any]:
    """Writes rows into a file, and returns the action that adds it."""
    file = folder / path
    if rows is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file)
    stats = json.dumps({"numRecords": pq.read_metadata(file).num_rows})
    common = {"path": path, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1}
    return {"add": {**common, "dataChange": True, "stats": stats, **more}}


def removed(action: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The action that removes a file again."""
    own = {key: value for key, value in action["add"].items() if key not in ("stats", "modificationTime")}
    return {"remove": {**own, "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True, **more}}


def commit(folder: Path, version: int, *actions: dict[str, Any], operation: str = "WRITE") -> None:
    """Writes a version of the log."""
    info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": operation}}
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(action)}\n" for action in (info, *actions))
    (log / f"{version:020d}.json").write_text(text)
