"""A day of events in a quarter of an hour: memory, state, lag and epochs stay flat, as the endpoint of metrics says.

``python -m examples.throughput.simulated_day [--hours 24] [--speed 100] [--rate 2000]``. A process writes so many bids
each second, as a file of Parquet, whose times run ``--speed`` times as fast as the clock; some are two hours late. One
job counts them in windows of ten minutes, in sessions of each auction, and in all for each category. Its metrics are
scraped every few seconds, as Prometheus does. For each hour of the day a line has the mean of what was scraped, and
what the heap of Java holds after a full collection; in the end a line for each figure says how it has moved from the
first quarter of the day to the end. Exit status 1 where one has grown.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from prometheus_client.parser import text_string_to_metric_families

import sqlstream
from examples.throughput.endurance import java_pid, live_heap
from sqlstream.jobs import Job

BEGIN_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
"""When the day begins, in its own time."""
HOUR_S = 3600
AUCTIONS, CATEGORIES = 20_000, 200
LIVE_AUCTIONS = 500
"""So many auctions get bids at a time: the next ones follow within the day, and the sessions of former ones end."""
DISORDER_S = 30
LATE_SHARE, LATE_S = 0.001, 2 * HOUR_S
SCRAPE_SECONDS = 3.0

_SCRIPT = """
CREATE TABLE bids (auction BIGINT, category BIGINT, price BIGINT, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '{folder}/bids', 'format' = 'parquet', 'source.monitor-interval' = '1 s');
CREATE TABLE windows (window_start TIMESTAMP(3), category BIGINT, bids BIGINT, best BIGINT)
WITH ('connector' = 'blackhole');
CREATE TABLE sessions (auction BIGINT, opened TIMESTAMP(3), bids BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE totals (category BIGINT, bids BIGINT, mean DOUBLE, PRIMARY KEY (category) NOT ENFORCED)
WITH ('connector' = 'blackhole');
EXECUTE STATEMENT SET BEGIN
INSERT INTO windows SELECT window_start, category, COUNT(*), MAX(price)
FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE) GROUP BY window_start, window_end, category;
INSERT INTO sessions SELECT auction, window_start, COUNT(*)
FROM SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '30' MINUTE)
GROUP BY window_start, window_end, auction;
INSERT INTO totals SELECT category, COUNT(*), AVG(price) FROM bids GROUP BY category;
END
"""


# --- events ---------------------------------------------------------------------------------------------------


def produce(folder: Path, rate: int, speed: int, over: Event) -> None:
    """Writes the events of each second of the clock when it has passed."""
    started, second = time.monotonic(), 1
    while not over.wait(max(0.0, started + second - time.monotonic())):
        write_second(folder, second, rate, speed)
        second += 1


def write_second(folder: Path, second: int, rate: int, speed: int) -> None:
    """A file appears whole: names that begin with a dot are not read."""
    random = np.random.default_rng(second)
    seconds = BEGIN_S + second * speed + np.linspace(0, speed, rate, endpoint=False)
    seconds -= random.uniform(0, DISORDER_S, rate) + LATE_S * (random.random(rate) < LATE_SHARE)
    first = second * speed * AUCTIONS // (24 * HOUR_S)
    columns = {
        "auction": pa.array((first + random.integers(0, LIVE_AUCTIONS, rate)) % AUCTIONS, pa.int64()),
        "category": pa.array(random.integers(0, CATEGORIES, rate), pa.int64()),
        "price": pa.array(random.integers(1, 10_000_000, rate), pa.int64()),
        "ts": pa.array((seconds * 1000).astype("int64"), pa.timestamp("ms")),
    }
    hidden = folder / f".{second:06}"
    pq.write_table(pa.table(columns), hidden)
    hidden.rename(folder / f"{second:06}.parquet")


# --- what is scraped ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scrape:
    """What the endpoint says at a moment. ``day_s``: seconds of the simulated day that have passed."""

    day_s: float
    seconds: float
    samples: dict[str, float] = field(default_factory=dict)
    """The values by the name of the series, those of all its labels together; of memory by process."""

    def __getitem__(self, name: str) -> float:
        return self.samples.get(name, 0.0)


def scraped(url: str, day_s: float) -> Scrape:
    begin = time.perf_counter()
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    seconds = time.perf_counter() - begin
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            part = sample.labels.get("sqlstream_process", "")
            name = f"{sample.name} {part}".rstrip()
            samples[name] = samples.get(name, 0.0) + sample.value
    return Scrape(day_s, seconds, samples)


MB = 1 << 20
LAG, WATERMARK, HEAP = "behind s", "watermark s", "heap MB"


def _mean(value: Callable[[Scrape], float]) -> Callable[[Sequence[Scrape], int], float]:
    return lambda hour, rate: sum(map(value, hour)) / len(hour)


def _behind(scrape: Scrape, rate: int, speed: int) -> float:
    """The seconds of the clock whose rows are written, with the one before the begin, and not read."""
    return scrape.day_s / speed + 1 - scrape["sqlstream_source_rows_total"] / rate


def _epoch_seconds(hour: Sequence[Scrape], rate: int) -> float:
    """The mean duration of the epochs of an hour."""
    count, seconds = (
        hour[-1][f"sqlstream_epoch_duration_seconds_{name}"] - hour[0][f"sqlstream_epoch_duration_seconds_{name}"]
        for name in ("count", "sum")
    )
    return seconds / count if count else 0.0


def figures(speed: int) -> dict[str, Callable[[Sequence[Scrape], int], float]]:
    """The columns of the table, each of the scrapes of an hour and the rate."""
    return {
        "rows": lambda hour, rate: hour[-1]["sqlstream_source_rows_total"],
        "late rows": lambda hour, rate: hour[-1]["sqlstream_job_late_rows_total"],
        LAG: lambda hour, rate: sum(_behind(s, rate, speed) for s in hour) / len(hour),
        WATERMARK: _mean(lambda s: BEGIN_S + s.day_s - s["sqlstream_job_watermark_time_seconds"]),
        "epoch s": _epoch_seconds,
        "java MB": _mean(lambda s: s["process_memory_usage_bytes jvm"] / MB),
        "python MB": _mean(
            lambda s: (s["process_memory_usage_bytes driver"] + s["process_memory_usage_bytes workers"]) / MB
        ),
        "state entries": _mean(lambda s: s["sqlstream_state_entries"]),
        "state MB": _mean(lambda s: s["sqlstream_job_state_size_bytes"] / MB),
        "scrape ms": _mean(lambda s: s.seconds * 1000),
    }


MOST_GROWTH = {
    LAG: 2.0, WATERMARK: 200.0, "epoch s": 0.5, "state MB": 8.0,
    HEAP: 0.1, "python MB": 0.1, "state entries": 0.1,
}  # fmt: skip
"""What a figure may grow by over the rest of the day: the first ones by so much, the others by a share of their means.
RocksDB fills tables in memory before it writes them, whatever is removed meanwhile; and Java's heap grows up to what
it may have before Java collects what is no longer needed, so that its memory is only shown."""
_BY_SO_MUCH = (LAG, WATERMARK, "epoch s", "state MB")


def growth(values: Sequence[float], *, of_mean: bool) -> float:
    """What the line through the values rises from the first to the last; of their mean, where asked for."""
    slope = float(np.polyfit(np.arange(len(values)), values, 1)[0])
    mean = sum(values) / len(values)
    return slope * (len(values) - 1) / (mean if of_mean and mean else 1.0)


def verdict(hours: Sequence[dict[str, float]]) -> bool:
    """Prints how each figure has moved, without the first quarter of the day. True where none has grown."""
    rest = hours[len(hours) // 4 :]
    print(f"\nfrom hour {len(hours) - len(rest)} to hour {len(hours)}, by a line through the hours:")
    flat = True
    for name, most in MOST_GROWTH.items():
        of_mean = name not in _BY_SO_MUCH
        grown = growth([hour[name] for hour in rest], of_mean=of_mean)
        flat &= grown <= most
        told = f"{grown:+.2f} (at most {most:g})" if not of_mean else f"{grown:+.1%} (at most {most:.0%})"
        print(f"  {name:14} {told:28} {'flat' if grown <= most else 'GROWS'}")
    return flat


# --- the run --------------------------------------------------------------------------------------------------


def run(folder: Path, hours: int, speed: int, rate: int, interval: str) -> int:
    bids = folder / "bids"
    bids.mkdir()
    write_second(bids, 0, rate, speed)  # Spark reads the columns of files that are there
    processes = multiprocessing.get_context("spawn")
    over = processes.Event()
    producer = processes.Process(target=produce, args=(bids, rate, speed, over), daemon=True)
    with sqlstream.connect() as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{folder}/checkpoints'")
        session.sql(f"SET 'execution.checkpointing.interval' = '{interval}'")
        session.sql("SET 'metrics.prometheus.port' = '0'")
        job = session.sql(_SCRIPT.format(folder=folder))
        assert isinstance(job, Job)
        url = session.open_metrics()
        assert url is not None
        while job.progress().batches < 1 and not job.wait(0.5):  # the day begins when the job runs
            pass
        producer.start()
        lines = _hours(job, url, hours, speed, rate)
        over.set()
        producer.join()
        written = sum(1 for _ in bids.glob("*.parquet")) * rate
        while job.progress().rows_in < written and not job.wait(0.5):
            pass
        print(f"{written:,} rows written, {job.progress().rows_in:,} read")
        job.stop()
    return 0 if len(lines) > 3 and verdict(lines) else 1


def _hours(job: Job, url: str, hours: int, speed: int, rate: int) -> list[dict[str, float]]:
    """Scrapes until the day is over, and prints each hour of it."""
    columns, lines = figures(speed), list[dict[str, float]]()
    print("hour  " + "  ".join(f"{name:>13}" for name in (*columns, HEAP)), flush=True)
    started, hour = time.monotonic(), list[Scrape]()
    while len(lines) < hours and not job.wait(SCRAPE_SECONDS):
        day_s = (time.monotonic() - started) * speed
        hour.append(scraped(f"{url}/metrics", day_s))
        if day_s >= (len(lines) + 1) * HOUR_S:
            lines.append({name: value(hour, rate) for name, value in columns.items()})
            lines[-1][HEAP] = sum(live_heap(java_pid()).values()) / MB
            print(f"{len(lines):4}  " + "  ".join(f"{_shown(v):>13}" for v in lines[-1].values()), flush=True)
            hour = hour[-1:]
    return lines


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="A day of events, faster than the clock.")
    parser.add_argument("--hours", type=int, default=24, help="of the simulated day, at least 4 (default: %(default)s)")
    parser.add_argument("--speed", type=int, default=100, help="seconds of the day in one (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=2_000, help="events per second of the clock (default: %(default)s)")
    parser.add_argument("--interval", default="2 s", help="of micro-batches (default: %(default)s)")
    chosen = parser.parse_args()
    if chosen.hours < 4:
        parser.error("--hours: at least 4, of which the first quarter is left out")
    print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sqlstream-day-") as folder:
        sys.exit(run(Path(folder), chosen.hours, chosen.speed, chosen.rate, chosen.interval))


if __name__ == "__main__":
    main()
