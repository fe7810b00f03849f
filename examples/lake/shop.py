"""What happens in the shop: clicks that are sent to Kafka, and orders that come, change and go in PostgreSQL.

The server is that of the package ``pgserver``, with data of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
from confluent_kafka import Producer

from examples.live.shop import PRODUCTS, Shop
from sqlstream.views.embedded import Server, embedded, release

MISSING = (
    "This demo needs PostgreSQL, whose package is not installed: pip install pgserver\n"
    "It is made for Python 3.11 and 3.12. With a newer one: make PYTHON=python3.12 VENV=.venv-lake demo-lake"
)

Row = tuple[Any, ...]

_TICKS_A_SECOND = 5
_SECONDS = 30
_CANCELLED = 10
"""One order in so many is cancelled; the others are shipped."""


class NoPostgres(Exception):
    """PostgreSQL is not installed; the text says what to install."""


@contextmanager
def postgres(folder: Path) -> Iterator[Server]:
    """A server of PostgreSQL whose log can be read, with an empty table of orders."""
    if find_spec("pgserver") is None:
        raise NoPostgres(MISSING)
    try:
        with psycopg.connect(embedded(folder).url, autocommit=True) as database:
            database.execute("ALTER SYSTEM SET wal_level = logical")
        release(folder)  # the last one that uses it stops it
        server = embedded(folder)
        with psycopg.connect(server.url) as database:
            database.execute(
                "CREATE TABLE orders (id bigint PRIMARY KEY, click bigint, product text, amount bigint, status text)"
            )
        yield server
    finally:
        release(folder)


class Traffic:
    """Sends clicks to the broker and changes orders in the database, ``rate`` events a second, until stopped. ``shop``
    says how many of both; ``campaigns`` are those of the clicks.
    """

    def __init__(self, brokers: str, server: Server, rate: int) -> None:
        self.shop = Shop(rate, datetime.now(UTC))
        self.campaigns: list[str] = []
        self._rate, self._server, self._brokers = rate, server, brokers
        self._settled = 0
        self._stopped, self._error = Event(), list[Exception]()
        self._thread = Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once both servers have all events. Raises the error that has ended them earlier."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self.require_alive()

    def require_alive(self) -> None:
        if self._error:
            raise self._error[0]

    def expected(self) -> list[Row]:
        """The rows that the Iceberg table must have: what PostgreSQL has, with the campaign of each click."""
        with psycopg.connect(self._server.url) as database:
            rows = database.execute("SELECT id, click, product, amount, status FROM orders ORDER BY id").fetchall()
        return [(key, self.campaigns[click], *rest) for key, click, *rest in rows]

    def _run(self) -> None:
        try:
            with psycopg.connect(self._server.url) as database:
                self._send(database)
        except Exception as error:
            self._error.append(error)

    def _send(self, database: psycopg.Connection[Row]) -> None:
        producer = Producer(
            {"bootstrap.servers": self._brokers, "linger.ms": 20, "enable.idempotence": True, "log_level": 3}
        )
        began, events = time.monotonic(), 0
        while not self._stopped.wait(1 / _TICKS_A_SECOND):
            due = int((time.monotonic() - began) * self._rate) - events
            orders = []
            for topic, _, fields in self.shop.events(due):
                if topic == "orders":
                    orders.append(fields)
                    continue
                producer.produce("clicks", json.dumps(fields))
                self.campaigns.append(str(fields["campaign"]))
            self._change(database, orders)
            events += due
            producer.poll(0)
        if left := producer.flush(_SECONDS):
            raise RuntimeError(f"the broker has not taken {left:,} messages")

    def _change(self, database: psycopg.Connection[Row], orders: Sequence[Mapping[str, object]]) -> None:
        """In one transaction: new orders, and those of about two seconds before are cancelled or shipped."""
        prices = [*PRODUCTS.items()]
        rows = []
        for order in orders:
            product, price = prices[int(str(order["product"]))]
            rows.append((order["id"], order["click"], product, price * int(str(order["pieces"]))))
        settled = max(self._settled, self.shop.orders - self._rate // 5)
        old = {"since": self._settled, "until": settled, "cancelled": _CANCELLED}
        with database.transaction(), database.cursor() as cursor:
            cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s, %s, 'open')", rows)
            mine = "id >= %(since)s AND id < %(until)s"
            cursor.execute(f"DELETE FROM orders WHERE {mine} AND id %% %(cancelled)s = 0", old)
            cursor.execute(f"UPDATE orders SET status = 'shipped' WHERE {mine}", old)
        self._settled = settled
