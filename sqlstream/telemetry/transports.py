"""Where events of lineage go: into a file, to a server or to a topic of Kafka, without making a job wait."""

from __future__ import annotations

import json
import logging
import queue
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Protocol
from urllib.parse import urlsplit

from sqlstream.connectors.kafka.client import PREFIX, client_properties
from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

_LOG = logging.getLogger("sqlstream.lineage")

CANNOT_WRITE = "SS477"
_PATH = "/api/v1/lineage"
_TIMEOUT_S = 5.0
_ATTEMPTS = 3
_MOST_WAITING = 1_000
_KAFKA_MS = "60000"

Event = Mapping[str, Any]


class Transport(Protocol):
    """Takes the events of jobs."""

    def send(self, event: Event) -> None:
        """Have an event delivered; does not wait for a server."""
        ...

    def close(self) -> None:
        """Wait until what is there is delivered, a few seconds at most."""
        ...


class FileTransport:
    """Appends events to a file, one JSON object a line. Raises ExecutionError SS477 where it cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = Lock()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8"):
                pass
        except OSError as error:
            message = f'events of lineage cannot be written to "{path}": {reason_of(error)}'
            hint = "SET 'lineage.openlineage.file' to a file that can be written."
            raise ExecutionError(CANNOT_WRITE, message, hint=hint) from error

    def send(self, event: Event) -> None:
        """Append an event."""
        line = json.dumps(event, ensure_ascii=False)
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def close(self) -> None:
        """The file is closed after each event."""


Post = Callable[[str, bytes, Mapping[str, str]], None]
"""Sends a body with headers to a URL. Raises where the server does not take it."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Sends a request by ``urllib``."""
    request = urllib.request.Request(url, body, dict(headers), method="POST")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        answer.read()


class HttpTransport:
    """Posts events to a server of OpenLineage on a thread of its own. Events that it does not take after three attempts
    are dropped, and logged.

    ``url``: the server, or with a path the whole address. ``key``: the API key, sent as a bearer token.
    """

    def __init__(self, url: str, key: str | None = None, send: Post = post, pause_s: float = 1.0) -> None:
        self._url = url if urlsplit(url).path.strip("/") else url.rstrip("/") + _PATH
        authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._headers = {"Content-Type": "application/json", **authorization}
        self._post, self._pause_s = send, pause_s
        self._events: queue.Queue[Event | None] = queue.Queue(_MOST_WAITING)
        self._thread = Thread(target=self._run, name="sqlstream-lineage", daemon=True)
        self._thread.start()

    def send(self, event: Event) -> None:
        """Have an event sent; one is dropped where a thousand wait."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            _LOG.warning("an event of lineage is dropped: %s wait for the server", _MOST_WAITING)

    def close(self) -> None:
        """Wait until what is there is sent, a few seconds at most."""
        with suppress(queue.Full):  # of a server that is away; the thread ends with the process
            self._events.put(None, timeout=_TIMEOUT_S)
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            self._deliver(json.dumps(event).encode())

    def _deliver(self, body: bytes) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._post(self._url, body, self._headers)
                return
            except Exception as error:  # HTTP's status, no connection, an answer that is no HTTP: the thread must go on
                if attempt == _ATTEMPTS:
                    _LOG.warning("an event of lineage is not taken by the server, and dropped: %s", error)
                else:
                    time.sleep(self._pause_s * attempt)


class KafkaTransport:
    """Writes events to a topic of Kafka, by librdkafka's own threads. Events that no broker has taken after a minute
    are dropped, and logged.

    ``properties``: as those of a Kafka table, without ``properties.``. ``open_producer`` gets those of librdkafka.

    Raises ExecutionError SS477 where the client is not installed or refuses the properties.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        properties: Mapping[str, str],
        open_producer: Callable[[Mapping[str, str]], Any] | None = None,
    ) -> None:
        self._topic = topic
        try:
            self._producer = (open_producer or _producer)(_client_properties(servers, properties))
        except Exception as error:
            message = f'events of lineage cannot be written to the topic "{topic}": {str(error).rstrip(".")}'
            hint = "Install sqlstream[kafka], and look at 'lineage.openlineage.kafka.properties'."
            raise ExecutionError(CANNOT_WRITE, message, hint=hint) from error

    def send(self, event: Event) -> None:
        """Have an event written; one is dropped where the client's queue is full."""
        job = event["job"]
        key = f"run:{job['namespace']}/{job['name']}".encode()  # events of a job in order, as OpenLineage's client
        try:
            self._producer.produce(
                self._topic, json.dumps(event, ensure_ascii=False).encode(), key, on_delivery=_report_drop
            )
        except BufferError:
            _LOG.warning("an event of lineage is dropped: the queue of the Kafka client is full")
        except Exception as error:  # it is too large for a message
            _LOG.warning("an event of lineage is not taken by Kafka, and dropped: %s", error)
        self._producer.poll(0)

    def close(self) -> None:
        """Wait until what is there is written, a few seconds at most."""
        self._producer.flush(_TIMEOUT_S)


def _client_properties(servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    given = {f"{PREFIX}{name}": value for name, value in properties.items()}
    own = {f"{PREFIX}bootstrap.servers": servers, f"{PREFIX}delivery.timeout.ms": _KAFKA_MS}
    return {**client_properties({**own, **given}), "log_level": "0"}


def _producer(properties: Mapping[str, str]) -> Any:
    from confluent_kafka import Producer  # optional, and takes time to load

    return Producer(dict(properties))


def _report_drop(error: object, message: object) -> None:
    if error is not None:
        _LOG.warning("an event of lineage is not taken by Kafka, and dropped: %s", error)
