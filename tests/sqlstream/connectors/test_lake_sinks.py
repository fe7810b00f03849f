"""What sinks of Delta and Iceberg tables have in common: which micro-batches they take for written; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.connectors.written import WrittenBytes
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from tests.sqlstream.connectors import test_delta_sink as of_delta
from tests.sqlstream.connectors import test_iceberg as of_iceberg

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
of_pyiceberg: Any = pytest.importorskip("pyiceberg.table", reason="the package pyiceberg is not installed")
answers: Any = pytest.importorskip("pyiceberg.exceptions", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")


class Delta:
    """``commits``: the method of the library, and its class, that commits an upsert."""

    commits = (deltalake.table.TableMerger, "execute")
    tests: Any = of_delta

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, *keys: str) -> Table:
        return of_delta.table(self.folder / "t", keys=keys)

    def rows(self) -> list[tuple[Any, ...]]:
        return of_delta.stored(self.folder / "t")


class Iceberg:
    commits = (of_pyiceberg.Table, "_do_commit")
    tests: Any = of_iceberg

    def __init__(self, folder: Path) -> None:
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog_of(self.catalog).create_namespace("db")

    def table(self, *keys: str) -> Table:
        return of_iceberg.declared(self.catalog, keys=keys)

    def rows(self) -> list[tuple[Any, ...]]:
        return of_iceberg.stored(self.catalog)


Lake = Delta | Iceberg


@pytest.fixture(params=[Delta, Iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(tmp_path)
    return made


def require_intact(table: Table, begun: int | None, run: str = "r", *, resumed: bool = True) -> None:
    environment: Any = type(
        "Environment", (),
        {"run": run, "resumed": resumed, "begun": begun, "anew": False, "written": WrittenBytes()},
    )  # fmt: skip
    kind: Any = connector(table.connector)
    kind.require_intact(environment, table, None, False)


def test_a_checkpoint_that_is_older_than_the_table_is_refused(lake: Lake) -> None:
    """Its next micro-batch has the number of one that the table has, but may have other rows."""
    table, tests = lake.table(), lake.tests
    require_intact(table, 0)
    to = tests.writer_of(table)
    for number in range(3):
        tests.append(to, number, (number, "a"))
    require_intact(table, 2)
    require_intact(table, 7)
    require_intact(table, 0, "other")
    require_intact(table, None, resumed=False)
    with pytest.raises(ConnectorError) as raised:
        require_intact(table, 1)
    assert raised.value.diagnostic.render() == (
        f'SS543: {type(lake).__name__} table "t" has micro-batch 2 of this checkpoint, which has begun no more than 1\n'
        "DETAIL: The checkpoint is older than the table: what it writes next would be taken for written.\n"
        "HINT: Restore the newer checkpoint; or start from this one in a new directory "
        "('execution.state-recovery.path'), which writes the rows since then again."
    )
    with pytest.raises(ConnectorError, match="which has begun none"):
        require_intact(table, None)


def losing(monkeypatch: pytest.MonkeyPatch, lake: Lake, error: Exception, *, committed: bool) -> list[int]:
    """Lets the first commit of the library fail with an error, behind the commit itself or before it. Returns a list
    that gets an element for each.
    """
    kind, name = lake.commits
    own: Callable[..., Any] = getattr(kind, name)
    commits: list[int] = []

    def commit(*arguments: Any, **named: Any) -> Any:
        commits.append(1)
        if len(commits) > 1:
            return own(*arguments, **named)
        if committed:
            own(*arguments, **named)
        raise error

    monkeypatch.setattr(kind, name, commit)
    monkeypatch.setattr(CommitRetry, "_pause", lambda self, attempts: 0.0)
    return commits


@pytest.mark.parametrize("error", [OSError("connection reset"), RuntimeError("what is this answer")])
def test_an_upsert_whose_answer_is_lost_is_not_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    to = lake.tests.writer_of(lake.table("id"))
    lake.tests.upsert(to, 0, (1, "a", "+I"), (2, "b", "+I"))
    commits = losing(monkeypatch, lake, error, committed=True)
    lake.tests.upsert(to, 1, (1, "c", "+U"), (2, "b", "-D"))
    assert len(commits) == 1
    assert lake.rows() == [(1, "c")]


def _of_database() -> Exception:
    from sqlalchemy.exc import OperationalError

    return OperationalError("UPDATE iceberg_tables", {}, Exception("database is locked"))


PASSING: dict[type[Lake], list[Exception]] = {
    Delta: [OSError("connection reset"), deltalake.exceptions.CommitFailedError("another one was first")],
    Iceberg: [
        OSError("connection reset"),
        answers.CommitFailedException("branch main has changed"),
        answers.CommitStateUnknownException("503"),
        answers.ServerError("500"),
        answers.TooManyRequestsError("429"),
        _of_database(),
    ],
}


@pytest.mark.parametrize(("kind", "error"), [(kind, error) for kind, errors in PASSING.items() for error in errors])
@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_is_repeated_where_the_store_may_answer_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Lake], error: Exception, committed: bool
) -> None:
    """Where it has committed in spite of its answer, it is not."""
    lake = kind(tmp_path)
    to = lake.tests.writer_of(lake.table("id"))
    commits = losing(monkeypatch, lake, error, committed=committed)
    lake.tests.upsert(to, 0, (1, "a", "+I"))
    assert len(commits) == (1 if committed else 2)
    assert lake.rows() == [(1, "a")]
    lake.tests.upsert(to, 1, (1, "a", "-D"))
    assert lake.rows() == []


def test_a_commit_that_the_catalog_refuses_is_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    to = lake.tests.writer_of(lake.table("id"))
    commits = losing(monkeypatch, lake, PermissionDenied("no rights"), committed=False)
    with pytest.raises(ConnectorError, match=r"SS550: rows are not committed to .* table \"t\": no rights"):
        lake.tests.upsert(to, 0, (1, "a", "+I"))
    assert len(commits) == 1
    assert lake.rows() == []


class PermissionDenied(Exception):
    pass
