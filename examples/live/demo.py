"""Clicks and orders of a shop through Kafka: two minutes of joins, windows, lookups and results that move.

``make demo-live``, or ``python -m examples.live.demo [--seconds 120] [--rate 5000]``. It starts a broker of Kafka,
sends events to it, runs ``shop.sql`` and shows how that goes. Then both results are compared with what was sent, and
all that was started ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.live import Live
from rich.syntax import Syntax

import sqlstream
from examples.live.page import Figures, Watched, lines, page
from examples.live.shop import Traffic, make_topics, write_products
from sqlstream.cli.execution import terminated
from sqlstream.cli.terminal import INTERRUPTED
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import JobState
from sqlstream.spark.tuning.standard_error import keep_stderr
from sqlstream.testing.kafka_broker import BrokerError, running_broker

SECONDS, RATE = 120.0, 5_000
_HERE = Path(__file__).parent
_LOOK_SECONDS, _LINES_SECONDS = 0.25, 2.0

Ranking = list[tuple[str, int, int]]


class Differs(Exception):
    """A result is not what was sent."""


class Results:
    """Both results as their readers see them: the view's file, and the topic, followed by a consumer."""

    def __init__(self, brokers: str, folder: Path) -> None:
        self._brokers, self._file = brokers, folder / "best_sellers" / "rows.parquet"
        self._consumer: Consumer | None = None
        self._is_assigned = False
        self._campaigns: dict[str, tuple[int, int]] = {}

    def sellers(self) -> tuple[str, Ranking]:
        """The end of the view's newest window, and its rows."""
        rows = self.view()
        if not rows:
            return "", []
        newest = max(row["window_end"] for row in rows)
        ranking = [(row["product"], row["orders"], row["revenue"]) for row in rows if row["window_end"] == newest]
        return f"{newest:%H:%M:%S}", _best_first(ranking)

    def view(self) -> list[dict[str, Any]]:
        with suppress(OSError, pa.ArrowInvalid):  # not there yet, or just replaced
            rows: list[dict[str, Any]] = pq.read_table(self._file).to_pylist()
            return rows
        return []

    def campaigns(self) -> Ranking:
        """The last row of each key."""
        for message in self._consume():
            if message.error() is None:
                row = json.loads(message.value())
                self._campaigns[row["campaign"]] = (row["orders"], row["revenue"])
        return _best_first([(name, *counts) for name, counts in self._campaigns.items()])

    def _consume(self) -> list[Any]:
        if self._consumer is None:
            self._consumer = Consumer(
                {"bootstrap.servers": self._brokers, "group.id": "page", "enable.auto.commit": False}
            )
        if not self._is_assigned:
            topic = self._consumer.list_topics(timeout=10).topics.get("campaigns")
            if topic is None:  # its job has written nothing yet
                return []
            self._consumer.assign([TopicPartition("campaigns", number, 0) for number in topic.partitions])
            self._is_assigned = True
        return self._consumer.consume(10_000, 0.05)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _orders(ranking: Ranking) -> int:
    return sum(orders for _, orders, _ in ranking)


def _best_first(ranking: Ranking) -> Ranking:
    return sorted(ranking, key=lambda row: (-row[2], row[0]))


class Demo:
    """The jobs of the script, the traffic that they read, and what is seen of both."""

    def __init__(self, session: sqlstream.Session, brokers: str, folder: Path, rate: int) -> None:
        self._session, self._brokers, self._folder = session, brokers, folder
        self.traffic = Traffic(brokers, rate)
        self.results = Results(brokers, folder)
        self._watched: list[Watched] = []
        self._began = 0.0

    def start(self) -> None:
        """Both jobs run, and events come from now on."""
        text = script().replace("${brokers}", self._brokers).replace("${folder}", str(self._folder))
        self._session.sql(text)
        self._began = time.monotonic()
        self._watched = [Watched(job, self._began) for job in self._session.jobs]
        self.traffic.start()

    def figures(self, limit: float) -> Figures:
        """Raises the error of a job that has failed."""
        for failed in (watched.job for watched in self._watched if watched.job.state is JobState.FAILED):
            assert failed.exception is not None
            raise failed.exception
        seconds, sent = time.monotonic() - self._began, self.traffic.sent
        window, sellers = self.results.sellers()
        total = sum(sent.values())
        jobs = [watched.figures(sent) for watched in self._watched]
        return Figures(seconds, limit, total, total / seconds, jobs, window, sellers, self.results.campaigns())

    def follow(self, seconds: float, show: Callable[[Figures], None]) -> None:
        while True:
            figures = self.figures(seconds)
            show(figures)
            if figures.seconds >= seconds:
                return
            time.sleep(_LOOK_SECONDS)

    def drain(self) -> None:
        """Nothing more comes, and both jobs read what there is and close their windows."""
        self.traffic.stop()
        for watched in self._watched:
            watched.job.stop(drain=True)

    def summary(self) -> Iterator[str]:
        """Differs where a result is not what was sent."""
        shop, view = self.traffic.shop, self.results.view()
        deadline = time.monotonic() + 10
        campaigns = self.results.campaigns()
        while _orders(campaigns) < shop.orders and time.monotonic() < deadline:
            campaigns = self.results.campaigns()
        counted = sum(row["orders"] for row in view), _orders(campaigns)
        earned = sum(row["revenue"] for row in view), {name: revenue for name, _, revenue in campaigns}
        if counted != (shop.orders,) * 2 or earned != (shop.revenue.total(), dict(shop.revenue)):
            raise Differs(f"{shop.orders:,} orders were sent, the view has {counted[0]:,}, the topic {counted[1]:,}")
        windows = len({row["window_end"] for row in view})
        yield f"{shop.clicks:,} clicks and {shop.orders:,} orders were sent, worth {shop.revenue.total():,}."
        yield f"The view has all of them, in {windows} windows; the topic, too, by {len(campaigns)} campaigns."
        for watched in self._watched:
            progress = watched.job.progress()
            mean = progress.busy_ms / max(1, progress.batches)
            yield (
                f"{watched.job.name}: {progress.rows_in:,} rows in, {progress.rows_out:,} out, {progress.batches} "
                f"micro-batches of {mean:,.0f} ms, {progress.late_rows:,} late rows, {progress.restarts} restarts"
            )

    def close(self) -> None:
        self.traffic.stop()
        self.results.close()


def script() -> str:
    return (_HERE / "shop.sql").read_text(encoding="utf-8")


@contextmanager
def running(rate: int, say: Callable[[str], None]) -> Iterator[Demo]:
    """The demo with a broker and a Spark of its own, all of which end with it."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-live-") as name:
        folder = Path(name)
        write_products(folder / "shop.sqlite")
        say("starting Kafka, which is fetched the first time")
        with running_broker(folder / "kafka") as broker:
            make_topics(broker.address)
            say("starting Spark")
            settings = {
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "sqlstream.views.dir": str(folder / "views"),
                "parallelism.default": "2",
            }
            with sqlstream.connect(**settings) as session:
                demo = Demo(session, broker.address, folder, rate)
                try:
                    yield demo
                finally:
                    demo.close()


def follow(demo: Demo, seconds: float, console: Console) -> None:
    """Shows the demo: on a terminal as a page in place, elsewhere as lines."""
    if console.is_terminal:
        keep_stderr()
        with Live(console=console, refresh_per_second=4) as live:
            demo.follow(seconds, lambda figures: live.update(page(figures, time.time())))
        return
    told = [-_LINES_SECONDS]

    def say(figures: Figures) -> None:
        if figures.seconds - told[0] >= _LINES_SECONDS:
            told[0] = figures.seconds
            for line in lines(figures, time.time()):
                print(line, flush=True)

    demo.follow(seconds, say)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 where both results are what was sent."""
    parser = argparse.ArgumentParser(description="Two minutes of a shop: Kafka, joins, windows, lookups, results.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long events come (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=RATE, help="events a second (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(Syntax(script(), "sql", theme="ansi_dark", background_color="default", word_wrap=True))

    def say(text: str) -> None:
        console.print(f"{text} …", soft_wrap=True)

    try:
        with terminated(), running(chosen.rate, say) as demo:
            say("starting two jobs")
            demo.start()
            follow(demo, chosen.seconds, console)
            say("the input ends")
            demo.drain()
            for line in demo.summary():
                console.print(line, soft_wrap=True)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokerError, Differs, SqlStreamError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
