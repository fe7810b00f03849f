"""Counts what waits in the state of an operator that does not run; Spark reads its entries from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.spark.values import from_texts
from sqlstream.udfs.waiting import Pending, Wait

if TYPE_CHECKING:
    from sqlstream.udfs.spark.adapter import KernelProcessor

WAITS_DDL = "stage INT, what STRING, domain STRING, count LONG, first LONG, last LONG"

_WAITS = pa.schema([
    ("stage", pa.int32()), ("what", pa.string()), ("domain", pa.string()),
    ("count", pa.int64()), ("first", pa.int64()), ("last", pa.int64()),
])  # fmt: skip


def waits_of_group(processor: KernelProcessor) -> Callable[[pa.Table], pa.Table]:
    """A function of all entries of a key group, with columns name, number and text, to rows of WAITS_DDL."""

    def counted(entries: pa.Table) -> pa.Table:
        keys = zip(entries.column("name").to_pylist(), entries.column("number").to_pylist(), strict=True)
        state = dict(zip(keys, from_texts(entries.column("text").to_pylist()), strict=True))
        counts = [(stage, *_values(wait)) for stage, wait in processor.waits(state)]
        columns = zip(*counts, strict=True) if counts else ((),) * len(_WAITS)
        return pa.table([pa.array(values, f.type) for values, f in zip(columns, _WAITS, strict=True)], schema=_WAITS)

    return counted


def _values(wait: Wait) -> tuple[str, str | None, int, int, int]:
    return wait.what.value, wait.domain.value if wait.domain else None, wait.count, wait.first, wait.last


def wait_of(what: str, domain: str | None, count: int, first: int, last: int) -> Wait:
    """A row of WAITS_DDL, without its stage."""
    return Wait(Pending(what), None if domain is None else Domain(domain), count, first, last)
