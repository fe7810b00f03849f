"""Which observers a job has, by the settings of its session.

What serves, sends and writes is loaded where a setting asks for it: a job without such settings pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

from sqlstream.settings import Settings
from sqlstream.telemetry.choices import (
    HOST,
    LINEAGE_FILE,
    LINEAGE_INTERVAL,
    LINEAGE_KEY,
    LINEAGE_NAMESPACE,
    LINEAGE_PROPERTIES,
    LINEAGE_SERVERS,
    LINEAGE_TOPIC,
    LINEAGE_URL,
    LOG_FORMAT,
    LOG_LEVEL,
    OTLP_INTERVAL,
    OTLP_METRICS,
    OTLP_TRACES,
    PORT,
    TOKEN,
)
from sqlstream.telemetry.exports import EXPORTS, Export

if TYPE_CHECKING:
    from sqlstream.connectors.environment import Environment
    from sqlstream.jobs.lifecycle.observers import JobObserver
    from sqlstream.telemetry.figures import JobFigures
    from sqlstream.telemetry.server import MetricsServer
    from sqlstream.telemetry.transports import Transport


class MetricsExport:
    """An export of metrics, and the jobs that it shows. ``open_export`` is given their figures."""

    def __init__(self, open_export: Callable[[Callable[[], list[JobFigures]]], Export]) -> None:
        from sqlstream.telemetry.figures import MeasuredJobs  # see the module

        self.jobs = MeasuredJobs()
        self.export = open_export(self.jobs.figures)

    def close(self) -> None:
        """Close the export."""
        self.export.close()


def observers_of(user: object, settings: Settings, sql: str, environment: Environment) -> Iterator[JobObserver]:
    """The observers of a job that is about to start. ``user``: the session, as ``EXPORTS`` knows it. ``sql``: the
    statement of the job, without secrets. ``environment``: that of its connectors, which count
    bytes.

    Raises the errors of exports that cannot be opened: ExecutionError SS475, SS476 and SS477.
    """
    for metrics in (_prometheus(user, settings), _otlp(user, settings)):
        if metrics is not None:
            yield metrics.jobs.new(environment.written, environment.fetched)
    yield from _traces(user, settings)
    yield from _logs(user, settings)
    yield from _lineage(user, settings, sql)


# --- Metrics ---------------------------------------------------------------------------------------------------


def prometheus_server(user: object, settings: Settings) -> MetricsServer | None:
    """The metrics server that the settings ask for, which is started for its first user; None without one.

    Raises ExecutionError SS475 where its port cannot be listened on.
    """
    export = _prometheus(user, settings)
    if export is None:
        return None
    from sqlstream.telemetry.server import MetricsServer  # see the module

    assert isinstance(export.export, MetricsServer)
    return export.export


def _prometheus(user: object, settings: Settings) -> MetricsExport | None:
    port = settings[PORT]
    if port is None:
        return None
    from sqlstream.telemetry.server import Listening, MetricsServer  # see the module

    listening = Listening(port, settings[HOST], settings[TOKEN])
    return _shared(user, listening, lambda jobs: MetricsServer(listening, jobs))


_SHORTEST_MS = 100


def _otlp(user: object, settings: Settings) -> MetricsExport | None:
    url = settings[OTLP_METRICS]
    if url is None:
        return None
    from sqlstream.telemetry.otlp import otlp_sender, require_opentelemetry  # see the module

    require_opentelemetry(OTLP_METRICS)
    interval_s = max(settings[OTLP_INTERVAL], _SHORTEST_MS) / 1000
    return _shared(user, (OTLP_METRICS, url, interval_s), lambda jobs: otlp_sender(url, jobs, interval_s))


def _shared(
    user: object, key: Hashable, open_export: Callable[[Callable[[], list[JobFigures]]], Export]
) -> MetricsExport:
    return EXPORTS.use(user, key, lambda: MetricsExport(open_export))


# --- Traces, logs, lineage -------------------------------------------------------------------------------------


def _traces(user: object, settings: Settings) -> Iterator[JobObserver]:
    url = settings[OTLP_TRACES]
    if url is None:
        return
    from sqlstream.telemetry.otlp import require_opentelemetry  # see the module
    from sqlstream.telemetry.traces import otlp_traces

    require_opentelemetry(OTLP_TRACES)
    yield EXPORTS.use(user, (OTLP_TRACES, url), lambda: otlp_traces(url)).new()


def _logs(user: object, settings: Settings) -> Iterator[JobObserver]:
    style, level = settings[LOG_FORMAT], settings[LOG_LEVEL]
    if style is None:
        return
    from sqlstream.telemetry.logs import LogExport, LoggedJob  # see the module

    EXPORTS.use(user, (LOG_FORMAT, style, level), lambda: LogExport(style, level))
    yield LoggedJob()


def _lineage(user: object, settings: Settings, sql: str) -> Iterator[JobObserver]:
    transports = list(_transports(user, settings))
    if not transports:
        return
    from sqlstream.telemetry.lineage import LineageObserver  # see the module

    namespace, interval_s = settings[LINEAGE_NAMESPACE], settings[LINEAGE_INTERVAL] / 1000
    for transport in transports:
        yield LineageObserver(transport.send, namespace, sql, interval_s)


def _transports(user: object, settings: Settings) -> Iterator[Transport]:
    path, url, servers = settings[LINEAGE_FILE], settings[LINEAGE_URL], settings[LINEAGE_SERVERS]
    if path is None and url is None and servers is None:
        return
    from sqlstream.telemetry.transports import FileTransport, HttpTransport, KafkaTransport  # see the module

    if path is not None:
        yield EXPORTS.use(user, (LINEAGE_FILE, path), lambda: FileTransport(path))
    if url is not None:
        key = settings[LINEAGE_KEY]
        yield EXPORTS.use(user, (LINEAGE_URL, url, key), lambda: HttpTransport(url, key))
    if servers is not None:
        topic, properties = settings[LINEAGE_TOPIC], settings[LINEAGE_PROPERTIES] or {}
        known = (LINEAGE_SERVERS, servers, topic, *sorted(properties.items()))
        yield EXPORTS.use(user, known, lambda: KafkaTransport(servers, topic, properties))
