"""The queue of rows that wait for answers, and the operator that uses it.

Steps of the queue: ``submit`` (``accepted`` false: it must be full), ``watermark``, ``complete``, ``expect_emitted``
(``out``: what may leave since the step before, ``pending``: the entries that have not). Of the operator: ``record`` and
``end_of_input``; the expected results are rows, and ``active_timers`` after them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlstream.testing.case_format import Case
from sqlstream.testing.cases import NotDriven
from sqlstream.types import BIGINT
from sqlstream.udfs.lookup.asking import worker
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import LookupOptions, Order
from sqlstream.udfs.lookup.queue import Entry, LookupQueue, queue_of
from sqlstream.udfs.lookup.source import Key, LookupClient, Request, Row
from tests.peers.below_sql.steps import Step, check, play, unknown_step

Emitted = list[dict[str, Any]]

_ORDERS = {"ordered": Order.ORDERED, "unordered": Order.UNORDERED}
_FUNCTION = re.compile(r"f\(x\) = \[(\d+)\*x\] after (\d+) ms")


def run(case: Case) -> None:
    if "function" in case.config:
        _run_operator(case)
    else:
        play(case.input, Queue(_ORDERS[case.config["output_mode"]], case.config["capacity"]).perform)


class Queue:
    """An entry holds what leaves with it: its results with the row's time, or the watermark."""

    def __init__(self, order: Order, capacity: int) -> None:
        self._queue: LookupQueue[Emitted] = queue_of(order, capacity)
        self._rows: dict[str, tuple[Entry[Emitted], int]] = {}

    def perform(self, step: Step) -> None:
        match step["op"]:
            case "submit":
                entry: Entry[Emitted] = Entry([])
                self._put(entry, step)
                self._rows[step["id"]] = entry, step["ts"]
            case "watermark":
                self._put(Entry([{"watermark": step["ts"]}], is_mark=True), step)
            case "complete":
                entry, ts = self._rows[step["id"]]
                entry.content += ({"value": value, "ts": ts} for value in step["results"])
                self._queue.complete(entry)
            case "expect_emitted":
                check("emitted", step["out"], [emitted for entry in self._queue.pop() for emitted in entry.content])
                if "pending" in step:
                    check("pending", step["pending"], len(self._queue))
            case _:
                raise unknown_step(step)

    def _put(self, entry: Entry[Emitted], step: Step) -> None:
        check("accepted", step.get("accepted", True), self._queue.put(entry))


# --- the operator ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Multiplies:
    """Answers a key with ``factor`` times itself, ``after_ms`` later."""

    factor: int
    after_ms: int
    name: str = "f"
    request: Request = field(default=Request((("x", BIGINT),), (("y", BIGINT),)))

    async def open(self) -> LookupClient:
        return self

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        await asyncio.sleep(self.after_ms / 1000)
        return [[(self.factor * value,)] for (value,) in keys if isinstance(value, int)]

    async def close(self) -> None:
        pass


def _run_operator(case: Case) -> None:
    function = _FUNCTION.fullmatch(case.config["function"])
    if function is None:
        raise NotDriven(
            f'there is no function "{case.config["function"]}"', "Functions multiply: f(x) = [2*x] after 3 ms."
        )
    source = Multiplies(int(function[1]), int(function[2]))
    config = case.config
    order, capacity, timeout = _ORDERS[config["output_mode"]], config["capacity"], config["timeout_ms"]
    options = LookupOptions(order=order, capacity=capacity, timeout_ms=timeout)
    rows = [_record(step) for step in case.input if step["op"] != "end_of_input"]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("v", pa.int64()), ("ts", pa.int64())]))
    found = LookupRows((LookupStep(0, source, ("v",), "answers", options),)).rows(iter([batch]))
    emitted: list[Mapping[str, Any]] = [
        {"row": {"v": answer["y"]}, "ts": row["ts"]}
        for part in found
        for row in part.to_pylist()
        for answer in row["answers"] or ()
    ]
    timers = worker().result(lambda: worker().asker(source, options).timers)
    check("results", list(case.results), [*emitted, {"active_timers": timers}])


def _record(step: Step) -> dict[str, Any]:
    if step["op"] != "record":
        raise unknown_step(step)
    return {"v": step["row"]["v"], "ts": step["ts"]}
