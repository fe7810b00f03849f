"""What happens in the shop: its products, and clicks and orders that are sent to Kafka at a steady rate."""

from __future__ import annotations

import json
import logging
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sqlstream.udfs.kafka import admin

PARTITIONS = 2
CAMPAIGNS = ("autumn", "friends", "mailing", "newspaper", "radio", "search", "social", "television")
PRODUCTS: Mapping[str, int] = {
    "bicycle": 899, "boots": 129, "chair": 79, "coat": 199, "guitar": 349, "kettle": 39, "lamp": 49, "novel": 14,
    "radio": 59, "tent": 249,
}  # fmt: skip
"""Prices by name."""

_TICKS_A_SECOND = 20
_CLICKS_BEFORE_AN_ORDER = 9
_SECONDS = 30


def write_products(path: Path) -> None:
    """The table that orders are looked up in, as a file of SQLite."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)")
        database.executemany("INSERT INTO products VALUES (?, ?, ?)", [(n, *p) for n, p in enumerate(PRODUCTS.items())])


@dataclass
class Shop:
    """Makes events, ``rate`` of them a second from ``opening`` on: nine clicks, then an order, which follows one of the
    clicks of about the last second. ``revenue``: what orders are worth, by campaign.
    """

    rate: int
    opening: datetime
    clicks: int = 0
    orders: int = 0
    revenue: Counter[str] = field(default_factory=Counter)
    _chance: random.Random = field(default_factory=lambda: random.Random(11))
    _campaigns: list[str] = field(default_factory=list)

    def events(self, count: int) -> Iterator[tuple[str, int, Mapping[str, object]]]:
        """So many events: the topic of each, its number there, and its fields."""
        for _ in range(count):
            at = self.opening + timedelta(seconds=(self.clicks + self.orders) / self.rate)
            text = at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
            if self.clicks < _CLICKS_BEFORE_AN_ORDER * (self.orders + 1):
                yield "clicks", self.clicks, {"click": self.clicks, "campaign": self._clicked(), "at": text}
            else:
                yield "orders", self.orders, {**self._ordered(), "at": text}

    def _clicked(self) -> str:
        campaign = CAMPAIGNS[min(int(self._chance.expovariate(0.4)), len(CAMPAIGNS) - 1)]
        self._campaigns.append(campaign)
        del self._campaigns[: -self.rate]
        self.clicks += 1
        return campaign

    def _ordered(self) -> Mapping[str, object]:
        index = self._chance.randrange(len(self._campaigns))
        product, pieces = self._chance.randrange(len(PRODUCTS)), self._chance.randint(1, 3)
        self.revenue[self._campaigns[index]] += pieces * [*PRODUCTS.values()][product]
        order = {"id": self.orders, "click": self.clicks - len(self._campaigns) + index}
        self.orders += 1
        return {**order, "product": product, "pieces": pieces}


class Traffic:
    """Sends ``rate`` events a second to the broker, on a thread of its own, until stopped."""

    def __init__(self, brokers: str, rate: int) -> None:
        self._rate = rate
        self.shop = Shop(rate, datetime.now(UTC))
        self.sent: Counter[str] = Counter()
        """Messages by topic."""
        settings = {"bootstrap.servers": brokers, "linger.ms": 20, "enable.idempotence": True}
        self._producer = Producer(settings, logger=logging.getLogger("sqlstream.kafka"))  # not over the page
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the broker has all that was sent."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        began, events = time.monotonic(), 0
        self.shop.opening = datetime.now(UTC)
        while not self._stopped.wait(1 / _TICKS_A_SECOND):
            due = int((time.monotonic() - began) * self._rate) - events
            for topic, number, fields in self.shop.events(due):
                self._producer.produce(topic, json.dumps(fields), partition=number % PARTITIONS)
                self.sent[topic] += 1
            events += due
            self._producer.poll(0)
        if left := self._producer.flush(_SECONDS):
            raise RuntimeError(f"the broker has not taken {left:,} messages")


def make_topics(brokers: str) -> None:
    """The topics that are read; the one that is written is created by its job."""
    client = admin.admin_of(None, {"bootstrap.servers": brokers})
    try:
        for answer in client.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("clicks", "orders")]).values():
            answer.result(_SECONDS)
    finally:
        admin.close(client)
