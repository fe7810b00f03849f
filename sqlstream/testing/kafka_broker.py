"""A Kafka broker of one node, for tests and to try things out: ``python -m sqlstream.testing.kafka_broker``.

Apache Kafka is Java, and no package of Python has it. The Ivy among PySpark's own jars, which also serves
``spark.jars.packages``, fetches Kafka's jars from Maven's repository once, into the user's cache.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlstream.paths import cache_folder, made
from sqlstream.spark.java import find_java, require_java

VERSION = "4.3.1"
PORT = 9092
_HOST = "127.0.0.1"
_READY_SECONDS = 60
_STOP_SECONDS = 20

_MODULES = f"""\
<ivy-module version="2.0">
  <info organisation="sqlstream" module="broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{VERSION}"/>
  </dependencies>
</ivy-module>
"""
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""
_REPOSITORY = "DEFAULT_ARTIFACT_REPOSITORY"
"""The environment variable with which Spark, too, is given a mirror of Maven's repository."""
_CENTRAL = "https://repo1.maven.org/maven2/"


class BrokerError(RuntimeError):
    """Kafka could not be fetched, or does not start. The message ends with what Java said."""


# --- its jars -------------------------------------------------------------------------------------------------


def kafka_jars() -> Path:
    """Returns the folder with Kafka's jars, which are fetched if they are not there. BrokerError if that fails."""
    cache = made(cache_folder())
    if cache is None:
        raise BrokerError("Kafka's jars need a folder for caches that can be written; XDG_CACHE_HOME may name one")
    target = cache / f"kafka-{VERSION}"
    if not target.is_dir():
        with TemporaryDirectory(prefix=f"{target.name}-", dir=cache) as scratch:
            fetched = _fetch(Path(scratch))
            try:
                fetched.rename(target)
            except OSError:
                if not target.is_dir():  # another process may have been faster
                    raise
    return target


def _fetch(scratch: Path) -> Path:
    modules, settings, jars = scratch / "ivy.xml", scratch / "settings.xml", scratch / "jars"
    modules.write_text(_MODULES, encoding="utf-8")
    settings.write_text(_SETTINGS.format(root=os.environ.get(_REPOSITORY, _CENTRAL)), encoding="utf-8")
    spark = find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    command = [
        *_java(Path(spark.origin).parent / "jars"), "org.apache.ivy.Main", "-settings", settings, "-ivy", modules,
        "-cache", scratch / "cache", "-confs", "default", "-types", "jar", "bundle",
        "-retrieve", jars / "[artifact]-[revision].[ext]",
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode or not any(jars.glob("kafka_*.jar")):
        said = _last_lines(done.stdout + done.stderr)
        raise BrokerError(f"Kafka {VERSION} cannot be fetched; {_REPOSITORY} may name a mirror of Maven's:\n{said}")
    return jars


def _java(jars: Path) -> list[str]:
    require_java()
    executable = find_java()
    assert executable is not None
    return [executable, "-cp", f"{jars}/*"]


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-20:])


# --- the broker -----------------------------------------------------------------------------------------------


class Broker:
    """A broker on this machine. Its data in ``directory`` outlive it; it may be stopped and started again.

    ``properties``: those of ``server.properties`` that differ from the usual ones.
    """

    def __init__(self, directory: Path, port: int | None = None, properties: Mapping[str, str] | None = None) -> None:
        self.port = _free_port() if port is None else port
        self._directory = directory
        self._jars = kafka_jars()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = directory / "server.properties"
        given = {**_usual(directory / "data", self.port, _free_port()), **(properties or {})}
        directory.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in given.items()), encoding="utf-8")
        if not (directory / "data" / "meta.properties").exists():
            self._format("controller" in given["process.roles"])

    @property
    def address(self) -> str:
        """The value for the option ``properties.bootstrap.servers``."""
        return f"{_HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The number of its process, while it runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """What the broker has said."""
        return self._directory / "broker.log"

    def start(self) -> None:
        """Starts the broker and waits until it answers. BrokerError if it does not."""
        with self.log.open("ab") as log:
            # In a group of its own: Ctrl-C in a terminal must not end it before those that use it.
            self._process = subprocess.Popen(
                [*self._command(), "kafka.Kafka", str(self._settings)],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _READY_SECONDS
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                said = _last_lines(self.log.read_text(encoding="utf-8", errors="replace"))
                raise BrokerError(f"Kafka {VERSION} does not start on port {self.port}:\n{said}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stops the broker as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the broker at once."""
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(by)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _format(self, leads: bool) -> None:
        """``leads``: the broker is also the controller, of itself and of brokers that are none."""
        cluster = "sqlstreamsqlstreamsqlQ"  # any UUID in base64
        command = [*self._command(), "kafka.tools.StorageTool", "format", "-t", cluster]
        command += ["--standalone", "-c"] if leads else ["-c"]
        done = subprocess.run([*command, str(self._settings)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(
                f'"{self._directory}" cannot hold data of Kafka:\n{_last_lines(done.stdout + done.stderr)}'
            )

    def _command(self) -> list[str]:
        java, *words = _java(self._jars)
        return [java, "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *words]


@contextmanager
def running_broker(
    directory: Path, port: int | None = None, properties: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """A context manager with a broker that runs until it ends. ``port``: a free one if None."""
    broker = Broker(directory, port, properties)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _usual(data: Path, port: int, controller_port: int) -> dict[str, str]:
    once = {
        f"{topic}.{key}": "1"
        for topic, keys in {
            "offsets.topic": ("num.partitions", "replication.factor"),
            "transaction.state.log": ("num.partitions", "replication.factor", "min.isr"),
            "share.coordinator.state.topic": ("num.partitions", "replication.factor", "min.isr"),
        }.items()
        for key in keys
    }
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{_HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{_HOST}:{controller_port}",
        "log.dirs": str(data),
        "group.initial.rebalance.delay.ms": "0",
        **once,
    }


def _answers(port: int) -> bool:
    with closing(socket.socket()) as client:
        client.settimeout(1)
        return client.connect_ex((_HOST, port)) == 0


def _free_port() -> int:
    with closing(socket.socket()) as server:
        server.bind((_HOST, 0))
        port: int = server.getsockname()[1]
        return port


# --- the command ----------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Runs a broker until Ctrl-C. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sqlstream.testing.kafka_broker", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help=f"where clients connect; {PORT} if not given")
    parser.add_argument("--directory", type=Path, help="where data outlive the broker; else they go with it")
    given = parser.parse_args(arguments)
    if _answers(given.port):
        sys.stderr.write(f"port {given.port} is in use; choose another one with --port\n")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory(prefix="sqlstream-kafka-") as scratch:
        directory = (given.directory or Path(scratch)).absolute()
        try:
            with running_broker(directory, given.port) as broker:
                sys.stdout.write(
                    f"Kafka {VERSION} runs; Ctrl-C stops it. In CREATE TABLE … WITH:\n"
                    f"  'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker.address}'\n"
                )
                sys.stdout.flush()
                signal.pause()
        except KeyboardInterrupt:
            return 0
        except BrokerError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
