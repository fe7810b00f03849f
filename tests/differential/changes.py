"""Random tables, as the changes that they come by, in disorder and in micro-batches that end anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import pyarrow as pa

from sqlstream.types import parse_type

Row = tuple[Any, ...]
Change = tuple[str, Row]
"""A row kind and the values of a row."""

MS = 1_000_000
"""A second, in microseconds: times of rows are whole seconds."""


@dataclass(frozen=True)
class TableKind:
    """A table ``id INT``, ``fields``, and, where ``timed``, ``ts`` as its last column, of a changelog mode. ``key``: id
    is its PRIMARY KEY. ``fields``: names and types."""

    name: str
    mode: str
    key: bool = False
    timed: bool = False
    fields: tuple[tuple[str, str], ...] = (("a", "INT"), ("b", "INT"), ("s", "STRING"))

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", *(name for name, _ in self.fields), *(["ts"] if self.timed else []))

    @cached_property
    def schema(self) -> pa.Schema:
        kinds = [("id", "INT"), *self.fields, *([("ts", "TIMESTAMP(6)")] if self.timed else [])]
        return pa.schema([(name, parse_type(kind).to_arrow()) for name, kind in kinds])

    def ddl(self) -> str:
        columns = ["id INT NOT NULL" if self.key else "id INT", *(f"{name} {kind}" for name, kind in self.fields)]
        columns += ["ts TIMESTAMP(3)", "WATERMARK FOR ts AS ts"] if self.timed else []
        columns += ["PRIMARY KEY (id) NOT ENFORCED"] if self.key else []
        options = f"'connector' = 'test', 'changelog-mode' = '{self.mode}'"
        return f"CREATE TABLE {self.name} ({', '.join(columns)}) WITH ({options})"


TABLES = (
    TableKind("one", "I", timed=True),
    TableKind("two", "I", timed=True),
    TableKind("ups", "I,UA,D", key=True),
    TableKind("pairs", "I,UB,UA,D", key=True),
    TableKind("bag", "I,D"),
    TableKind("versions", "I,UA,D", key=True, timed=True),
)


@dataclass(frozen=True)
class Act:
    """What happens to a table: a row is there from now on, or goes. ``row`` None: the row of ``key`` goes."""

    table: TableKind
    key: int
    row: Row | None


@dataclass(frozen=True)
class History:
    """Acts in the order in which they arrive; ``cuts`` are the numbers of changes in each micro-batch, over and
    again. ``only_keys``: deletions by key hold nothing else. ``lifted``: watermarks follow the rows, none of which is
    late. ``of``: the tables that there are.
    """

    acts: tuple[Act, ...]
    cuts: tuple[int, ...]
    only_keys: bool = False
    lifted: bool = False
    of: tuple[TableKind, ...] = TABLES

    def changes(self) -> list[tuple[TableKind, Change]]:
        return list(_changes(self.acts, self.only_keys))

    def micro_batches(self) -> Iterator[dict[str, list[Change]]]:
        changes = self.changes()
        start, number = 0, 0
        while start < len(changes):
            size = self.cuts[number % len(self.cuts)]
            batch: dict[str, list[Change]] = {}
            for table, change in changes[start : start + size]:
                batch.setdefault(table.name, []).append(change)
            yield batch
            start, number = start + size, number + 1

    def watermarks(self) -> list[int | None]:
        """For each micro-batch the watermark behind it, in microseconds: a millisecond before all times that come."""
        timed = {table.name for table in self.of if table.timed}
        times = [
            [row[-1] for name, of_table in batch.items() if name in timed for _, row in of_table]
            for batch in self.micro_batches()
        ]
        found: list[int | None] = []
        least: int | None = None
        for of_batch in reversed(times):
            found.append(None if least is None or not self.lifted else least - 1000)
            least = min([*of_batch, *([] if least is None else [least])], default=None)
        return found[::-1]

    def tables(self) -> Mapping[str, list[Row]]:
        """The rows that are there in the end."""
        found: dict[str, list[Row]] = {table.name: [] for table in self.of}
        for act in _possible(self.acts):
            rows = found[act.table.name]
            if act.table.key:
                rows[:] = [row for row in rows if row[0] != act.key]
            if act.row is not None and act.table.mode != "I,D":
                rows.append(act.row)
            elif act.table.mode == "I,D":
                _in_bag(rows, act)
        return found

    def versions(self) -> list[tuple[bool, Row]]:
        """What happened to the table with versions: whether the row goes, and the row."""
        return [(kind == "-D", row) for table, (kind, row) in self.changes() if table.name == "versions"]


def _in_bag(rows: list[Row], act: Act) -> None:
    """Deletions of a bag name the row by its values, which are those of ``row``."""
    assert act.row is not None
    if act.key < 0:
        rows.remove(act.row)
    else:
        rows.append(act.row)


def _possible(acts: tuple[Act, ...]) -> Iterator[Act]:
    """Without acts that take away what is not there: so each subset of acts is a history."""
    there: dict[tuple[str, Any], int] = {}
    for act in acts:
        name, mode = act.table.name, act.table.mode
        key = (name, act.row if mode == "I,D" else act.key)
        gone = act.row is None or (mode == "I,D" and act.key < 0)
        if gone:
            if not there.get(key):
                continue
            there[key] -= 1
        else:
            there[key] = there.get(key, 0) + 1 if mode == "I,D" else 1
        yield act


def _changes(acts: tuple[Act, ...], only_keys: bool) -> Iterator[tuple[TableKind, Change]]:
    now: dict[tuple[str, int], Row] = {}
    for act in _possible(acts):
        table = act.table
        if table.mode == "I":
            assert act.row is not None
            yield table, ("+I", act.row)
        elif table.mode == "I,D":
            assert act.row is not None
            yield table, ("-D" if act.key < 0 else "+I", act.row)
        else:
            yield from ((table, change) for change in _of_key(table, act, now, only_keys))


def _of_key(table: TableKind, act: Act, now: dict[tuple[str, int], Row], only_keys: bool) -> Iterator[Change]:
    before = now.pop((table.name, act.key), None)
    if act.row is not None:
        now[(table.name, act.key)] = act.row
    if before is None:
        assert act.row is not None
        yield "+I", act.row
    elif act.row is None:
        end = len(table.fields) + 1
        times = (before[-1] + MS // 2,) if table.timed else ()
        # Deletions of tables with updates by key may hold nothing but the key.
        nulls = only_keys and table.mode == "I,UA,D"
        yield "-D", (act.key, *([None] * len(table.fields) if nulls else before[1:end]), *times)
    else:
        if "UB" in table.mode:
            yield "-U", before
        yield "+U", act.row


def history(choice: Random, tables: tuple[TableKind, ...] = TABLES) -> History:
    count = choice.choice([0, 1, 3, 8, 20, 40])
    domain = choice.choice([3, 5, 9])
    absent = choice.choice([0.0, 0.1, 0.3])
    lifted = choice.random() < 0.5
    acts = [_act(choice, choice.choice(tables), number, count, domain, absent, lifted) for number in range(count)]
    size = choice.choice([1, 3, 8, 30])
    cuts = tuple(1 + choice.randrange(size) for _ in range(4))
    return History(tuple(with_bags(choice, acts)), cuts, choice.random() < 0.5, lifted, tables)


def _act(choice: Random, table: TableKind, number: int, count: int, domain: int, absent: float, lifted: bool) -> Act:
    key = choice.randrange(domain + 2) if table.key else number
    if table.key and choice.random() < 0.25:
        return Act(table, key, None)
    # Times differ: of rows of one time nobody knows which is the first.
    around = number + choice.randrange(6) if lifted else choice.randrange(60)
    times = [MS * (around * (count + 1) + number)] if table.timed else []
    a, b = (_value(choice, domain, absent) for _ in range(2))
    letter = None if choice.random() < absent else "xyzw"[choice.randrange(4)]
    return Act(table, key, (key, a, b, letter, *times))


def _value(choice: Random, domain: int, absent: float) -> int | None:
    return None if choice.random() < absent else choice.randrange(domain) - 1


def with_bags(choice: Random, acts: list[Act]) -> Iterator[Act]:
    """Of the rows of bags some come twice, and some go."""
    bag: list[Act] = []
    for act in acts:
        yield act
        if act.table.mode == "I,D":
            bag.append(act)
            if choice.random() < 0.2:
                bag.append(act)
                yield act
        if bag and choice.random() < 0.2:
            gone = bag.pop(choice.randrange(len(bag)))
            yield Act(gone.table, -1, gone.row)
