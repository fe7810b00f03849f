"""The words behind ``stream`` in golden files: what is compared, and how."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

TABLE = "table"
GRAMMAR = "stream [table [by column, …]] [unordered] [tolerance number]"


@dataclass(frozen=True)
class StreamOptions:
    """``table``: rows merged, by the columns ``key`` where they are named. ``unordered``: rows of one step come in any
    order. ``tolerance``: by how much of its size a FLOAT or DOUBLE may differ; None: by what its digits leave open."""

    table: bool = False
    key: tuple[str, ...] = ()
    unordered: bool = False
    tolerance: float | None = None


def stream_options(text: str) -> StreamOptions:
    """The options that the words spell; ValueError where they spell none."""
    words = text.replace(",", " , ").split()
    table = words[:1] == [TABLE]
    rest = words[table:]
    key: tuple[str, ...] = ()
    if table and rest[:1] == ["by"]:
        key = tuple(_names(rest[1:]))
        rest = rest[2 * len(key) :]
    unordered = rest[:1] == ["unordered"]
    rest = rest[unordered:]
    tolerance = None
    if len(rest) == 2 and rest[0] == "tolerance":
        tolerance, rest = float(rest[1]), []
    if rest or (tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0)):
        raise ValueError(text)
    return StreamOptions(table, key, unordered, tolerance)


def _names(words: list[str]) -> Iterator[str]:
    """The names between commas, up to the first word without a comma before it."""
    for i in range(0, len(words), 2):
        yield words[i]
        if words[i + 1 : i + 2] != [","]:
            return
    raise ValueError("a column is missing")
