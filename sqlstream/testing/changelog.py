"""Changelogs: rows with their kinds, and the table that they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Change = tuple[Any, ...]
"""A row kind (``+I``, ``-U``, ``+U``, ``-D``) followed by the values of the row."""

Row = tuple[Any, ...]

KINDS = ("+I", "-U", "+U", "-D")
_ADDS = ("+I", "+U")


def merge(changes: Iterable[Change], key: Sequence[int] | None = None) -> list[Row]:
    """The rows that are left when all changes are applied in order, oldest first.

    ``key`` are the positions of the key's columns: a row replaces the one with its key. Without a key, equal rows
    are counted, and a withdrawn row takes one of them away; ValueError where there is none.
    """
    return _counted(changes) if key is None else list(_keyed(changes, key).values())


def _counted(changes: Iterable[Change]) -> list[Row]:
    rows: list[Row] = []
    for kind, *values in changes:
        if kind in _ADDS:
            rows.append(tuple(values))
        elif tuple(values) in rows:
            rows.remove(tuple(values))
        else:
            raise ValueError(f"{kind} {tuple(values)} withdraws a row that is not there")
    return rows


def _keyed(changes: Iterable[Change], key: Sequence[int]) -> dict[tuple[str, ...], Row]:
    rows: dict[tuple[str, ...], Row] = {}
    for kind, *values in changes:
        name = tuple(repr(values[i]) for i in key)  # arrays and structs are keys too, but not hashable
        if kind in _ADDS:
            rows[name] = tuple(values)
        else:
            rows.pop(name, None)
    return rows
