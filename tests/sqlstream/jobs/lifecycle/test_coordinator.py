"""The coordinator's decisions: when an epoch begins, when it has taken too long, what stays of a checkpoint."""

from __future__ import annotations

import time
from threading import Thread

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.lifecycle.coordinator import Checkpointing, EpochDeadline, EpochPace, Retention
from sqlstream.jobs.records.history import History, checkpoints, last_committed


@pytest.mark.parametrize(
    ("interval_ms", "min_pause_ms", "started_ms", "ended_ms", "rest_ms"),
    [(1000, 0, 0, 300, 700), (1000, 500, 0, 300, 700), (1000, 500, 0, 800, 500), (0, 500, 0, 9999, 500)],
)
def test_an_epoch_begins_after_interval_and_pause(interval_ms, min_pause_ms, started_ms, ended_ms, rest_ms) -> None:
    assert Checkpointing(interval_ms, min_pause_ms).rest_ms(started_ms, ended_ms) == rest_ms


def test_a_pause_ends_when_somebody_wants_an_epoch_at_once() -> None:
    pace, runs = EpochPace(Checkpointing(min_pause_ms=600_000)), []

    def job() -> None:
        for number in range(3):
            runs.append(number)
            pace.rest()
        pace.end()

    thread = Thread(target=job, daemon=True)
    thread.start()
    while not runs:
        time.sleep(0.01)
    pace.run_at_once()
    assert len(runs) >= 2
    pace.skip()
    pace.run_at_once()  # also returns where the job ends
    thread.join(10)


def test_an_epoch_that_takes_too_long_is_noticed_once_it_has_begun() -> None:
    deadline = EpochDeadline(Checkpointing(timeout_ms=1000))
    assert not deadline.is_over(under_way=False, last_epoch=-1, now_ms=0)
    assert not deadline.is_over(under_way=True, last_epoch=-1, now_ms=5000)
    assert not deadline.is_over(under_way=True, last_epoch=-1, now_ms=6000)
    assert not deadline.is_over(under_way=True, last_epoch=0, now_ms=6500), "another one is under way"
    assert not deadline.is_over(under_way=False, last_epoch=0, now_ms=7000)
    assert not deadline.is_over(under_way=True, last_epoch=0, now_ms=9000)
    assert deadline.is_over(under_way=True, last_epoch=0, now_ms=10_001)


def test_epochs_that_take_too_long_in_a_row_are_tolerated_so_often() -> None:
    deadline = EpochDeadline(Checkpointing(timeout_ms=1000, tolerable_failures=2))
    for _ in range(2):
        deadline.give_up()
    assert not deadline.is_over(under_way=True, last_epoch=3, now_ms=0), "a complete epoch: counted anew"
    for _ in range(2):
        deadline.give_up()
    with pytest.raises(ExecutionError) as error:
        deadline.give_up()
    assert error.value.code == "SS450"
    assert error.value.diagnostic.message == "an epoch took longer than 1 seconds, 3 times in a row"


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention.ALWAYS, {"FINISHED", "STOPPED", "FAILED"}),
        (Retention.RETAIN_ON_CANCELLATION, {"STOPPED", "FAILED"}),
        (Retention.DELETE_ON_CANCELLATION, {"FAILED"}),
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, set()),
    ],
)
def test_what_stays_of_a_checkpoint_is_as_in_flink(retention: Retention, kept: set[str]) -> None:
    assert {status for status in ("FINISHED", "STOPPED", "FAILED") if retention.keeps(status)} == kept


def report(number: int, rows: int) -> dict[str, object]:
    return {
        "batchId": number, "timestamp": "2026-01-01T00:00:00.000Z", "batchDuration": 1500,
        "observedMetrics": {"source/0/t": {"rows": rows}}, "stateOperators": [{"numRowsTotal": 4}, {"numRowsTotal": 6}],
    }  # fmt: skip


def test_epochs_are_told_from_reports_and_from_the_files_of_the_checkpoint(tmp_path) -> None:
    storage = LocalStorage(tmp_path)
    for path, text in {
        "offsets/1": "abc", "commits/1": "de", "offsets/2": "a", "commits/2": "b", "offsets/3": "x",
        "state/0/0/2.changelog": "12345", "state/0/1/2_some-lineage.zip": "123", "state/0/0/3.delta": "1",
        "metadata": "m",
    }.items():  # fmt: skip
        storage.write(f"spark/{path}", text)
    history = History(storage)
    history.add([report(0, 7), report(1, 8)])
    history.add([report(1, 999)])
    history.write()
    actual = checkpoints(storage)
    assert [(c.epoch, c.rows, c.duration_ms, c.size, c.state_rows, c.retained) for c in actual] == [
        (2, None, None, 3, None, True),
        (1, 8, 1500, 13, 10, True),
        (0, 7, 1500, None, 10, False),
    ]
    assert actual[1].time == 1767225601.5
    assert last_committed(storage) == 2
    assert checkpoints(LocalStorage(tmp_path / "nothing")) == ()
