"""Rows a second of the connectors of changes: ``python -m tests.sqlstream.connectors.cdc_bench``.

PostgreSQL and MariaDB run on the same machine as the job. Measured are the copying of a table that is there, changes
into a table of PostgreSQL that is upserted, and one transaction of many rows beside as many rows in small ones, for
the memory of all processes. Each is a job in a process of its own; figures leave the first half of its micro-batches
out. Changes are made before the job goes on, so that it never waits for writers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.measure import Batches, Watch
from examples.throughput.windows import steady
from sqlstream.jobs import Job
from sqlstream.jobs.reports.counts import rows_read
from tests import mariadb_server, postgres_server

COLUMNS = "id BIGINT, customer INT, amount DECIMAL(10, 2), note STRING, PRIMARY KEY (id) NOT ENFORCED"
CREATED = "id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(10, 2), note VARCHAR(40)"
_CHANGED_ROWS, _PER_TRANSACTION = 100_000, 100

_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}'; SET 'pipeline.name' = 'copy';
CREATE TABLE t ({columns}) WITH ({source});
CREATE TABLE copies ({columns}) WITH ({sink});
"""


@dataclass(frozen=True)
class Database:
    """``insert``: the statement that adds rows to a table, with ids from one number to another."""

    name: str
    options: dict[str, str]
    execute: Callable[..., None]
    insert: Callable[[str, int, int], str]


@contextmanager
def postgres() -> Iterator[Database]:
    def insert(table: str, first: int, last: int) -> str:
        values = "i, i % 1000, (i % 100000)::numeric / 100, 'a note of ' || i"
        return f"INSERT INTO {table} SELECT {values} FROM generate_series({first}::bigint, {last}) i"

    with postgres_server.running_server() as server:
        options = {"connector": "postgres-cdc", **server.options}
        yield Database("PostgreSQL", options, server.execute, insert)


@contextmanager
def mariadb() -> Iterator[Database]:
    def insert(table: str, first: int, last: int) -> str:
        values = "seq, seq % 1000, (seq % 100000) / 100, CONCAT('a note of ', seq)"
        return f"INSERT INTO {table} SELECT {values} FROM seq_{first}_to_{last}"

    with mariadb_server.running_server("--innodb-buffer-pool-size=512M", "--max-binlog-size=1G") as server:
        options = {
            "connector": "mysql-cdc", "hostname": "127.0.0.1", "port": str(server.port), "username": "cdc",
            "password": mariadb_server.PASSWORD, "database-name": "shop",
        }  # fmt: skip
        yield Database("MariaDB", options, server.execute, insert)


def _update(first: int) -> str:
    """Changes rows in a transaction."""
    return f"UPDATE t SET amount = amount + 1 WHERE id >= {first} AND id < {first + _PER_TRANSACTION}"


# --- one job, in a process of its own -------------------------------------------------------------------------


def run(script: str, rows: int) -> Batches:
    """What a job reports until it has read so many rows, or for none, until it has a position."""
    with sqlstream.connect() as session:
        session.sql(script)
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql("INSERT INTO copies SELECT * FROM t")
            assert isinstance(job, Job)
            (query,) = session.spark.streams.active
            done = 0
            while done < rows or (not rows and query.lastProgress is None):
                assert not job.wait(0.5), "the job has ended"
                done = sum(rows_read(json.loads(report.json)) for report in query.recentProgress)
            job.stop()
        return watch.batches()


def in_a_process(script: str, rows: int) -> Batches:
    command = [sys.executable, "-m", "tests.sqlstream.connectors.cdc_bench", "--job", script, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return Batches(**json.loads(done.stdout.splitlines()[-1]))


# --- cases ----------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """Cases of a database. ``target``: options of tables of PostgreSQL that are written."""

    database: Database
    target: dict[str, str]
    execute_at_target: Callable[..., None]
    folder: Path
    numbers: int = 0

    def script(self, table: str, sink: dict[str, str], **more: str) -> str:
        self.numbers += 1
        slot = {"slot.name": f"{table}_slot"} if self.database.name == "PostgreSQL" else {}
        source = {**self.database.options, "table-name": table, **slot, **more}
        listed = [", ".join(f"'{key}' = '{value}'" for key, value in options.items()) for options in (source, sink)]
        folder = self.folder / f"{self.database.name}-{self.numbers}"
        return _SCRIPT.format(folder=folder, columns=COLUMNS, source=listed[0], sink=listed[1])

    def snapshot(self, rows: int) -> Batches:
        """The rows of a table into ``blackhole``."""
        self.database.execute(f"CREATE TABLE many ({CREATED})", self.database.insert("many", 1, rows))
        return in_a_process(self.script("many", {"connector": "blackhole"}), rows)

    def changes(self, changes: int) -> Batches:
        """Updates of rows, a hundred in a transaction, into a table that is upserted."""
        self.database.execute(f"CREATE TABLE t ({CREATED})", self.database.insert("t", 0, _CHANGED_ROWS - 1))
        name = f"copies_{self.database.name}".lower()
        self.execute_at_target(f"CREATE TABLE {name} ({CREATED})")
        sink = {"connector": "postgres", **self.target, "table-name": name}
        script = self.script("t", sink, **{"source.max-rows-per-trigger": "100000"})
        in_a_process(script, _CHANGED_ROWS)
        firsts = (n * 7919 % (_CHANGED_ROWS // 100) * 100 for n in range(changes // _PER_TRANSACTION))
        self.database.execute(*map(_update, firsts))
        return in_a_process(script, changes)

    def transaction(self, rows: int, of_each: int) -> Batches:
        """Rows that are inserted in transactions ``of_each``, into ``blackhole``."""
        table = f"inserted_{of_each}"
        self.database.execute(f"CREATE TABLE {table} ({CREATED})")
        script = self.script(table, {"connector": "blackhole"}, **{"scan.startup.mode": "latest-offset"})
        in_a_process(script, 0)
        firsts = range(1, rows + 1, of_each)
        self.database.execute(*(self.database.insert(table, n, min(n + of_each - 1, rows)) for n in firsts))
        return in_a_process(script, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000, help="of the table that is copied, and of a transaction")
    parser.add_argument("--changes", type=int, default=1_000_000, help="of rows, into a table that is upserted")
    parser.add_argument("--only", choices=("postgres", "mariadb"), help="one database")
    parser.add_argument("--case", choices=("snapshot", "changes", "transaction"), help="one case")
    parser.add_argument("--job", nargs=2, metavar=("SCRIPT", "ROWS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.job:
        sys.stdout.write(json.dumps(asdict(run(chosen.job[0], int(chosen.job[1])))) + "\n")
        return 0
    table = Table("database", "case", "rows/s", "MB of all processes")
    opened: dict[str, Any] = {"postgres": postgres, "mariadb": mariadb}
    for name in [chosen.only] if chosen.only else list(opened):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlstream-bench-")))
            target = stack.enter_context(postgres_server.running_server())
            database: Database = stack.enter_context(opened[name]())
            bench = Bench(database, target.options, target.execute, folder)
            cases: dict[str, tuple[str, Callable[[], Batches]]] = {
                f"snapshot of {chosen.rows:,} rows": ("snapshot", partial(bench.snapshot, chosen.rows)),
                f"{chosen.changes:,} updates, upserted": ("changes", partial(bench.changes, chosen.changes)),
                "transactions of 10,000 rows": ("transaction", partial(bench.transaction, chosen.rows, 10_000)),
                f"a transaction of {chosen.rows:,} rows": (
                    "transaction", partial(bench.transaction, chosen.rows, chosen.rows),
                ),
            }  # fmt: skip
            for shown, (case, measure) in cases.items():
                if chosen.case in (None, case):
                    result = steady(measure())
                    table.add_row(database.name, shown, f"{result.rows_per_second:,.0f}", str(result.peak_mb))
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
