"""Spark in processes of its own on this machine: a Master and two Workers with a core each, a server of Connect."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from tests.faults.processes import kill_all
from tests.server_places import free_port

_WORKERS = 2
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Cluster:
    """``workers`` are the processes of the Workers."""

    url: str
    workers: tuple[int, ...]


@contextmanager
def cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """``environment`` is that of Python in executors, too."""
    with _processes(folder, {**environment, "SPARK_WORKER_DIR": str(folder / "work")}) as start:
        port = free_port()
        url = f"spark://127.0.0.1:{port}"
        arguments = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        master = start("master", "spark-class", "org.apache.spark.deploy.master.Master", *arguments)
        _wait_for(port, master)
        worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
        limits = ("--cores", "1", "--memory", "2g")
        workers = [start(f"worker-{number}", "spark-class", *worker, *limits, url) for number in range(_WORKERS)]
        yield Cluster(url, tuple(process.pid for process in workers))


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The URL of a server of Spark Connect that has two cores of this machine."""
    with _processes(folder, environment) as start:
        port = free_port()
        settings = (f"spark.connect.grpc.binding.port={port}", "spark.driver.host=127.0.0.1", "spark.ui.enabled=false")
        given = (argument for setting in settings for argument in ("--conf", setting))
        server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]")
        _wait_for(port, start("connect", "spark-submit", *server, *given, "spark-internal"))
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _processes(folder: Path, environment: Mapping[str, str]) -> Iterator[Callable[..., Popen[bytes]]]:
    """A function that starts a command of Spark's under a name, with its log in the folder; all of them end here."""
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    home, started = Path(pyspark.__file__).parent, list[Popen[bytes]]()
    ours = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}

    def start(name: str, *command: str) -> Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            known = {"PYSPARK_PYTHON": sys.executable, **environment, **ours}
            run = [str(home / "bin" / command[0]), *command[1:]]
            started.append(Popen(run, env=known, cwd=folder, stdout=log, stderr=log))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            kill_all(process.pid)
            process.wait()


def _wait_for(port: int, process: Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit(f"{process.args!r} did not start") from None
            time.sleep(0.2)
