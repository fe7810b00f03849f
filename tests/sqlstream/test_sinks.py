"""Writers of micro-batches that go to several tables."""

from __future__ import annotations

import pickle
from threading import Event, Thread
from typing import Any

from sqlstream.jobs.lifecycle.sinks import SideSinks, Turns
from sqlstream.planner.nodes import StatementSet


class Batch:
    """What a writer does with a micro-batch beside writing it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def persist(self) -> None:
        self.told.append(f"{self.name} begins")

    def unpersist(self) -> None:
        self.told.append(f"{self.name} ends")


def test_a_micro_batch_that_begins_anew_waits_until_its_stopped_query_has_written_it(monkeypatch: Any) -> None:
    told: list[str] = []
    writing, written = Event(), Event()

    def write(_plan: object, _tables: object, batch: Batch, _number: int) -> None:
        if batch.name == "first":
            writing.set()
            written.wait(30)

    monkeypatch.setattr("sqlstream.jobs.lifecycle.sinks._write_tables", write)
    environment: Any = None
    plan, turns = StatementSet(()), Turns()
    writers = [SideSinks(environment, plan, turns).with_tables(plan, []) for _ in range(2)]
    batches: list[Any] = [Batch("first", told), Batch("again", told)]
    threads = [Thread(target=w, args=(batch, 3), daemon=True) for w, batch in zip(writers, batches, strict=True)]
    threads[0].start()
    assert writing.wait(30)
    threads[1].start()
    threads[1].join(0.2)
    assert told == ["first begins"]
    written.set()
    for thread in threads:
        thread.join(30)
    assert told == ["first begins", "first ends", "again begins", "again ends"]


def test_turns_travel_to_other_processes() -> None:
    turns = Turns()
    with turns, pickle.loads(pickle.dumps(turns)):
        pass
