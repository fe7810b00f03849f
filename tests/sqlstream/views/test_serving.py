"""``sqlstream serve`` as a process: killed with -9 while rows come, it goes on; no row is lost or doubled."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest
from click.testing import CliRunner

from examples.views.served import COPIES, SCRIPT, Reader, Server, Writer, is_there, place
from sqlstream.cli import commands
from sqlstream.errors import SqlStreamError
from sqlstream.views.keeping import ViewStatus
from sqlstream.views.serving import Serving, _Served
from sqlstream.workspace import Workspace

LIMIT_S = 300.0


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def counted(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT COUNT(*), COUNT(DISTINCT id) FROM copies").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


@pytest.mark.spark
@pytest.mark.long
def test_a_server_that_is_killed_goes_on_with_whole_epochs() -> None:
    with place() as folder:
        server = Server(folder, SCRIPT + COPIES)
        server.start()
        url = server.url()
        until(lambda: is_there(url, "copies"))
        reader, writer = Reader(url), Writer(folder, 1000, 0.2)
        try:
            until(lambda: len(reader.seen.epochs) > 1)
            server.kill()
            before = len(reader.seen.epochs)
            server.start()
            assert server.url() == url  # PostgreSQL has gone on
            until(lambda: len(reader.seen.epochs) > before)
            writer.stop()
            until(lambda: counted(url)[0] >= writer.rows)
            until(lambda: max(reader.seen.visible) == len(writer.arrived) - 1)
            assert counted(url) == (writer.rows, writer.rows)
            page = (folder / "out").read_text(encoding="utf-8").splitlines()[1]
            address, _, token = page.partition("/?token=")
            asked = urllib.request.Request(f"{address}/views.json", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(asked) as answer:
                told = json.load(answer)
            assert [(view["name"], view["state"]) for view in told["views"]] == [
                ("totals", "RUNNING"),
                ("copies", "RUNNING"),
            ]
            assert ":******@" in told["url"]
        finally:
            writer.stop()
            reader.stop()
            assert server.stop() == 0
        assert reader.seen.broken == 0
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=5)


def test_the_script_of_the_example_is_right() -> None:
    script = Path(__file__).parents[3] / "examples" / "views" / "views.sql"
    done = CliRunner().invoke(commands, ["check", str(script), "--param", "data=/data"])
    assert (done.exit_code, done.output) == (0, "no mistakes\n")


def test_mistakes_of_a_script_are_told_before_anything_starts() -> None:
    done = CliRunner().invoke(commands, ["serve", "-e", "CREATE MATERIALIZED VIEW v AS SELECT a FROM absent"])
    assert isinstance(done.return_value, int) or done.exit_code in (0, 1)
    assert 'SS202: table or view "absent" does not exist' in done.output


def test_the_rows_of_a_query_would_be_seen_by_nobody() -> None:
    from sqlstream.session import Session
    from sqlstream.views.serving import Serving

    with Session() as session, pytest.raises(SqlStreamError, match="SS489: nobody sees the rows of a query"):
        Serving(session, lambda text: None).run(["SELECT 1"])


TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT 1 AS x"


def session_of(views: Mock) -> Mock:
    """A session that has these views, and no settings."""
    return Mock(views=views, workspace=Workspace())


def test_a_view_that_is_dropped_is_not_started_again() -> None:
    """Its state is gone with it, wherever DROP was called; a job that was only stopped is started."""
    view = Mock(name="view")
    view.name = "totals"
    views = Mock(status=Mock(return_value=ViewStatus("totals", "STOPPED")), is_dropped=Mock(return_value=False))
    said: list[str] = []
    serving = Serving(session_of(views), said.append)
    served = _Served(Mock(), TOTALS, view)
    serving._served.append(served)
    serving.look()
    assert (views.begin.call_count, serving.is_over) == (1, False)
    views.is_dropped.return_value = True
    serving.look()
    serving.look()
    assert (views.begin.call_count, serving.is_over) == (1, True)
    assert said == ['"totals" has been dropped, and is not kept any more']


def test_nothing_that_was_never_begun_is_over() -> None:
    assert not Serving(session_of(Mock()), print).is_over
