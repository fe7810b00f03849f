"""The event loop thread of a process, as it is in workers."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.udfs.lookup.asking import MOST_RUNS, Worker, worker
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import Cache, LookupOptions, Order
from tests.udfs.lookup.scripted import Script, scripted, values

_NAMES = (f"worker{number}" for number in itertools.count())


@pytest.fixture
def own():
    worker = Worker()
    yield worker
    if worker.is_alive:
        worker.close()


def test_there_is_one_worker_per_process():
    assert worker() is worker()
    assert worker().is_alive


def test_rows_are_looked_up_on_a_loop_whose_time_is_real():
    script = Script(values(*range(50)), delay=lambda key: 1)
    step = LookupStep(0, scripted(next(_NAMES), script), ("k",), "a", LookupOptions(order=Order.ORDERED))
    rows = pa.record_batch({"k": [n % 60 for n in range(500)]})
    emitted_rows = [row for part in LookupRows((step,)).rows(iter([rows])) for row in part.to_pylist()][:-1]
    assert [row["k"] for row in emitted_rows] == [n % 60 for n in range(500)]
    assert all([a["v"] for a in row["a"]] == ([f"v{row['k']}"] if row["k"] < 50 else []) for row in emitted_rows)


def test_lookups_that_ask_alike_share_their_requests(own):
    source = scripted(next(_NAMES), Script())
    asker = own.asker(source, LookupOptions(order=Order.ORDERED))
    assert own.asker(source, LookupOptions(order=Order.UNORDERED)) is asker
    assert own.asker(source, LookupOptions(capacity=7)) is not asker
    assert own.asker(source, LookupOptions(asynchronous=False, capacity=7)).options.capacity == 1


def test_caches_are_shared_by_source_and_options(own):
    source = scripted(next(_NAMES), Script())
    first = own.asker(source, LookupOptions(cache=Cache(5), capacity=1))
    assert own.asker(source, LookupOptions(cache=Cache(5), capacity=2)).cache is first.cache
    assert own.asker(source, LookupOptions(cache=Cache(6), capacity=2)).cache is not first.cache


def test_a_query_that_starts_remembers_nothing_of_queries_before_it(own):
    source, asked = scripted(next(_NAMES), Script()), LookupOptions(cache=Cache(5))
    first = own.asker(source, asked, "one")
    assert own.asker(source, asked, "one") is first
    assert own.asker(source, asked, "two").cache is not first.cache


def test_so_many_queries_are_remembered_and_those_that_go_on_stay(own):
    source, asked = scripted(next(_NAMES), Script()), LookupOptions(cache=Cache(5))
    old, running = own.asker(source, asked, "old"), own.asker(source, asked, "running")
    for number in range(MOST_RUNS):
        own.asker(source, asked, f"start {number}")
        assert own.asker(source, asked, "running") is running
    assert own.asker(source, asked, "old") is not old


def test_clients_are_opened_once_and_closed_at_the_end(own):
    script = Script()
    source = scripted(next(_NAMES), script)
    for capacity in (1, 2):
        own.result(own.asker(source, LookupOptions(capacity=capacity)).take, [(1,), (2,)])
    for _ in range(10):
        own.result(lambda: None)
    assert script.opened == 1
    own.close()
    assert script.closed == 1


def test_what_fails_on_the_loop_fails_here(own):
    with pytest.raises(ZeroDivisionError):
        own.result(lambda: 1 // 0)


_FORK = """
import os, sys
from sqlstream.udfs.lookup.asking import worker
before = worker()
child = os.fork()
if child == 0:
    fresh = worker()
    os._exit(0 if fresh is not before and fresh.result(os.getpid) == os.getpid() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_starts_its_own():
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", _FORK], cwd=root, timeout=60, check=False).returncode == 0
