"""A standalone cluster of Spark on this machine: a Master and two Workers with a core each."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.processes import kill_all

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
    folder.mkdir(parents=True, exist_ok=True)
    port, started = _free_port(), []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        known = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        known["SPARK_WORKER_DIR"] = str(folder / "work")
        with (folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), *arguments]
            started.append(subprocess.Popen(command, env={**environment, **known}, stdout=log, stderr=log))
        return started[-1]

    try:
        url = f"spark://127.0.0.1:{port}"
        arguments = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        start("master", "org.apache.spark.deploy.master.Master", *arguments)
        _wait_for(port)
        worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
        limits = ("--cores", "1", "--memory", "2g")
        workers = [start(f"worker-{number}", *worker, *limits, url) for number in range(_WORKERS)]
        yield Cluster(url, tuple(process.pid for process in workers))
    finally:
        for process in started:
            kill_all(process.pid)
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise SystemExit("the Master did not start") from None
            time.sleep(0.2)
