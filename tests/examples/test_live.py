"""The demo that moves: its events, its page at any width, and what both results come to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

import sqlstream
from examples.live.demo import Demo
from examples.live.page import Figures, JobFigures, lines, page
from examples.live.shop import CAMPAIGNS, PRODUCTS, Shop, make_topics, write_products
from sqlstream.jobs.reports.progress import Progress
from tests.faults.processes import descendants

ROOT = Path(__file__).parents[2]
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START.timestamp()

_HELD = Progress(batches=3, watermark_ms=int((NOW - 3) * 1000), held_by=("clicks[1]", "orders[0]"), batch_ms=1200)
FIGURES = Figures(
    33, 120, 165_000, 4998.2,
    (JobFigures("insert_into_campaigns", _HELD, (5000.0, 40.0), 1234),
     JobFigures("best_sellers", Progress(), (0.0, 0.0), None)),
    "08:00:05", [("bicycle", 12, 12_000)] * 10, [("autumn", 12_000, 1_200_000)],
)  # fmt: skip


def test_each_order_follows_a_click_of_about_the_second_before():
    shop, revenue = Shop(1000, START), Counter[str]()
    clicks: list[tuple[str, datetime]] = []
    prices = [*PRODUCTS.values()]
    for topic, number, fields in shop.events(5000):
        if topic == "clicks":
            assert number == len(clicks) == fields["click"]
            clicks.append((str(fields["campaign"]), datetime.fromisoformat(f"{fields['at']}+00:00")))
            continue
        campaign, clicked = clicks[int(str(fields["click"]))]
        assert 0 <= (datetime.fromisoformat(f"{fields['at']}+00:00") - clicked).total_seconds() < 1.2
        revenue[campaign] += int(str(fields["pieces"])) * prices[int(str(fields["product"]))]
    assert (shop.clicks, shop.orders) == (4500, 500)
    assert revenue == shop.revenue
    assert {*revenue} <= {*CAMPAIGNS}


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_page_fits_any_width_and_has_always_as_many_lines(width: int):
    def shown(figures: Figures) -> list[str]:
        written = StringIO()
        Console(width=width, file=written, legacy_windows=False).print(page(figures, NOW))
        return written.getvalue().splitlines()

    whole = shown(FIGURES)
    assert max(map(cell_len, whole)) <= width
    without = Figures(0, 120, 0, 0, FIGURES.jobs)
    assert len(shown(without)) == len(whole)
    if width == 80:
        assert "insert_into_camp…   5,000      40    1,234      1,200  3.0 s behind" in whole[2]


def test_lines_say_the_same_where_there_is_no_terminal():
    held = "3.0 s behind, held by clicks[1], orders[0]"
    assert [*lines(FIGURES, NOW)] == [
        "33 s: 165,000 events sent (4,998/s)",
        f"  insert_into_campaigns: 5,000/s in, 40/s out, lag 1,234, watermark {held}",
        "  best_sellers: 0/s in, 0/s out, lag –, watermark none yet",
        "  best: bicycle 12,000, autumn 1,200,000",
    ]


@pytest.mark.spark
@pytest.mark.long
def test_both_results_are_what_was_sent(spark, kafka_broker, tmp_path):
    write_products(tmp_path / "shop.sqlite")
    make_topics(kafka_broker.address)
    own = {"execution.checkpointing.dir": tmp_path / "checkpoints", "sqlstream.views.dir": tmp_path / "views"}
    with sqlstream.connect(spark, **{key: str(path) for key, path in own.items()}) as session:
        demo, seen = Demo(session, kafka_broker.address, tmp_path, 1000), list[Figures]()
        try:
            demo.start()
            demo.follow(6, seen.append)
            demo.drain()
            after = demo.figures(6)
            first, second, *jobs = demo.summary()  # which compares them
        finally:
            demo.close()
    assert re.fullmatch(r"[\d,]+ clicks and [\d,]+ orders were sent, worth [\d,]+\.", first)
    assert re.fullmatch(r"The view has all of them, in \d+ windows; the topic, too, by \d campaigns\.", second)
    assert all("0 late rows, 0 restarts" in line for line in jobs)
    assert seen[0].seconds < 6 <= seen[-1].seconds
    assert after.sent > 3000
    assert {job.name: job.lag for job in after.jobs} == {"best_sellers": 0, "insert_into_campaigns": 0}
    assert {name for name, *_ in after.campaigns} <= {*CAMPAIGNS}
    assert {name for name, *_ in after.sellers} <= {*PRODUCTS}


@pytest.mark.spark
@pytest.mark.long
def test_the_command_ends_by_itself_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-m", "examples.live.demo", "--seconds", "15"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "SPARK_MASTER": "local[2]"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "The view has all of them" in done.stdout
    assert re.search(r"^1[0-4] s: [\d,]+ events sent \([45],\d+/s\)$", done.stdout, re.MULTILINE)
    assert [process for process in descendants(1) if str(tmp_path) in process.command] == []
    assert [*tmp_path.glob("sqlstream-live-*")] == []
