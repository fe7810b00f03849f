"""Restart strategies: which failures are borne, for how long a job waits, and that a job goes on."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
import pytest

from sqlstream.errors import ConnectorError, ExecutionError, SqlStreamError
from sqlstream.jobs import JobState
from sqlstream.jobs.lifecycle.coordinator import (
    NO_RESTART,
    ExponentialDelay,
    FailureRate,
    Failures,
    FixedDelay,
    RestartStrategy,
    after_failure,
    restart_strategy,
)
from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.jobs.lifecycle.job import Restarts
from sqlstream.planner.nodes import Insert
from sqlstream.settings import Settings
from tests.sqlstream.jobs.lifecycle.starting import started
from tests.sqlstream.jobs.lifecycle.test_job import EVENTS, EXPECTED, ROWS, TOTALS, totals
from tests.streams import rows_of

FAILED = ExecutionError("SS400", "connection reset")


def delays(strategy: RestartStrategy, *times_ms: int, chance: float = 0.5) -> list[int | None]:
    """The delay after a failure at each time; without jitter where chance is 0.5."""
    failures, actual = Failures(), []
    for time_ms in times_ms:
        failures, delay_ms = after_failure(strategy, failures, FAILED, time_ms, chance)
        actual.append(delay_ms)
    return actual


def test_a_job_fails_for_good_where_nothing_is_said():
    assert restart_strategy(Settings()) == NO_RESTART
    assert delays(NO_RESTART, 0) == [None]


def test_fixed_delay_bears_as_many_failures_as_it_has_attempts():
    assert delays(FixedDelay(attempts=2, wait_ms=30), 0, 10, 1_000_000) == [30, 30, None]


def test_exponential_delay_grows_up_to_its_bound():
    strategy = ExponentialDelay(initial_ms=100, max_ms=350, multiplier=2.0)
    assert delays(strategy, 0, 1000, 2000, 3000) == [100, 200, 350, 350]
    assert delays(ExponentialDelay(multiplier=1e300), *range(0, 90_000, 30_000)) == [1000, 60_000, 60_000]


def test_exponential_delay_begins_anew_after_a_time_without_failure():
    strategy = ExponentialDelay(initial_ms=100, multiplier=2.0, reset_ms=5000, attempts=2)
    assert delays(strategy, 0, 1000, 1200 + 4999) == [100, 200, None]
    assert delays(strategy, 0, 1000, 1200 + 5000) == [100, 200, 100]


@pytest.mark.parametrize(("chance", "second"), [(0.0, 180), (0.5, 200), (1.0, 220)])
def test_jitter_moves_a_delay_but_not_below_the_first(chance: float, second: int):
    strategy = ExponentialDelay(initial_ms=100, multiplier=2.0, jitter=0.1)
    first, actual = delays(strategy, 0, 1000, chance=chance)
    assert (first, actual) == (max(100, round(second / 2)), second)


def test_failure_rate_counts_the_failures_of_an_interval():
    strategy = FailureRate(failures=2, interval_ms=1000, wait_ms=7)
    assert delays(strategy, 0, 500, 1000) == [7, 7, None]
    assert delays(strategy, 0, 500, 1001, 1502) == [7, 7, 7, 7]


@pytest.mark.parametrize("code", ["SS401", "SS402", "SS403", "SS406", "SS412", "SS421", "SS422"])
def test_errors_that_would_come_again_are_not_retried(code: str):
    failures, delay_ms = after_failure(FixedDelay(9), Failures(), ExecutionError(code, "x"), 0, 0.5)
    assert (delay_ms, failures.times_ms) == (None, (0,))


def test_errors_of_the_query_and_its_options_are_not_retried_but_those_of_the_world_are():
    assert SqlStreamError("SS290", "x").repeats and SqlStreamError("SS394", "x").repeats
    assert ConnectorError("SS508", "x").repeats
    assert not any(ExecutionError(code, "x").repeats for code in ("SS400", "SS411", "SS432", "SS433", "SS440"))


def test_settings_have_the_names_and_defaults_of_flink():
    settings = Settings()
    settings.set("restart-strategy.type", "exponential-delay")
    assert restart_strategy(settings) == ExponentialDelay()
    settings.set("restart-strategy.exponential-delay.attempts-before-reset-backoff", "5")
    settings.set("restart-strategy.exponential-delay.jitter-factor", "0")
    assert restart_strategy(settings) == ExponentialDelay(jitter=0.0, attempts=5)
    settings.set("restart-strategy.type", "failure-rate")
    assert restart_strategy(settings) == FailureRate()
    settings.set("restart-strategy.type", "fixed-delay")
    settings.set("restart-strategy.fixed-delay.delay", "10 s")
    assert restart_strategy(settings) == FixedDelay(1, 10_000)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("type", "sometimes", "Accepted: one of 'none', 'fixed-delay', 'exponential-delay', 'failure-rate'."),
        ("exponential-delay.backoff-multiplier", "0.5", "Accepted: a number, 1 or more."),
        ("exponential-delay.backoff-multiplier", "inf", "Accepted: a number, 1 or more."),
        ("fixed-delay.attempts", "0", "Accepted: a whole number, 1 or more."),
    ],
)
def test_wrong_values_are_refused(key: str, value: str, message: str):
    with pytest.raises(ConnectorError) as error:
        Settings().set(f"restart-strategy.{key}", value)
    assert error.value.diagnostic.hint == message


def ended(strategy: RestartStrategy, *outcomes: Exception | None) -> tuple[int, Exception | None]:
    """How often a job with these outcomes of its attempts starts again, and what it ends with."""
    left, starts = list(outcomes), []

    def to_end() -> None:
        outcome = left.pop(0)
        if outcome is not None:
            raise outcome

    try:
        Restarts(strategy, lambda error: job_error(error, "j", "/c"), Event()).run(
            to_end, lambda: starts.append(1), lambda: None
        )
    except Exception as error:
        return len(starts), error
    return len(starts), None


def test_a_job_whose_python_starts_slowly_starts_again_twice_without_a_strategy():
    slow = RuntimeError("Job aborted: org.apache.spark.SparkException: Python worker failed to connect back.")
    assert ended(NO_RESTART, slow, slow, None) == (2, None)
    assert ended(NO_RESTART, slow, slow, slow, None) == (2, slow)
    assert ended(FixedDelay(attempts=1, wait_ms=1), slow, slow, slow, None) == (3, None)
    assert ended(NO_RESTART, FAILED, None) == (0, FAILED)


class Unsteady:
    """A sink that writes batches to folders of their own and breaks in its first batches with rows."""

    def __init__(self, folder: Path, breaks: int) -> None:
        self.path = folder / "out"
        self.breaks = breaks

    def __call__(self, rows):
        return rows.writeStream.foreachBatch(self.write)

    def write(self, batch, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(self.path / str(number)))
        if self.breaks and not batch.isEmpty():
            self.breaks -= 1
            raise ConnectionError("the disk is away")

    def rows(self):
        return rows_of([pq.read_table(path) for path in sorted(self.path.iterdir())])


@pytest.mark.spark
def test_a_job_that_fails_twice_goes_on_from_its_checkpoint(spark, streams, tmp_path):
    streams.write(EVENTS, ROWS)
    sink = Unsteady(tmp_path, breaks=2)
    job = started(spark, Insert(totals(), TOTALS), streams, sink=sink, restart=FixedDelay(attempts=2, wait_ms=1))
    assert job.wait(300)
    assert (job.state, job.progress().restarts, sink.rows()) == (JobState.FINISHED, 2, EXPECTED)
    assert job.last_failure is not None
    assert job.last_failure.diagnostic.message.endswith("ConnectionError: the disk is away")
    assert [failure.message for failure in job.record.failures] == [job.last_failure.diagnostic.message] * 2


@pytest.mark.long
@pytest.mark.spark
def test_a_job_stays_failed_when_its_attempts_are_used_up(spark, streams, tmp_path):
    streams.write(EVENTS, ROWS)
    sink = Unsteady(tmp_path, breaks=9)
    job = started(spark, Insert(totals(), TOTALS), streams, sink=sink, restart=FixedDelay(attempts=1, wait_ms=1))
    with pytest.raises(ExecutionError, match="the disk is away"):
        job.wait(300)
    assert (job.state, job.progress().restarts, sink.breaks) == (JobState.FAILED, 1, 7)


@pytest.mark.spark
def test_a_job_that_waits_to_start_again_can_be_stopped(spark, streams, tmp_path):
    streams.write(EVENTS, ROWS)
    sink = Unsteady(tmp_path, breaks=1)
    job = started(spark, Insert(totals(), TOTALS), streams, sink=sink, restart=FixedDelay(1, 3_600_000))
    while job.state is JobState.RUNNING:
        time.sleep(0.05)
    assert job.state is JobState.RESTARTING
    job.stop()
    assert (job.state, job.exception, job.progress().restarts) == (JobState.STOPPED, None, 0)
