"""Rows between Spark's thread and the caller's."""

from __future__ import annotations

from threading import Thread

import pyarrow as pa

from sqlstream.jobs.lifecycle.results import ResultQueue


def batch(value):
    return pa.table({"a": [value], "b": [value]})


def test_tables_come_out_in_order_under_the_names_of_the_query_until_closed():
    results = ResultQueue(("x", "x"))
    results.put(batch(1))
    results.put(batch(2).slice(0, 0))
    results.put(batch(3))
    results.close()
    assert [(t.column_names, t.column(0).to_pylist()) for t in results] == [(["x", "x"], [1]), (["x", "x"], [3])]


def test_the_producer_waits_for_a_slow_caller_and_gives_up_when_nobody_listens():
    results = ResultQueue(("x", "y"))

    def produce():
        for i in range(100):
            results.put(batch(i))

    producer = Thread(target=produce)
    producer.start()
    actual = iter(results)
    assert [next(actual).column("x").to_pylist() for _ in range(50)] == [[i] for i in range(50)]
    assert producer.is_alive()
    results.close()
    producer.join(5)
    assert not producer.is_alive()
