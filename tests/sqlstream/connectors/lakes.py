"""Tables of lakes in tests without Spark: read as micro-batches do, and written while others commit to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.logs import log_of
from sqlstream.connectors.lakes.rows import reader_of, splits
from sqlstream.connectors.lakes.versions import LakeSettings, Position, advanced, between
from sqlstream.udfs.kernel import ROW_KIND


def rows_of(own: LakeSettings, files: Any) -> list[tuple[Any, ...]]:
    types = {name: kind.to_arrow() for name, kind in own.types.items()}
    kinds = [(ROW_KIND, pa.string())] if own.changes else []
    schema = pa.schema([*types.items(), *kinds])
    read = reader_of(schema, types, own).rows([splits([file for file in files if not file.pruned])])
    return [tuple(row.values()) for batch in read for row in batch.to_pylist()]


def together(batches: list[list[Any]]) -> list[Any]:
    return [row for batch in batches for row in batch]


def batches_of(own: LakeSettings, start: Position | None = None, target: int | None = None) -> list[Any]:
    """The rows of each micro-batch until nothing more is there."""
    log = log_of(own)
    position, batches = start or log.first_position(), []
    log.newest()
    while (after := advanced(log, own, position, target)) != position:
        assert Position.of_json(after.to_json()) == after
        batches.append(rows_of(own, between(log, position, after)))
        position = after
    return batches


def materialized(batches: list[Any]) -> set[tuple[Any, ...]]:
    """The rows that changes leave; each retraction must meet its row."""
    rows: dict[tuple[Any, ...], int] = {}
    for batch in batches:
        for *row, kind in batch:
            count = rows.get(tuple(row), 0) + (1 if kind in ("+I", "+U") else -1)
            assert count >= 0, row
            rows[tuple(row)] = count
    return {row for row, count in rows.items() for _ in range(count)}


# --- other writers --------------------------------------------------------------------------------------------


class Race:
    """Commits of other writers, of which the next one is made just before each call of ours of a method of a library:
    behind what we have read. ``calls``: how many we made.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> None:
        self.others: list[Callable[[], Any]] = []
        self.calls, self.is_other = 0, False
        own = getattr(kind, method)

        def late(*arguments: Any, **named: Any) -> Any:
            if not self.is_other:
                self.calls += 1
                if self.others:
                    self.is_other = True
                    self.others.pop(0)()
                    self.is_other = False
            return own(*arguments, **named)

        monkeypatch.setattr(kind, method, late)
        monkeypatch.setattr(CommitRetry, "_pause", lambda self, attempts: 0.0)

    def begin(self, *others: Callable[[], Any]) -> None:
        self.others, self.calls = [*others], 0


def expected(**changed: str | None) -> list[tuple[Any, ...]]:
    """The rows of a table with the keys 0 to 19 and the value "old", with others for some keys (``k3``), or without
    them.
    """
    values: dict[int, str | None] = dict.fromkeys(range(20), "old")
    values |= {int(key[1:]): value for key, value in changed.items()}
    return sorted(((key, value) for key, value in values.items() if value is not None), key=repr)


class SharedTable:
    """What must be in a table that we upsert by key while other writers append, remove and rewrite rows, which do so by
    ``append``, ``remove`` with a condition, and ``rewrite``. Only they give several rows to a key.
    """

    def __init__(
        self, seed: int, append: Callable[[list[tuple[int, str]]], Any], remove: Callable[[str], Any],
        rewrite: Callable[[], Any],
    ) -> None:  # fmt: skip
        self._chance = random.Random(seed)
        self._append, self._remove, self._rewrite = append, remove, rewrite
        self._values: dict[int, list[str]] = {}

    @property
    def rows(self) -> list[tuple[int, str]]:
        return sorted(((key, value) for key, values in self._values.items() for value in values), key=repr)

    def others(self) -> list[Callable[[], Any]]:
        """What others commit during a micro-batch."""
        ways = [self._appended, self._appended, self._appended, self._removed, self._rewrite]
        return [self._chance.choice(ways) for _ in range(self._chance.randrange(4))]

    def _appended(self) -> None:
        chance = self._chance
        rows = [(chance.randrange(40), f"x{chance.randrange(100)}") for _ in range(chance.randrange(1, 5))]
        self._append(rows)
        for key, value in rows:
            self._values.setdefault(key, []).append(value)

    def _removed(self) -> None:
        first = self._chance.randrange(40)
        self._remove(f"id >= {first} and id < {first + 3}")
        for key in range(first, first + 3):
            self._values.pop(key, None)

    def changes(self, number: int) -> list[tuple[int, str, str]]:
        """The changes of our micro-batch, with their kinds."""
        chance = self._chance
        kinds = {chance.randrange(40): chance.choice(["+U", "+U", "+I", "-D"]) for _ in range(chance.randrange(1, 8))}
        return [(key, f"n{number}", kind) for key, kind in kinds.items()]

    def upserted(self, changes: list[tuple[int, str, str]]) -> None:
        for key, value, kind in changes:
            self._values.pop(key, None)
            if kind != "-D":
                self._values[key] = [value]
