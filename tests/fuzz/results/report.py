"""A difference as a block of a golden file, to be pasted into ``tests/golden`` and blessed once it is mended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlstream.testing.values import spell_row
from sqlstream.types import parse_type
from tests.differential.changes import TableKind
from tests.fuzz.results.ways import Case


def golden(case: Case, difference: str) -> str:
    """``difference`` and the query with what it reads."""
    read = [table for table in case.past.of if re.search(rf"\b{table.name}\b", case.text)]
    lines = [f"# {line}" for line in difference.splitlines()]
    blocks = [f"statement\n{table.ddl()}" for table in read]
    steps = "\n".join([*_steps(case, {table.name: table for table in read}), "> finish"])
    return "\n\n".join(["\n".join(lines), *blocks, f"stream unordered\n{case.text}\n----\n{steps}"])


def _steps(case: Case, read: dict[str, TableKind]) -> Iterator[str]:
    batches, watermarks = list(case.past.micro_batches()), case.past.watermarks()
    for batch, watermark in zip(batches, watermarks, strict=True):
        for name, changes in batch.items():
            for kind, row in changes if name in read else ():
                yield f"> {'' if kind == '+I' else kind + ' '}{name}  {_spelled(read[name], row)}"
        if len(batches) > 1:
            yield "> checkpoint"
        timed = [table.name for table in read.values() if table.timed and watermark is not None]
        yield from (f"> watermark {name} {_time(watermark)}" for name in timed)


def _spelled(table: TableKind, row: tuple[Any, ...]) -> str:
    kinds = [parse_type(kind) for kind in ("INT", *(kind for _, kind in table.fields))]
    values = spell_row(row[: len(kinds)], kinds)
    return f"{values}  {_time(row[-1])}" if table.timed else values


def _time(microseconds: int | None) -> str:
    moment = None if microseconds is None else datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
    return spell_row([moment], [parse_type("TIMESTAMP(3)")])
