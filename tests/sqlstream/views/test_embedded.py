"""The PostgreSQL server of one machine: made once, found again, stopped by the last process that uses it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.views.embedded import Server, embedded, release

USES = "import sys; from pathlib import Path; from sqlstream.views.embedded import embedded; "
TELLS = f"{USES}print(embedded(Path(sys.argv[1])).url, flush=True)"
WAITS = f"{TELLS}; sys.stdin.read()"


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may enter, unlike pytest's: as root the server is another user."""
    place = Path(tempfile.mkdtemp(prefix="sqlstream-embedded-"))
    place.chmod(0o755)
    yield place / "postgres"
    release(place / "postgres")
    shutil.rmtree(place)


def answers(server: Server | str) -> bool:
    try:
        with psycopg.connect(server if isinstance(server, str) else server.url, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_a_server_is_made_once_and_ends_with_the_last_process_that_uses_it(folder: Path) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout is not None and killed.stdin is not None
    url = killed.stdout.readline().strip()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t (a INT)")
    assert (folder / "password").stat().st_mode & 0o777 == 0o600

    # the server outlives a process that is killed, and the next one finds it with what is in it
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdin.close()
    killed.stdout.close()
    server = embedded(folder)
    assert server.url == url
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)

    # one that ends leaves it to us
    told = subprocess.run([sys.executable, "-c", TELLS, str(folder)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == url
    assert answers(server)
    assert not answers(server.url.replace(server.password, "other"))
    release(folder)
    assert not answers(server)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the server another user")
def test_a_folder_that_the_servers_user_cannot_reach_is_told(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SqlStreamError, match='SS485: root runs PostgreSQL as the user "pgserver", who may not enter'):
        embedded(closed / "postgres")
