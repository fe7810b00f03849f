"""LOOKUP ASYNC against an HTTP server with 20 ms latency, PostgreSQL and Redis: rows per second, as tables.

``make bench-lookup``, or ``python -m examples.throughput.lookups [--seconds 2] [--rounds 2] [--only http] [--no-sql]``.
The operator runs without an engine, one task, over Arrow batches of distinct keys; the servers are processes of their
own on the same machine. *Ideal* is capacity / latency, *bare* what the plainest client gets with as many requests at
the same time (a session of aiohttp, psycopg, redis-py, on asyncio's own loop), measured in turns with it. The ratio is
that to the lesser of the two. Rates are of the middle of a run, without its start and end. *CPU* is processor time of
this process per request, in ms: it tells more than rates where the machine does other work. The last goes through SQL.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from examples.lookups.servers import place, postgres_server, process, redis_server
from examples.throughput import bare_clients
from examples.throughput.clock import Clock, Speed
from examples.throughput.lookup_server import LATENCY_S, SLOW_EVERY, SLOW_S
from sqlstream.connectors import Environment, lookup_connector
from sqlstream.planner.catalog import Column
from sqlstream.planner.catalog import Table as Declared
from sqlstream.types import BIGINT, STRING
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnTimeout, Order
from sqlstream.udfs.lookup.source import LookupSource, Request

ITEMS = 200_000
"""Rows in PostgreSQL and keys in Redis; HTTP has an answer for every id."""

BATCH_ROWS = 1_000
CAPACITIES = (1, 10, 100, 1000)
ORDERS = (Order.ORDERED, Order.UNORDERED, Order.KEY_ORDERED)
HOT_KEYS = 1_000
FOREVER_MS = 180_000
TIMEOUT_MS = 200


@dataclass(frozen=True)
class Server:
    """``latency_s``: what the server adds, or None where it answers as fast as it can."""

    kind: str
    address: str
    source: LookupSource
    latency_s: float | None = None

    def ideal(self, capacity: int, bare_of_one: float) -> float:
        latency = self.latency_s or 1 / bare_of_one
        return capacity / latency


# --- servers --------------------------------------------------------------------------------------------------


@contextmanager
def servers(folder: Path, kinds: list[str]) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        speeds = []
        if "http" in kinds:
            command = [sys.executable, "-m", "examples.throughput.lookup_server"]
            address = stack.enter_context(process(command, "listening on ")).split()[-1]
            speeds.append(Server("http", address, http_source(address), LATENCY_S))
        if "postgres" in kinds:
            address = stack.enter_context(postgres_server(folder / "postgres"))
            _fill_postgres(address)
            speeds.append(Server("postgres", address, _source("postgres", {"url": address, "table-name": "items"})))
        if "redis" in kinds:
            address = stack.enter_context(redis_server(folder / "redis"))
            _fill_redis(address)
            speeds.append(Server("redis", address, _source("redis", {"url": address, "key": "item:{id}"})))
        yield speeds


def http_source(address: str, path: str = "items") -> LookupSource:
    return _source("http", http_options(address, path))


def http_options(address: str, path: str = "items") -> dict[str, str]:
    return {"url": f"{address}/{path}/{{id}}", "batch.url": f"{address}/items", "batch.body": "{keys}"}


def _source(kind: str, options: dict[str, str]) -> LookupSource:
    """What a table of the connector gives to the operator."""
    table = Declared("items", (Column("id", BIGINT), Column("name", STRING)), kind, tuple(options.items()))
    lookup = lookup_connector(kind).lookup
    session: Any = SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"})
    return lookup(Environment(session, Path()), table, Request((("id", BIGINT),), (("name", STRING),)))


def _fill_postgres(address: str) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT)")
        text = io.StringIO("".join(f"{i},item {i}\n" for i in range(ITEMS)))
        with connection.cursor().copy("COPY items FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.read())
        connection.execute("ANALYZE items")


def _fill_redis(address: str) -> None:
    import redis

    with redis.Redis.from_url(address) as client:
        for start in range(0, ITEMS, 10_000):
            with client.pipeline(transaction=False) as pipeline:
                for i in range(start, start + 10_000):
                    pipeline.hset(f"item:{i}", "name", f"item {i}")
                pipeline.execute()


# --- measuring ------------------------------------------------------------------------------------------------


def batches(rows: int, keys: int = ITEMS) -> Iterator[pa.RecordBatch]:
    """Rows with ids from 0 to ``keys``, over and over."""
    for start in range(0, rows, BATCH_ROWS):
        ids = pa.array([i % keys for i in range(start, min(start + BATCH_ROWS, rows))], pa.int64())
        yield pa.record_batch({"id": ids})


def measured(source: LookupSource, options: LookupOptions, rows: int, keys: int = ITEMS) -> Speed:
    """Of one task; each call has caches and connections of its own, opened before the clock starts."""
    from sqlstream.udfs.lookup import asking as worker

    deferred = "deferred" if options.defers else None
    lookup = LookupRows((LookupStep(0, source, ("id",), "answers", options, deferred=deferred),))
    for _ in lookup.rows(batches(1)):
        pass
    clock = Clock(rows)
    for batch in lookup.rows(batches(rows, keys)):
        clock.count(batch.num_rows)
    assert clock.done == rows + 1, f"{clock.done - 1} rows came back of {rows}"  # one row holds the metrics
    speed = clock.speed()
    worker.worker().close()
    return speed


def rows_per_second(source: LookupSource, options: LookupOptions, rows: int, keys: int = ITEMS) -> float:
    return measured(source, options, rows, keys).rate


def rows_for(rate: float, seconds: float, capacity: int) -> int:
    """So many that a run takes about ``seconds``, and never so few that the capacity is not used."""
    return max(int(rate * seconds), 4 * capacity, 20)


def best(rounds: int, *measurements: Callable[[], Speed]) -> list[Speed]:
    """The best of each, measured in turns: other load of the machine makes a run slower, never faster."""
    speeds = [[measure() for measure in measurements] for _ in range(rounds)]
    return [Speed(max(s.rate for s in of_one), min(s.cpu_ms for s in of_one)) for of_one in zip(*speeds, strict=True)]


def by_order(server: Server, seconds: float, rounds: int) -> Table:
    """Each order and capacity beside the ideal and the bare client."""
    table = _table(
        f"{server.kind}: rows/s by order and capacity",
        ["capacity", "ideal", "bare", *(o.value.lower() for o in ORDERS), "least ratio", "CPU, bare", "CPU"],
    )
    bare_of_one = 0.0
    for capacity in CAPACITIES:
        guess = server.ideal(capacity, bare_of_one) if server.latency_s or bare_of_one else 500.0
        count = rows_for(min(guess, 4_000), seconds, capacity)
        options = [LookupOptions(order=o, capacity=capacity, timeout_ms=FOREVER_MS) for o in ORDERS]
        bare, *rates = best(
            rounds,
            partial(bare_clients.measured, server.kind, server.address, capacity, count),
            *(partial(measured, server.source, o, count) for o in options),
        )
        bare_of_one = bare_of_one or bare.rate
        ideal = server.ideal(capacity, bare_of_one)
        cells = [f"{capacity:,}", f"{ideal:,.0f}", f"{bare.rate:,.0f}", *(f"{item.rate:,.0f}" for item in rates)]
        ratio = min(item.rate for item in rates) / min(ideal, bare.rate)
        table.add_row(*cells, f"{ratio:.0%}", f"{bare.cpu_ms:.2f}", f"{max(item.cpu_ms for item in rates):.2f}")
    return table


def with_batch_and_cache(servers: list[Server], seconds: float) -> Table:
    """UNORDERED, with batches of 50 keys and with a cache that holds every one of 1,000 keys after the first round."""
    table = _table(
        "UNORDERED with BATCH 50, with CACHE 10000 ROWS over 1,000 keys, and with both: rows/s",
        ["source", "capacity", "plain", "batch", "cache", "both"],
    )
    for server in servers:
        for capacity in (10, 100):
            plain = LookupOptions(order=Order.UNORDERED, capacity=capacity, timeout_ms=FOREVER_MS)
            first = rows_per_second(server.source, plain, rows_for(min(capacity / LATENCY_S, 1_500), seconds, capacity))
            batched = replace(plain, batch=50)
            rates = [first, rows_per_second(server.source, batched, int(first * 5 * seconds))]
            rates += [
                rows_per_second(server.source, replace(options, cache=Cache(10_000)), int(30_000 * seconds), HOT_KEYS)
                for options in (plain, batched)
            ]
            table.add_row(server.kind, f"{capacity}", *(f"{rate:,.0f}" for rate in rates))
    return table


def with_slow_requests(server: Server, seconds: float, rounds: int) -> Table:
    """One request in a hundred takes 2 s."""
    title = f"http, UNORDERED, capacity 100, one request in {SLOW_EVERY} takes {SLOW_S:.0f} s"
    table = _table(title, ["", "rows/s", "of the first", "CPU"])
    plain = LookupOptions(order=Order.UNORDERED, capacity=100, timeout_ms=FOREVER_MS)
    limit = replace(plain, timeout_ms=TIMEOUT_MS)
    slow = http_source(server.address, "slow")
    count = rows_for(3_000, 4 * seconds, 100)
    cases = {
        "all take 20 ms": (server.source, plain),
        "waits": (slow, plain),
        f"NULL after {TIMEOUT_MS} ms": (slow, replace(limit, on_timeout=OnTimeout.NULL)),
        f"DEFER after {TIMEOUT_MS} ms": (slow, replace(limit, on_timeout=OnTimeout.DEFER)),
    }
    actual = best(rounds, *(partial(measured, source, options, count) for source, options in cases.values()))
    for name, speed in zip(cases, actual, strict=True):
        table.add_row(name, f"{speed.rate:,.0f}", f"{speed.rate / actual[0].rate:.0%}", f"{speed.cpu_ms:.2f}")
    return table


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


# --- SQL ------------------------------------------------------------------------------------------------------

_SQL = """
CREATE TABLE ids (id BIGINT, pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet');
CREATE TABLE items (id BIGINT, name STRING) WITH ('connector' = 'http', {options});
CREATE TABLE nowhere (id BIGINT, name STRING) WITH ('connector' = 'blackhole');
"""
_INSERT = """
INSERT INTO nowhere SELECT i.id, t.name FROM ids AS i
JOIN items FOR SYSTEM_TIME AS OF i.pt AS t LOOKUP ASYNC (OUTPUT UNORDERED, CAPACITY {capacity}) ON t.id = i.id
"""


def through_sql(server: Server, folder: Path, rows: int) -> Table:
    """The same lookup in a query, in two tasks; the whole job counts, and the one micro-batch that asks."""
    import sqlstream
    from sqlstream.jobs import Job

    folder.mkdir()
    for part in range(2):
        pq.write_table(pa.table({"id": pa.array(range(part * rows // 2, (part + 1) * rows // 2))}), folder / f"{part}")
    options = ", ".join(f"'{key}' = '{value}'" for key, value in http_options(server.address).items())
    table = _table(f"SQL on Spark, 2 tasks, {rows:,} rows over http", ["capacity", "rows/s of the batch", "job, s"])
    with sqlstream.connect("local[2]") as session:
        session.sql(_SQL.format(folder=folder, options=options))
        for capacity in (100, 100):  # the first warms up
            begin = time.perf_counter()
            job = session.sql(_INSERT.format(capacity=capacity))
            assert isinstance(job, Job)
            job.wait()
            whole = time.perf_counter() - begin
            rate = job.progress().rows_per_second
        table.add_row(f"{capacity}", f"{rate:,.0f}", f"{whole:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2, help="of a measurement, about")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    parser.add_argument("--only", choices=("http", "postgres", "redis"), help="one of the servers")
    parser.add_argument("--no-sql", action="store_true", help="leave out Spark")
    chosen = parser.parse_args()
    console = Console()
    kinds = [chosen.only] if chosen.only else ["http", "postgres", "redis"]
    with place() as folder, servers(folder, kinds) as running:
        console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, servers on the same machine")
        for server in running:
            console.print(by_order(server, chosen.seconds, chosen.rounds))
        console.print(with_batch_and_cache(running, chosen.seconds))
        if running[0].kind == "http":
            console.print(with_slow_requests(running[0], chosen.seconds, chosen.rounds))
            if not chosen.no_sql:
                console.print(through_sql(running[0], folder / "ids", 10_000))


if __name__ == "__main__":
    main()
