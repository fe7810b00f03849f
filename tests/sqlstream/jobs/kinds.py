# ruff: noqa: A002
"""Jobs of every kind with state, over files that come one after the other."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlstream.jobs import Job
from sqlstream.session import Session
from sqlstream.udfs.process import ListState, ProcessContext, ProcessFunction, Row, Timer, ValueState

Rows = Sequence[tuple[int, str, int, int | None]]


class Silent(NamedTuple):
    last: int
    ids: str


class Silence(ProcessFunction):
    """The rows of a key between two silences."""

    last = ValueState(int)
    ids = ListState(int)

    def eval(self, ctx: ProcessContext, input: Row, seconds: int) -> None:
        if self.last.value is not None:
            ctx.delete_timer("silence", self.last.value + seconds * 1000)
        self.last.value = ctx.time
        self.ids.add(input.id)
        ctx.register_timer("silence", self.last.value + seconds * 1000)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Silent]:
        yield Silent(self.last.value or 0, " ".join(map(str, self.ids)))
        self.last.clear()
        self.ids.clear()


def name_of(answers: Path) -> Callable[..., Any]:
    """A lookup that answers odd keys only when there is a file."""

    async def name(key: int) -> str:
        while key % 2 and not answers.exists():
            await asyncio.sleep(0.02)
        return f"n{key}"

    return name


@dataclass(frozen=True)
class Kind:
    """``first`` and ``then`` are (id, k, second) with a marker or None; ``work`` has the place of a change.

    ``pending``: the rows that wait for lookups and barriers behind ``first``.
    """

    tables: dict[str, str]
    work: str
    change: str
    first: Rows
    then: Rows
    pending: int = 0


ROWS = [(i, "abc"[i % 3], 2 * i, None) for i in range(12)]
LATER = [(i, "abcd"[i % 4], 2 * i, None) for i in range(12, 30)]
_TUMBLE = "TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '30' SECOND)"

KINDS = {
    "set": Kind(
        {"totals": "k STRING, n BIGINT, total BIGINT", "counted": "k STRING, n BIGINT", "odd": "id BIGINT"},
        f"""EXECUTE STATEMENT SET BEGIN
        INSERT INTO totals SELECT k, COUNT(*), SUM(id) FROM {_TUMBLE.format("events")}
            GROUP BY k, window_start, window_end;
        INSERT INTO counted SELECT k, COUNT(*) FROM events GROUP BY k COUNT WINDOW (3 ROWS);
        INSERT INTO odd SELECT id FROM events WHERE id % 2 = 1 {{change}};
        END""",
        "AND id < 1000",
        ROWS,
        LATER,
    ),
    "barriers": Kind(
        {"totals": "barrier BIGINT, k STRING, ids STRING"},
        """INSERT INTO totals SELECT MAX(barrier_id), k, LISTAGG(CAST(id AS STRING), ' ') FROM events
        ALIGN BARRIERS (CHANNEL k OF 2, MARKER marker IS NOT NULL, ID marker)
        GROUP BY k GLOBAL WINDOW TRIGGER PURGING (ON BARRIER) {change}""",
        "HAVING MAX(barrier_id) > 0 OR k > ''",
        [(1, "a", 1, None), (2, "b", 2, None), (3, "a", 3, 1), (4, "a", 4, None), (5, "a", 5, None)],
        [(6, "b", 6, None), (7, "b", 7, 1), (8, "b", 8, None), (9, "a", 9, 2), (10, "a", 9, None), (11, "b", 9, 2)],
        pending=2,
    ),
    "deferred": Kind(
        {"named": "n BIGINT, ids STRING"},
        """CREATE VIEW names AS SELECT o.id, o.ts, f.n FROM events AS o, LATERAL TABLE(name_of(o.id)) AS f(n)
        LOOKUP ASYNC (TIMEOUT INTERVAL '0.1' SECOND, ON TIMEOUT DEFER);"""
        f"""INSERT INTO named SELECT COUNT(*), LISTAGG(CAST(id AS STRING) || n, ' ') FROM {_TUMBLE.format("names")}
        GROUP BY window_start, window_end {{change}}""",
        "HAVING COUNT(*) < 1000",
        ROWS,
        LATER,
        pending=11,
    ),
    "process": Kind(
        {"silences": "k STRING, last BIGINT, ids STRING"},
        """INSERT INTO silences SELECT k, last, ids FROM silence(TABLE events PARTITION BY k,
        on_time => DESCRIPTOR(ts), uid => 'silence', seconds => 7) {change}""",
        "WHERE last > 0",
        ROWS,
        LATER,
    ),
}


class Run:
    """Jobs of one kind over one folder, each with a session of its own.

    ``watched``: a job that is started looks for more files until it is stopped.
    """

    def __init__(self, spark: Any, folder: Path, kind: Kind, *, watched: bool = True) -> None:
        self.spark, self.folder, self.kind, self.watched = spark, folder, kind, watched
        self.sessions: list[Session] = []
        (folder / "in").mkdir(parents=True)

    def put(self, number: int, rows: Rows) -> None:
        lines = (
            json.dumps({"id": row, "k": k, "marker": marker, "ts": f"2024-01-01 00:{s // 60:02d}:{s % 60:02d}"})
            for row, k, s, marker in rows
        )
        path = self.folder / f"in/{number}.json"
        path.with_suffix(".new").write_text("\n".join(lines))
        os.utime(path.with_suffix(".new"), (1_700_000_000 + number,) * 2)
        path.with_suffix(".new").rename(path)

    def start(self, checkpoints: str, change: str = "", **settings: str) -> Job:
        session = Session(self.spark)
        self.sessions.append(session)
        session.register_function("silence", Silence)
        session.register_function("name_of", name_of(self.folder / "answers"))
        known = {
            "execution.checkpointing.dir": f"{self.folder}/{checkpoints}",
            "parallelism.default": "1",
            "pipeline.max-parallelism": "4",
            "sqlstream.clock-interval": "200 ms",
        }
        for key, value in {**known, **settings}.items():
            session.sql(f"SET '{key}' = '{value}'")
        source = "id BIGINT, k STRING, marker BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
        options = ", 'source.max-files-per-trigger' = '1'"
        options += ", 'source.monitor-interval' = '50 ms'" if self.watched else ""
        session.sql(self._table("events", source, "in", options))
        for name, columns in self.kind.tables.items():
            session.sql(self._table(name, columns, f"out/{name}"))
        job = session.sql(self.kind.work.format(change=change))
        assert isinstance(job, Job)
        return job

    def _table(self, name: str, columns: str, path: str, more: str = "") -> str:
        options = f"'connector' = 'filesystem', 'path' = '{self.folder}/{path}', 'format' = 'json'{more}"
        return f"CREATE TABLE {name} ({columns}) WITH ({options})"

    def output(self) -> dict[str, Counter[str]]:
        """The lines of each table."""
        return {
            name: Counter(
                line
                for path in (self.folder / "out" / name).rglob("*.json")
                if not path.name.startswith(".")
                for line in path.read_text().splitlines()
            )
            for name in self.kind.tables
        }

    def close(self) -> None:
        for session in self.sessions:
            session.close()


def undisturbed(spark: Any, folder: Path, kind: Kind) -> dict[str, Counter[str]]:
    run = Run(spark, folder, kind)
    (folder / "answers").touch()
    run.put(1, kind.first)
    run.put(2, kind.then)
    run.start("checkpoints").stop(drain=True)
    run.close()
    return run.output()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
