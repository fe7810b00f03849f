"""Orders of PostgreSQL and clicks of Kafka in an Iceberg table, which DuckDB reads while it grows.

``make demo-lake``, or ``python -m examples.lake.demo [--seconds 60] [--rate 1000]``. It starts PostgreSQL and Kafka,
changes orders in the one and sends clicks to the other, runs ``orders.sql``, and asks DuckDB every two seconds what the
table has. Then the table is compared with PostgreSQL, and all that was started ends.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from rich.console import Console

import sqlstream
from examples.lake.shop import NoPostgres, Row, Traffic, postgres
from examples.live.shop import make_topics
from sqlstream.cli.execution import terminated
from sqlstream.cli.terminal import INTERRUPTED
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job, JobState
from sqlstream.testing.kafka_broker import BrokerError, running_broker
from sqlstream.views.embedded import Server

SECONDS, RATE = 60.0, 1_000
_HERE = Path(__file__).parent
_LOOK_SECONDS, _PATIENCE_SECONDS = 2.0, 300.0
_BEST = """
    SELECT campaign, SUM(amount) FROM orders WHERE status = 'shipped' GROUP BY campaign ORDER BY 2 DESC, 1 LIMIT 1
"""


class Differs(Exception):
    """The table is not what PostgreSQL has."""


class Lake:
    """The Iceberg table as others see it: by its catalog, and with DuckDB, by its extension for Iceberg where that is
    installed, else over what pyiceberg reads.
    """

    def __init__(self, folder: Path) -> None:
        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/lake"
        self._catalog = load_catalog("default", type="sql", uri=uri, warehouse=warehouse)
        self._database = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        self.has_extension = True
        try:
            self._database.execute("LOAD iceberg")
        except duckdb.Error:
            self.has_extension = False

    def table(self) -> Table | None:
        """The newest version; None before the job has made it."""
        try:
            return self._catalog.load_table("shop.orders")
        except NoSuchTableError:
            return None

    def ask(self, table: Table, query: str) -> list[Row]:
        """The answer of DuckDB to a query of ``orders``."""
        if self.has_extension:
            source = f"iceberg_scan('{table.metadata_location}')"
            self._database.execute(f"CREATE OR REPLACE TEMP VIEW orders AS FROM {source}")
        else:
            self._database.register("orders", table.scan().to_arrow())
        rows: list[Row] = self._database.execute(query).fetchall()
        return rows

    def close(self) -> None:
        self._database.close()
        self._catalog.close()


class Demo:
    """The job of the script, what it reads, and the table that it writes."""

    def __init__(self, session: sqlstream.Session, brokers: str, server: Server, folder: Path, rate: int) -> None:
        values = {
            "brokers": brokers, "folder": str(folder), "user": "sqlstream", "password": server.password,
            "database": f"postgresql://127.0.0.1:{server.port}/views",
        }  # fmt: skip
        self._script = (_HERE / "orders.sql").read_text(encoding="utf-8")
        for name, value in values.items():
            self._script = self._script.replace(f"${{{name}}}", value)
        self._session = session
        self.traffic = Traffic(brokers, server, rate)
        self.lake = Lake(folder)

    @property
    def job(self) -> Job:
        (job,) = self._session.jobs
        return job

    def follow(self, seconds: float, say: Callable[[str], None]) -> None:
        """Starts the job, and says what DuckDB finds while events come, for so long after the first snapshot."""
        self._session.sql(self._script)
        self.traffic.start()
        began, first = time.monotonic(), None
        while first is None or time.monotonic() - first < seconds:
            time.sleep(_LOOK_SECONDS)
            self.traffic.require_alive()
            if self.job.state is JobState.FAILED and self.job.exception is not None:
                raise self.job.exception
            found = self._found()
            if not found and time.monotonic() - began > _PATIENCE_SECONDS:
                raise Differs(f"the job has written nothing in {_PATIENCE_SECONDS:.0f} s")
            say(f"{time.monotonic() - began:.0f} s: {self._sent()}; {found or 'DuckDB finds no snapshot yet'}")
            first = time.monotonic() if found and first is None else first

    def _sent(self) -> str:
        shop = self.traffic.shop
        return f"{shop.clicks:,} clicks and {shop.orders:,} orders so far"

    def _found(self) -> str:
        table = self.lake.table()
        if table is None or not table.snapshots():
            return ""
        ((count, shipped),) = self.lake.ask(table, "SELECT COUNT(*), COUNT(*) FILTER (status = 'shipped') FROM orders")
        best = "".join(f", {name} leads with {amount:,}" for name, amount in self.lake.ask(table, _BEST))
        return f"DuckDB finds {count:,} orders, {shipped:,} shipped, in snapshot {len(table.snapshots())}{best}"

    def drain(self) -> None:
        """Nothing more comes, and the job reads what there is."""
        self.traffic.stop()
        self.job.stop(drain=True)

    def summary(self) -> Iterator[str]:
        """Differs where the table is not what PostgreSQL has."""
        table, expected = self.lake.table(), self.traffic.expected()
        found = [] if table is None else self.lake.ask(table, "SELECT * FROM orders ORDER BY id")
        if table is None or found != expected:
            other = len({*found} ^ {*expected})
            raise Differs(f"PostgreSQL has {len(expected):,} orders, Iceberg {len(found):,}; {other:,} rows differ")
        shop, progress, snapshots = self.traffic.shop, self.job.progress(), len(table.snapshots())
        yield f"{shop.clicks:,} clicks and {shop.orders:,} orders were sent; {shop.orders - len(expected):,} cancelled."
        yield f"The Iceberg table has the {len(found):,} others as PostgreSQL has them, in {snapshots} snapshots."
        yield (
            f"{self.job.name}: {progress.rows_in:,} rows in, {progress.rows_out:,} out, {progress.batches} "
            f"micro-batches, {progress.restarts} restarts"
        )

    def close(self) -> None:
        self.traffic.stop()
        self.lake.close()


@contextmanager
def running(rate: int, say: Callable[[str], None]) -> Iterator[Demo]:
    """The demo with servers and a Spark of its own, all of which end with it."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-lake-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL of root is that of another user
        say("starting PostgreSQL, and Kafka, which is fetched the first time")
        with postgres(folder / "postgres") as server, running_broker(folder / "kafka") as broker:
            make_topics(broker.address)
            say("starting Spark")
            settings = {"execution.checkpointing.dir": str(folder / "checkpoints"), "parallelism.default": "2"}
            with sqlstream.connect(**settings) as session:
                demo = Demo(session, broker.address, server, folder, rate)
                try:
                    yield demo
                finally:
                    demo.close()


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 where the table is what PostgreSQL has."""
    parser = argparse.ArgumentParser(description="PostgreSQL and Kafka in an Iceberg table that DuckDB reads.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long events come (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=RATE, help="events a second (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    console = Console(highlight=False)

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    try:
        with terminated(), running(chosen.rate, lambda text: say(f"{text} …")) as demo:
            if not demo.lake.has_extension:
                say("DuckDB's extension for Iceberg is not installed: it reads what pyiceberg reads.")
            demo.follow(chosen.seconds, say)
            say("the input ends …")
            demo.drain()
            for line in demo.summary():
                say(line)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokerError, Differs, NoPostgres, SqlStreamError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
