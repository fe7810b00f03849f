"""The clock of processing time: control rows, once per second, for as long as a job runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Event, Thread

from sqlstream.jobs.control import ControlRows

TICK_SECONDS = 1.0


def start_clock(control: ControlRows, tables: Iterable[str], stopped: Event) -> Thread:
    """Tick the watermark of ``tables`` until ``stopped``."""
    thread = Thread(target=_tick, args=(control, tuple(tables), stopped), name="sqlstream-clock", daemon=True)
    thread.start()
    return thread


def _tick(control: ControlRows, tables: tuple[str, ...], stopped: Event) -> None:
    while not stopped.wait(TICK_SECONDS):
        now_ms = time.time_ns() // 1_000_000
        for table in tables:
            control.lift(table, now_ms - 1, f"tick-{now_ms}")  # rows of this very millisecond may still come
