"""Process functions in the harness."""

from __future__ import annotations

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.testing import ProcessFunctionHarness
from sqlstream.udfs.process import kernel
from tests.udfs.process.process_examples import Above, Clock, Convert, Distinct, Order, Silence

EVENTS = "card STRING, ts TIMESTAMP(3)"


def silence(**options) -> ProcessFunctionHarness:
    return ProcessFunctionHarness(Silence, EVENTS, ["card"], on_time="ts", seconds=10, **options)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_timer_that_is_moved_fires_once(restarts):
    harness = silence(restarts=restarts)
    harness.rows([{"card": "a", "ts": 1000}, {"card": "b", "ts": 2000}])
    harness.rows([{"card": "a", "ts": 8000}])
    harness.watermark(11_999)
    assert harness.output() == []
    harness.watermark(12_000)
    assert harness.output() == [{"card": "b", "last_seen": 2000, "seen": 1, "rowtime": 12_000}]
    harness.watermark(30_000)
    assert harness.output() == [{"card": "a", "last_seen": 8000, "seen": 2, "rowtime": 18_000}]
    assert harness.state_size == 0


def test_a_timer_of_the_past_fires_after_its_row():
    harness = silence()
    harness.watermark(50_000)
    harness.rows([{"card": "a", "ts": 1000}, {"card": "b", "ts": 45_000}, {"card": "a", "ts": 2000}])
    assert [row["last_seen"] for row in harness.output()] == [1000, 2000]


def test_the_end_of_the_input_fires_all():
    harness = silence()
    harness.rows([{"card": "a", "ts": 1000}])
    harness.finish()
    assert harness.output() == [{"card": "a", "last_seen": 1000, "seen": 1, "rowtime": 11_000}]


@pytest.mark.parametrize("restarts", [False, True])
def test_entries_of_a_map_live_each_for_themselves(restarts):
    harness = ProcessFunctionHarness(Distinct, "card STRING, id STRING", ["card"], restarts=restarts)
    harness.processing_time(1000)
    harness.rows([{"card": "a", "id": "x"}, {"card": "a", "id": "x"}, {"card": "b", "id": "x"}])
    harness.processing_time(2000)
    harness.rows([{"card": "a", "id": "y"}])
    assert [(row["card"], row["id"]) for row in harness.output()] == [("a", "x"), ("b", "x"), ("a", "y")]
    harness.processing_time(3_600_999)
    harness.rows([{"card": "a", "id": "x"}])
    assert harness.output() == []
    harness.processing_time(3_601_000)
    harness.rows([{"card": "a", "id": "x"}, {"card": "a", "id": "y"}])
    assert harness.output() == [{"card": "a", "id": "x"}]
    size = harness.state_size
    harness.processing_time(9_000_000)
    assert harness.state_size == 0 < size


def test_a_state_machine_in_order_of_time():
    harness = ProcessFunctionHarness(
        Order, "id INT, event STRING, ts TIMESTAMP", ["id"], on_time="ts", in_order=True, restarts=True
    )
    harness.rows([{"id": 1, "event": "paid", "ts": 2000}, {"id": 1, "event": "ordered", "ts": 1000}])
    harness.rows([{"id": 2, "event": "ordered", "ts": 1000}, {"id": 1, "event": "shipped", "ts": 7_000_000}])
    assert harness.output() == []
    harness.watermark(7_000_000)
    done, unpaid = "done", "unpaid"
    assert {(row["id"], row["state"], tuple(row["events"]), row["rowtime"]) for row in harness.output()} == {
        (1, done, ("ordered", "paid", "shipped"), 7_000_000),
        (2, unpaid, ("ordered",), 3_601_000),
    }
    harness.rows([{"id": 2, "event": "paid", "ts": 1}])
    assert harness.late_rows == 1


def test_event_time_passes_row_by_row_where_rows_are_in_order():
    harness = ProcessFunctionHarness(Order, "id INT, event STRING, ts TIMESTAMP", ["id"], on_time="ts", in_order=True)
    harness.rows([{"id": 1, "event": "ordered", "ts": 0}, {"id": 1, "event": "paid", "ts": 3_600_001}])
    harness.watermark(9_000_000)
    assert [row["state"] for row in harness.output()] == ["unpaid"]
    harness.rows([{"id": 2, "event": "ordered", "ts": 10_000_000}, {"id": 2, "event": "paid", "ts": 13_600_000}])
    harness.watermark(90_000_000)
    assert harness.output() == []


def test_rows_of_two_tables_share_the_state_of_their_key():
    tables = {"orders": "currency STRING, amount DOUBLE", "rates": "currency STRING, rate DOUBLE"}
    harness = ProcessFunctionHarness(Convert, tables, ["currency"], groups=3)
    harness.rows([{"currency": "eur", "amount": 1.0}])
    harness.rows([{"currency": "eur", "rate": 1.5}, {"currency": "usd", "rate": 2.0}], "rates")
    harness.rows([{"currency": "eur", "amount": 2.0}])
    assert [(row["amount"], row["rate"]) for row in harness.output()] == [(1.0, None), (2.0, 1.5)]


def test_columns_pass_through():
    harness = ProcessFunctionHarness(Above, "k INT, price DOUBLE", column="price", limit=2.0)
    harness.rows([{"k": 1, "price": 1.0}, {"k": 2, "price": 2.0}])
    assert harness.output() == [{"k": 2, "price": 2.0, "above": True}]


def test_timers_of_both_domains_are_a_set_by_name_and_time():
    harness = ProcessFunctionHarness(
        Clock, "k INT, name STRING, at BIGINT, processing BOOLEAN, delete BOOLEAN, ts TIMESTAMP", ["k"], on_time="ts"
    )

    def row(name, at, *, processing=False, delete=False):
        return {"k": 1, "name": name, "at": at, "processing": processing, "delete": delete, "ts": 0}

    harness.rows([row("e", 5), row("e", 5), row("f", 5), row(None, 3), row("p", 7, processing=True), row("d", 4)])
    harness.rows([row("d", 4, delete=True)])
    assert {row["timer"] for row in harness.output()} == {"row"}
    harness.watermark(5)
    assert [(r["timer"], r["rowtime"]) for r in harness.output()] == [("event None", 3), ("event e", 5), ("event f", 5)]
    harness.processing_time(6)
    assert harness.output() == []
    harness.processing_time(7)
    assert harness.output() == [{"k": 1, "timer": "processing p", "time": 7, "rowtime": None}]


def test_a_snapshot_holds_state_and_timers():
    harness = silence()
    harness.rows([{"card": "a", "ts": 1000}])
    snapshot = harness.snapshot()
    harness.watermark(11_000)
    assert len(harness.output()) == 1
    harness.restore(snapshot)
    harness.watermark(11_000)
    assert len(harness.output()) == 1


def test_rows_of_the_first_and_the_last_year_leave_the_timers_of_other_keys_alone():
    first, last = -62_135_596_800_000, 253_402_300_799_999
    harness = silence(restarts=True)
    harness.rows([{"card": "w", "ts": first}, {"card": "a", "ts": 1000}, {"card": "x", "ts": last}])
    harness.rows([{"card": "b", "ts": 2000}])
    harness.watermark(12_000)
    assert [row["card"] for row in harness.output()] == ["w", "a", "b"]
    harness.finish()
    assert [(row["card"], row["last_seen"]) for row in harness.output()] == [("x", last)]


def test_a_time_that_python_does_not_have_is_an_error_with_words():
    with pytest.raises(ExecutionError, match="SS469: a value is a time beyond the years 1 to 9999"):
        silence().rows([{"card": "w", "ts": 253_402_300_800_000}])


def test_many_results_are_packed_as_they_come(monkeypatch):
    monkeypatch.setattr(kernel, "_MOST_OBJECTS", 2)
    packed: list[int] = []
    pack = kernel.CallResults._pack

    def counted(self):
        packed.append(len(self._found))
        pack(self)

    monkeypatch.setattr(kernel.CallResults, "_pack", counted)
    harness = silence()
    harness.rows([{"card": f"c{n}", "ts": n} for n in range(7)])
    harness.finish()
    assert [row["card"] for row in harness.output()] == [f"c{n}" for n in range(7)]
    assert packed == [2, 2, 2, 1]
