"""What sources do again and again while a job runs: how often, and which errors fail the job."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.connectors import Watch
from sqlstream.errors import ConnectorError
from sqlstream.jobs.lifecycle import running_query
from sqlstream.jobs.lifecycle.running_query import RunToEnd


class Looking(Watch):
    """Counts its looks, and raises the error in each of the first ``failing`` ones."""

    def __init__(self, interval_ms: int | None, error: Exception | None = None, failing: int = 0) -> None:
        self.interval_ms = interval_ms
        self.looks = 0
        self.error, self.failing = error, failing
        self.enough = Event()

    def look(self) -> None:
        self.looks += 1
        if self.error is not None and self.looks <= self.failing:
            raise self.error
        self.enough.set()


def run(watch: Watch, interval_ms: int, until: Event) -> list[Exception]:
    """The errors that have failed the job of the watch until the event is set."""
    errors: list[Exception] = []
    stopping = Event()
    launch = SimpleNamespace(watches=[watch], interval_ms=interval_ms)
    query: Any = SimpleNamespace(launch=launch, fail=errors.append)
    threads = RunToEnd(query, None, stopping, lambda: ()).started_watches()
    assert until.wait(30) or not threads
    stopping.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return errors


@pytest.mark.parametrize(("monitor_ms", "epoch_ms"), [(50, 3_600_000), (3_600_000, 50), (50, 0)])
def test_sources_look_before_each_epoch_or_more_often(monitor_ms: int, epoch_ms: int) -> None:
    watch = Looking(monitor_ms)
    assert run(watch, epoch_ms, watch.enough) == []


def test_sources_that_look_once_have_no_thread() -> None:
    watch, now = Looking(None), Event()
    now.set()
    assert run(watch, 50, now) == []
    assert watch.looks == 0


def test_errors_that_may_pass_fail_the_job_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    full = ConnectorError("SS508", "no space left on device")
    watch = Looking(50, full, failing=2)
    assert run(watch, 50, watch.enough) == []
    monkeypatch.setattr(running_query, "GIVE_UP_SECONDS", 0)
    watch = Looking(50, full, failing=2)
    assert run(watch, 50, watch.enough) == [full, full]


def test_any_other_error_fails_the_job_at_once_and_the_next_look_follows() -> None:
    """The job may be started again after a failure."""
    mistake = ValueError("no JSON")
    watch = Looking(50, mistake, failing=1)
    assert run(watch, 50, watch.enough) == [mistake]
