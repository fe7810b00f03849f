"""Rows and timers for which a process function failed, where the job goes on without them.

They leave the kernel among its results, as rows of nothing but FAILED, and part from these behind it.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

FAILED_ROW = "__failed"
"""STRUCT column of a tolerant kernel's output: what a row that failed was (JSON), why, and where; NULL for results."""

FAILURE = pa.struct([("record", pa.string()), ("error", pa.string()), ("place", pa.string())])

Failure = dict[str, str | None]
"""Values of FAILURE."""


def failures_table(failures: list[Failure], output: pa.Schema) -> pa.Table:
    """The failures as rows of a kernel's output."""
    columns = [pa.nulls(len(failures), field.type) for field in list(output)[:-1]]
    return pa.Table.from_arrays([*columns, pa.array(failures, FAILURE)], schema=output)


def record_of_row(key: Mapping[str, object], table: str, row: Mapping[str, object]) -> str:
    """``table``: the parameter for which the row came."""
    return _json({"key": key, "input": table, "row": row} if key else {"input": table, "row": row})


def record_of_timer(key: Mapping[str, object], name: str | None, time: int, domain: str) -> str:
    """``time`` in milliseconds."""
    return _json({"key": key, "timer": {"name": name, "time": time, "domain": domain}})


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> object:
    """Values of Arrow as JSON has them; instants in ISO 8601, decimals as text, bytes in base 64, as Spark's are."""
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    plain = isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else str(value)
