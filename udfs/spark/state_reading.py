"""Counts what is pending in the state of an operator that is not running; Spark reads the state from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.udfs.kernel import Domain, StateKey
from sqlstream.udfs.spark.state_server import from_texts
from sqlstream.udfs.waiting import Pending, Wait

if TYPE_CHECKING:
    from sqlstream.udfs.spark.adapter import KernelProcessor

WAITS_DDL = "stage INT, what STRING, domain STRING, count LONG, first LONG, last LONG"

KEPT_DDL = "rows LONG"

_WAITS = pa.schema([
    ("stage", pa.int32()), ("what", pa.string()), ("domain", pa.string()),
    ("count", pa.int64()), ("first", pa.int64()), ("last", pa.int64()),
])  # fmt: skip


def waits_of_group(processor: KernelProcessor) -> Callable[[pa.Table], pa.Table]:
    """A function of all entries of a key group, with columns name, number and text, to rows of WAITS_DDL."""

    def counted(entries: pa.Table) -> pa.Table:
        counts = [(stage, *_values(wait)) for stage, wait in processor.waits(_state(entries))]
        columns = zip(*counts, strict=True) if counts else ((),) * len(_WAITS)
        return pa.table([pa.array(values, f.type) for values, f in zip(columns, _WAITS, strict=True)], schema=_WAITS)

    return counted


def kept_of_group(processor: KernelProcessor) -> Callable[[pa.Table], pa.Table]:
    """A function of all entries of a key group, with columns name, number and text, to a row of KEPT_DDL."""
    return lambda entries: pa.table({"rows": pa.array([processor.kept_rows(_state(entries))], pa.int64())})


def _state(entries: pa.Table) -> Mapping[StateKey, bytes]:
    keys = zip(entries.column("name").to_pylist(), entries.column("number").to_pylist(), strict=True)
    return dict(zip(keys, from_texts(entries.column("text").to_pylist()), strict=True))


def _values(wait: Wait) -> tuple[str, str | None, int, int, int]:
    return wait.what.value, wait.domain.value if wait.domain else None, wait.count, wait.first, wait.last


def wait_of(what: str, domain: str | None, count: int, first: int, last: int) -> Wait:
    """A row of WAITS_DDL, without its stage."""
    return Wait(Pending(what), None if domain is None else Domain(domain), count, first, last)
