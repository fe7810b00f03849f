"""The picture of a running job's plan for ``docs/planner.md``: ``python -m docs.plan_capture``.

It needs chromium, which takes a picture of the page that ``sqlstream jobs plan`` serves, and pngquant, both of Debian.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PICTURE = Path(__file__).parent / "captures" / "plan.png"
SIZE = (1180, 1290)
_BATCHES, _LIMIT_S = 30, 900.0
_SQLSTREAM = [sys.executable, "-m", "sqlstream"]

JOB = """
CREATE TABLE auction (
    id BIGINT, category BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'rows-per-second' = '200', 'fields.id.min' = '0', 'fields.id.max' = '20000',
    'fields.category.min' = '10', 'fields.category.max' = '14');
CREATE TABLE bid (
    auction BIGINT, price BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen', 'rows-per-second' = '10000', 'fields.auction.min' = '0',
    'fields.auction.max' = '20000', 'fields.price.min' = '100', 'fields.price.max' = '1000000');
CREATE TABLE closing (category BIGINT, highest BIGINT, bids BIGINT, until TIMESTAMP(3))
WITH ('connector' = 'blackhole');
SET 'pipeline.name' = 'closing_prices';
INSERT INTO closing
SELECT category, MAX(final) AS highest, SUM(bids) AS bids, TUMBLE_END(at, INTERVAL '10' SECOND) AS until FROM (
    SELECT A.id, A.category, MAX(B.price) AS final, COUNT(*) AS bids,
        TUMBLE_ROWTIME(B.dateTime, INTERVAL '2' SECOND) AS at
    FROM auction AS A JOIN bid AS B ON A.id = B.auction
    WHERE B.dateTime BETWEEN A.dateTime AND A.dateTime + INTERVAL '10' SECOND AND B.price > 1000
    GROUP BY A.id, A.category, TUMBLE(B.dateTime, INTERVAL '2' SECOND)
) AS closed GROUP BY category, TUMBLE(at, INTERVAL '10' SECOND);
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name, _job(Path(name)) as record, _page(Path(name)) as url:
        end = time.monotonic() + _LIMIT_S
        while _batches(record) < _BATCHES:
            assert time.monotonic() < end, "the job makes no micro-batches"
            time.sleep(1)
        _take(url, Path(name) / "plan.png")
        _run("pngquant", "--force", "--speed", "1", "--output", str(PICTURE), "64", str(Path(name) / "plan.png"))


@contextmanager
def _job(folder: Path) -> Iterator[Path]:
    """The job as a process, and its record."""
    (folder / "job.sql").write_text(JOB, encoding="utf-8")
    where = ["--master", "local[2]", "--set", f"execution.checkpointing.dir={folder}/jobs"]
    sizes = ["--set", "parallelism.default=2", "--set", "pipeline.max-parallelism=8"]
    process = subprocess.Popen([*_SQLSTREAM, "run", str(folder / "job.sql"), *where, *sizes])
    try:
        yield folder / "jobs" / "closing_prices" / "job.json"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


@contextmanager
def _page(folder: Path) -> Iterator[str]:
    """The page of the job, once it has a record."""
    while not (folder / "jobs" / "closing_prices" / "job.json").exists():
        time.sleep(1)
    command = [*_SQLSTREAM, "jobs", "plan", "closing_prices", "--dir", f"{folder}/jobs", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _batches(record: Path) -> int:
    return int(json.loads(record.read_text(encoding="utf-8"))["life"]["progress"]["batches"])


def _take(url: str, picture: Path) -> None:
    size = f"--window-size={','.join(map(str, SIZE))}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=5000")
    _run("chromium", *options, size, f"--screenshot={picture}", url)


def _run(program: str, *arguments: str) -> None:
    assert shutil.which(program) is not None, f"apt-get install {program}"
    subprocess.run([program, *arguments], check=True)


if __name__ == "__main__":
    main()
