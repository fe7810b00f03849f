"""Requests of other processes: answered, refused, left behind, and never answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from sqlstream.errors import BindError, ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import JobRecord, write_record
from sqlstream.jobs.records.requests import Answer, RecordedJob, Request, answer, recorded_jobs, send, waiting
from tests.sqlstream.jobs.records.written import GONE, life, record


@pytest.fixture
def storage(tmp_path) -> LocalStorage:
    return LocalStorage(tmp_path / "totals")


def written(storage: LocalStorage, record: JobRecord) -> RecordedJob:
    write_record(storage, record)
    return RecordedJob(record, storage)


def answering(storage: LocalStorage, act: Callable[[Request], Answer]) -> Thread:
    """Plays the process of the job until it has answered once."""

    def run() -> None:
        while not (actual := waiting(storage, "instance-1")):
            time.sleep(0.01)
        answer(storage, actual[0], lambda: act(actual[0]))

    thread = Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_an_answer_comes_back_and_leaves_nothing_behind(storage: LocalStorage) -> None:
    job = written(storage, record())
    asked: list[Request] = []

    def act(request: Request) -> Answer:
        asked.append(request)
        return "/savepoints/1"

    thread = answering(storage, act)
    assert job.stop(savepoint="/savepoints/1", drain=True, timeout_s=30) == "/savepoints/1"
    thread.join(10)
    assert [(r.kind, r.savepoint, r.drain) for r in asked] == [("stop", "/savepoints/1", True)]
    assert not list((storage.root / "requests").iterdir()) + list((storage.root / "replies").iterdir())


def test_a_folder_of_requests_that_is_a_link_is_left_alone(storage: LocalStorage, tmp_path: Path) -> None:
    """What is no request is removed."""
    storage.root.mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mine.json").write_text("{}")
    for name in ("requests", "replies"):
        (storage.root / name).symlink_to(tmp_path / "data")
    assert waiting(storage, "instance-1") == ()
    with pytest.raises(ExecutionError, match=r"SS416: .* a link leads out of the folder of the job"):
        answer(storage, Request("instance-1", "checkpoint"), lambda: 1)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine.json"]


def test_a_request_that_is_nested_too_deeply_is_none(storage: LocalStorage) -> None:
    storage.write("requests/a.json", "[" * 100_000)
    assert waiting(storage, "instance-1") == ()
    assert not list((storage.root / "requests").iterdir())


ID = "0" * 32


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"instance": "instance-1", "kind": "stop", "of a newer version": 1}',
        '{"instance": "instance-1", "kind": "stop", "id": "../../payload"}',
        '{"instance": "instance-1", "kind": "stop", "id": "/tmp/payload"}',
        f'{{"instance": "instance-1", "kind": "stop", "id": "{"1" * 32}"}}',
        f'{{"instance": "instance-1", "kind": "explode", "id": "{ID}"}}',
        f'{{"instance": "instance-1", "kind": "savepoint", "savepoint": 7, "id": "{ID}"}}',
        f'{{"instance": "instance-1", "kind": "stop", "drain": "yes", "id": "{ID}"}}',
        '{"instance": "instance-1", "kind": "stop", "id": 7}',
    ],
)  # fmt: skip
def test_what_is_no_request_does_not_keep_others_from_their_answers(storage: LocalStorage, text: str) -> None:
    storage.write(f"requests/{ID}.json", text)
    send(storage, Request("instance-1", "stop"))
    assert [(request.kind, len(request.id)) for request in waiting(storage, "instance-1")] == [("stop", 32)]
    assert not (storage.root / f"requests/{ID}.json").exists()


@pytest.mark.parametrize("text", ["", "[1]", '{"answer": {}}', '{"error": []}', '{"error": [{"sql": 1}]}'])
def test_an_answer_that_is_none_is_told(storage: LocalStorage, text: str) -> None:
    job = written(storage, record())

    def reply() -> None:
        while not (actual := waiting(storage, "instance-1")):
            time.sleep(0.01)
        storage.write(f"replies/{actual[0].id}.json", text)

    Thread(target=reply, daemon=True).start()
    with pytest.raises(ExecutionError, match=r"SS453: the answer .* of a job cannot be read"):
        job.checkpoint(timeout_s=30)


def test_an_answer_is_not_written_through_a_link(storage: LocalStorage, tmp_path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("mine")
    request = Request("instance-1", "checkpoint")
    storage.make_folder("replies")
    (storage.root / f"replies/.{request.id}.json").symlink_to(theirs)
    with pytest.raises(ExecutionError, match="SS416"):
        answer(storage, request, lambda: 1)
    assert theirs.read_text() == "mine"


def test_the_number_of_an_epoch_comes_back_and_none_where_there_is_none(storage: LocalStorage) -> None:
    job = written(storage, record())
    answering(storage, lambda _: 17)
    assert job.checkpoint(timeout_s=30) == 17
    answering(storage, lambda _: None)
    assert job.checkpoint(timeout_s=30) is None


def test_the_error_of_the_other_process_is_raised_here(storage: LocalStorage) -> None:
    def act(request: Request) -> Answer:
        raise ExecutionError("SS426", "no savepoint could be taken", detail="The disk is full.")

    job = written(storage, record())
    answering(storage, act)
    with pytest.raises(ExecutionError) as error:
        job.savepoint(timeout_s=30)
    assert (error.value.code, error.value.diagnostic.detail) == ("SS426", "The disk is full.")


def test_a_job_that_does_not_run_cannot_be_asked_and_needs_not_be_stopped(storage: LocalStorage) -> None:
    job = written(storage, record(life=life("FINISHED")))
    assert job.stop() is None
    with pytest.raises(BindError) as error:
        job.checkpoint()
    assert str(error.value) == (
        'SS231: job "totals" is not running but FINISHED\nHINT: SHOW JOBS lists the jobs with their status.'
    )


def test_a_job_whose_process_is_gone_says_so_and_needs_not_be_stopped(storage: LocalStorage) -> None:
    job = written(storage, record(life=life(process=GONE)))
    assert job.stop() is None
    with pytest.raises(ExecutionError) as error:
        job.stop(savepoint=True)
    assert error.value.code == "SS451"
    assert error.value.diagnostic.message == f'job "totals" does not run: {job.record.gone}'


def test_a_process_that_ends_before_it_has_answered_is_not_waited_for(storage: LocalStorage) -> None:
    job = written(storage, record())
    write_record(storage, replace(job.record, life=life("FAILED", error=("SS400", "no disk"))))
    with pytest.raises(ExecutionError) as error:
        job.checkpoint(timeout_s=30)
    assert (error.value.code, error.value.diagnostic.detail) == ("SS451", "no disk")
    assert job.stop(timeout_s=30) is None, "it has ended, as it was asked to"


def test_a_job_that_has_stopped_is_waited_for_until_it_has_answered(storage: LocalStorage) -> None:
    job = written(storage, record())
    write_record(storage, replace(job.record, life=life("STOPPED")))

    def reply() -> None:
        while not (asked := list(storage.texts("requests/*.json"))):
            time.sleep(0.05)
        time.sleep(1.5)  # it has been looked at meanwhile whether the job still runs
        storage.write(asked[0].replace("requests", "replies"), '{"answer": "/savepoints/1"}')

    Thread(target=reply).start()
    assert job.savepoint(timeout_s=30) == "/savepoints/1"


def test_a_job_that_does_not_answer_in_time_says_so_and_does_not_act_later(storage: LocalStorage) -> None:
    job = written(storage, record())
    with pytest.raises(ExecutionError, match="has not answered within"):
        job.checkpoint(timeout_s=0.2)
    assert waiting(storage, "instance-1") == ()


def test_what_was_asked_of_an_earlier_start_is_thrown_away(storage: LocalStorage) -> None:
    send(storage, Request("instance-0", "stop"))
    send(storage, Request("instance-1", "checkpoint"))
    assert [request.kind for request in waiting(storage, "instance-1")] == ["checkpoint"]
    assert len(list((storage.root / "requests").iterdir())) == 1


def test_directories_of_other_machines_cannot_be_looked_at_without_spark() -> None:
    with pytest.raises(BindError, match="no directory of this machine"):
        recorded_jobs("s3a://bucket/checkpoints")
