"""The embedded PostgreSQL server (package ``pgserver``), which stores views where no other database is named.

Its data, its port and its password are in one folder; only processes of this machine can connect. The first process
that needs the server starts it, the last one stops it. A server whose processes were killed keeps running, and the next
process finds it by its folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.jobs.records.record import Process, process_here, this_process
from sqlstream.udfs.texts import reason_of

NO_SERVER = "SS485"
NO_PACKAGE = "SS698"

_USER, _DATABASE, _HOST = "sqlstream", "views", "127.0.0.1"
_OWNER = "pgserver"
"""The user of the system that runs the server where we are root, as whom PostgreSQL refuses to run."""

_SECONDS = 120
_PORTS = range(15432, 15532)
_ANOTHER = "SET 'sqlstream.views.url' to a server that runs, postgresql://user@host:5432/database."


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server that stores materialized views, with its data in ``folder``."""

    folder: Path
    port: int
    password: str

    @property
    def url(self) -> str:
        """The URL of the database, with its password."""
        return f"postgresql://{_USER}:{self.password}@{_HOST}:{self.port}/{_DATABASE}"


def embedded(folder: Path) -> Server:
    """Returns the PostgreSQL server with its data in ``folder``; creates and starts it if necessary. This process
    counts as its user until it ends.

    Raises ConnectorError SS698 without the package, ExecutionError SS485 where the server does not start.
    """
    require_package()
    try:
        _make_enterable(folder)
        with _alone(folder):
            if not (folder / "data" / "PG_VERSION").exists():
                _make(folder)
            server = _server(folder)
            if not _runs(folder):
                server = _started(folder)
            _note_use(folder)
    except OSError as error:
        message = f'the PostgreSQL server in "{folder}" cannot be used: {reason_of(error)}'
        raise ExecutionError(NO_SERVER, message, hint=_ANOTHER) from error
    return server


def release(folder: Path) -> None:
    """Mark the server as no longer used by this process; stop it if no process uses it."""
    with suppress(OSError, ExecutionError), _alone(folder):
        _use_file(folder, this_process()).unlink(missing_ok=True)
        if _runs(folder) and not any(process.is_alive for process in _users(folder)):
            _run(folder, "pg_ctl", "-D", folder / "data", "-w", "-m", "fast", "stop")


def require_package() -> None:
    """Raises ConnectorError SS698 where the PostgreSQL server or its client is not installed."""
    for package in ("pgserver", "psycopg"):
        if find_spec(package) is None:
            message = f'materialized views need the Python package "{package}", which is not installed'
            hint = f"pip install 'sqlstream[views]'. With psycopg alone: {_ANOTHER}"
            raise ConnectorError(NO_PACKAGE, message, hint=hint)


# --- its files ------------------------------------------------------------------------------------------------


def _make(folder: Path) -> None:
    shutil.rmtree(folder / "data", ignore_errors=True)  # of a process that was killed as it made them
    password = folder / "password"
    _write_private(password, secrets.token_urlsafe(18))
    (folder / "port").write_text(str(_free_port()), encoding="utf-8")
    initial = folder / "data.new"
    shutil.rmtree(initial, ignore_errors=True)
    _run(
        folder, "initdb", "-D", initial, "-U", _USER, "-A", "scram-sha-256", "--pwfile", password, "-E", "utf8",
        "--locale", "C",
    )  # fmt: skip
    initial.rename(folder / "data")


def _server(folder: Path) -> Server:
    port = int((folder / "port").read_text(encoding="utf-8"))
    return Server(folder, port, (folder / "password").read_text(encoding="utf-8").strip())


def _started(folder: Path) -> Server:
    server = _server(folder)
    if not _is_free(server.port):
        server = Server(folder, _free_port(), server.password)
        (folder / "port").write_text(str(server.port), encoding="utf-8")
    options = f"-h {_HOST} -p {server.port} -k ''"  # no socket in the file system, whose paths must be short
    _run(folder, "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log", "-o", options, "start")
    _make_database(server)
    return server


def _make_database(server: Server) -> None:
    import psycopg  # an optional package

    with psycopg.connect(server.url.replace(f"/{_DATABASE}", "/postgres"), autocommit=True) as connection:
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_DATABASE]).fetchone()
        if there is None:
            connection.execute(f"CREATE DATABASE {_DATABASE}")


def _runs(folder: Path) -> bool:
    """Whether the server runs: the first line of its process file is the process number, unless it was shut down."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        process = process_here(pid)
        command = Path(f"/proc/{pid}/cmdline")
        return process.is_alive and (not command.exists() or b"postgres" in command.read_bytes())
    except (OSError, ValueError):
        return False


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    if _is_root():
        shutil.chown(path, _OWNER)


def _free_port() -> int:
    """A free port, if possible the same on each start, so that tools find the server again."""
    for port in _PORTS:
        if _is_free(port):
            return port
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        free: int = listener.getsockname()[1]
        return free


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except OSError:
            return False
    return True


# --- who uses it ----------------------------------------------------------------------------------------------


def _use_file(folder: Path, process: Process) -> Path:
    return folder / "users" / f"{process.pid}-{process.started or 0}"


def _users(folder: Path) -> Iterator[Process]:
    """The other processes that use the server. Files of processes that are gone are removed."""
    for path in (folder / "users").glob("*-*"):
        pid, _, started = path.name.partition("-")
        process = Process(socket.gethostname(), int(pid), int(started) or None)
        if process.is_alive:
            yield process
        else:
            path.unlink(missing_ok=True)


def _note_use(folder: Path) -> None:
    use = _use_file(folder, this_process())
    if not use.exists():
        use.parent.mkdir(exist_ok=True)
        use.touch()
        atexit.register(release, folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- its programs ---------------------------------------------------------------------------------------------


def _is_root() -> bool:
    return os.geteuid() == 0


def _make_enterable(folder: Path) -> None:
    """Give the server's user access to the folder. ExecutionError SS485 where that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    if not _is_root():
        return
    with _quiet():
        from pgserver.utils import ensure_prefix_permissions, ensure_user_exists  # an optional package

        ensure_user_exists(_OWNER)
        ensure_prefix_permissions(_programs())
    closed = next((parent for parent in folder.parents if not parent.stat().st_mode & 0o001), None)
    if closed is not None:
        message = f'root runs PostgreSQL as the user "{_OWNER}", who may not enter "{closed}"'
        hint = (
            f"SET 'sqlstream.views.dir' to a directory that all users may enter, or run it as another user. {_ANOTHER}"
        )
        raise ExecutionError(NO_SERVER, message, hint=hint)
    shutil.chown(folder, _OWNER)
    folder.chmod(0o711)


def _programs() -> Path:
    with _quiet():
        from pgserver._commands import POSTGRES_BIN_PATH  # an optional package

    return Path(POSTGRES_BIN_PATH)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgserver asks for XDG_RUNTIME_DIR when it is imported
        yield


def _run(folder: Path, program: str, *arguments: str | Path) -> None:
    """Run a program; ExecutionError SS485 with the end of its output where it fails."""
    command = [str(_programs() / program), *map(str, arguments)]
    output = folder / "output"
    with output.open("w") as written:  # a pipe would stay open as long as the server runs
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, cwd=folder, timeout=_SECONDS,
            user=_OWNER if _is_root() else None, start_new_session=True,
        )  # fmt: skip
    if done.returncode:
        said = output.read_text(encoding="utf-8", errors="replace").strip()
        message = f'PostgreSQL in "{folder}" cannot be used: {program} ended with exit status {done.returncode}'
        raise ExecutionError(NO_SERVER, message, detail=said[-2000:] or None, hint=_ANOTHER)
