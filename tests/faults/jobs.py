"""A job of every kind that keeps state, as scripts over the same events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.faults.events import CHANNELS, COLUMNS, SLOW_KEY

MODULE = "fault_functions"

FUNCTIONS = f"""
import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from sqlstream.udfs.process import ListState, ProcessContext, ProcessFunction, Row, Timer, ValueState


class Silent(NamedTuple):
    last: int
    rows: int
    ids: str


class Silence(ProcessFunction):
    '''The rows of a key between two silences.'''

    last = ValueState(int)
    rows = ValueState(int, default=0)
    ids = ListState(int)

    def eval(self, ctx: ProcessContext, input: Row, seconds: int) -> None:
        if self.last.value is not None:
            ctx.delete_timer("silence", self.last.value + seconds * 1000)
        self.last.value = max(ctx.time, self.last.value or 0)
        self.rows.value += 1
        self.ids.add(input.id)
        ctx.register_timer("silence", self.last.value + seconds * 1000)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Silent]:
        yield Silent(self.last.value, self.rows.value, " ".join(map(str, self.ids)))
        for state in (self.last, self.rows, self.ids):
            state.clear()


async def name_of(key: int) -> str:
    if key % 500 == {SLOW_KEY}:
        await asyncio.sleep(0.4)
    return f"n{{key}}"
"""

_SETTINGS = "SET 'pipeline.max-parallelism' = '8';\nSET 'execution.checkpointing.num-retained' = '5';"
_TUMBLE = (
    "SELECT k, window_start, COUNT(*), SUM(v), MIN(id), MAX(id) "
    "FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY k, window_start, window_end"
)
_OF_WINDOWS = "k BIGINT, at TIMESTAMP(3), n BIGINT, total BIGINT, first BIGINT, last BIGINT"
_OF_ROWS = "k BIGINT, n BIGINT, total BIGINT, first BIGINT, last BIGINT"
_COUNTED = "SELECT k, COUNT(*), SUM(v), MIN(id), MAX(id) FROM events GROUP BY k COUNT WINDOW (100 ROWS SLIDE 20 ROWS)"


_ONE_FILE = "'source.max-files-per-trigger' = '1'"
_PARTS = 3
"""Epochs of a file of a kind that is cut, about."""


@dataclass(frozen=True)
class Kind:
    """``tables``: the columns of each table that the job writes, as files of ``form``. ``work`` is its last statement.
    ``reads``: the format of its input, of which an epoch reads one file, or where these are ``cut`` a part of one.
    """

    tables: Mapping[str, str]
    work: str
    before: str = ""
    form: str = "parquet"
    reads: str = "parquet"
    cut: bool = False

    def script(self, events: Path, out: Path, *, watches: bool) -> str:
        """``events``: the folder with files of the format ``reads``. ``watches``: the job waits for more events, else
        it ends with those that there are.
        """
        reading = f", {_ONE_FILE}" + (", 'source.monitor-interval' = '500 ms'" if watches else "")
        reading += f", 'source.max-bytes-per-trigger' = '{_part_of_a_file(events)}'" if self.cut else ""
        source = _table(
            "events", f"{COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND", events, self.reads, reading
        )
        sinks = [_table(name, columns, out / name, self.form) for name, columns in self.tables.items()]
        return "\n".join([_SETTINGS, source, *sinks, self.before, self.work])


def _part_of_a_file(events: Path) -> int:
    """In bytes. Files of many rows would make more epochs than a run has time for."""
    return -(-min(events.iterdir()).stat().st_size // _PARTS)


def _table(name: str, columns: str, path: Path, form: str = "parquet", more: str = "") -> str:
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{form}'{more}"
    return f"CREATE TABLE {name} ({columns})\nWITH ({options});"


KINDS: Mapping[str, Kind] = {
    "tumble": Kind({"totals": _OF_WINDOWS}, f"INSERT INTO totals {_TUMBLE}"),
    "hop": Kind(
        {"totals": _OF_WINDOWS},
        "INSERT INTO totals SELECT k, window_start, COUNT(*), SUM(v), MIN(id), MAX(id) "
        "FROM HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) "
        "GROUP BY k, window_start, window_end",
    ),
    "session": Kind(
        {"totals": _OF_WINDOWS},
        "INSERT INTO totals SELECT k, window_start, COUNT(*), SUM(v), MIN(id), MAX(id) "
        "FROM SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
        "GROUP BY k, window_start, window_end",
    ),
    "count": Kind({"totals": _OF_ROWS}, f"INSERT INTO totals {_COUNTED}"),
    "operator": Kind(
        {"lists": "k BIGINT, at TIMESTAMP(3), ids STRING"},
        "INSERT INTO lists SELECT k, window_start, LISTAGG(CAST(id AS STRING), ' ') FROM events "
        "GROUP BY k, TUMBLE(ts, INTERVAL '10' MINUTE) TRIGGER EVERY 15 ROWS OR AFTER WATERMARK EVICT KEEP LAST 20 ROWS",
    ),
    "process": Kind(
        {"silences": "k BIGINT, last BIGINT, n BIGINT, ids STRING"},
        "INSERT INTO silences SELECT k, last, rows, ids FROM silence(TABLE events PARTITION BY k, "
        "on_time => DESCRIPTOR(ts), uid => 'silence', seconds => 15)",
        before=f"CREATE FUNCTION silence AS '{MODULE}:Silence' LANGUAGE PYTHON;",
    ),
    "barriers": Kind(
        {"totals": f"barrier BIGINT, {_OF_ROWS}"},
        "INSERT INTO totals SELECT MAX(barrier_id), k, COUNT(*), SUM(v), MIN(id), MAX(id) FROM events "
        f"ALIGN BARRIERS (CHANNEL channel OF {CHANNELS}, MARKER barrier IS NOT NULL, ID barrier) "
        "GROUP BY k GLOBAL WINDOW TRIGGER PURGING (ON BARRIER)",
    ),
    "deferred": Kind(
        {"named": "at TIMESTAMP(3), n BIGINT, rows_of STRING"},
        "INSERT INTO named SELECT window_start, COUNT(*), LISTAGG(CAST(id AS STRING) || '=' || n, ' ') "
        "FROM TUMBLE(TABLE names, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
        # Late rows are left out: which rows are late depends on the watermark that slow answers hold back.
        before=f"SET 'sqlstream.clock-interval' = '200 ms';\n"
        f"CREATE FUNCTION name_of AS '{MODULE}:name_of' LANGUAGE PYTHON;\n"
        "CREATE VIEW asked AS SELECT id, k, ts FROM events WHERE NOT late AND id % 10 = 0;\n"
        "CREATE VIEW names AS SELECT o.id, o.ts, f.n FROM asked AS o, LATERAL TABLE(name_of(o.k)) AS f(n) "
        "LOOKUP ASYNC (TIMEOUT INTERVAL '0.1' SECOND, ON TIMEOUT DEFER);",
    ),
    "set": Kind(
        {"totals": _OF_WINDOWS, "counted": _OF_ROWS},
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO totals {_TUMBLE}; INSERT INTO counted {_COUNTED}; END",
    ),
    # Epochs end within files, and each reads one file: which files are there at once changes no epoch.
    "cut": Kind(
        {"totals": _OF_WINDOWS},
        f"INSERT INTO totals {_TUMBLE}",
        cut=True,
    ),
    # The same, of formats that tasks decode: records of text, and blocks. Files of Arrow are read whole.
    **{
        f"cut_{form}": Kind({"totals": _OF_WINDOWS}, f"INSERT INTO totals {_TUMBLE}", reads=form, cut=True)
        for form in ("csv", "json", "avro")
    },
    "read_arrow": Kind({"totals": _OF_WINDOWS}, f"INSERT INTO totals {_TUMBLE}", reads="arrow"),
    # Tasks write the files, and commit them to the log of Spark's sink.
    "avro": Kind({"totals": _OF_WINDOWS}, f"INSERT INTO totals {_TUMBLE}", form="avro"),
    "arrow": Kind({"totals": _OF_WINDOWS}, f"INSERT INTO totals {_TUMBLE}", form="arrow"),
}
"""By name."""
