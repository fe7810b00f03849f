"""Rows of a known schema as bytes: Arrow record batch messages without the schema."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from sqlstream.udfs.kernel import StateKey


class StateSchemaError(RuntimeError):
    """Stored state has other columns than the query that resumes from it."""


def whole(rows: pa.Table) -> pa.RecordBatch:
    """The rows in one batch, of which slices cost next to nothing."""
    batches = rows.combine_chunks().to_batches()
    assert len(batches) <= 1, "more than 2 GiB of text or lists in one entry of state"
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def encode(rows: pa.RecordBatch) -> bytes:
    data: bytes = rows.serialize().to_pybytes()
    return data


def decode(entry: bytes | memoryview | None, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of an entry; they share memory with the bytes."""
    assert entry is not None, "the index names an entry that the store does not have"
    return pa.ipc.read_record_batch(pa.py_buffer(entry), schema)


def fingerprint(schema: pa.Schema) -> int:
    """63 bits that tell schemas apart by the names and types of their columns."""
    text = "\n".join(f"{column.name} {column.type}" for column in schema)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def check_fingerprint(stored: int, schema: pa.Schema, name: str) -> None:
    if stored != fingerprint(schema):
        columns = ", ".join(f"{column.name} {column.type}" for column in schema)
        raise StateSchemaError(f'stored state "{name}" has other columns than the query, which has {columns}')


def chunk_key(name: str, number: int, chunk: int) -> StateKey:
    return f"{name}/{chunk}", number


def chunk_keys(name: str, number: int, count: int, start: int = 0) -> list[StateKey]:
    return [chunk_key(name, number, chunk) for chunk in range(start, count)]
