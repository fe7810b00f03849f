"""Metrics by OTLP: the registry's samples as OpenTelemetry's data, sent again and again by its exporter.

The data is made here and not by meters of the SDK, because these cannot take what jobs have counted already: sums and
the buckets of histograms.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ExecutionError
from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import (
    JOB,
    JOB_INSTRUMENTS,
    PROCESS_INSTRUMENTS,
    Distribution,
    Instrument,
    Kind,
    Sample,
)
from sqlstream.telemetry.processes import ProcessFigures, process_figures
from sqlstream.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricExporter, MetricsData
    from opentelemetry.sdk.resources import Resource

NO_PACKAGE = "SS476"
SCOPE = "sqlstream"
JOB_ID = "sqlstream.job.id"
_NANOS = 1_000_000_000


def require_opentelemetry(setting: str) -> None:
    """Raises ExecutionError SS476 where the packages of OpenTelemetry are not installed."""
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401  # only to see that it is there
    except ImportError as error:
        message = f'setting "{setting}" needs the Python package "opentelemetry-exporter-otlp-proto-http"'
        raise ExecutionError(NO_PACKAGE, message, hint="pip install 'sqlstream[otel]'.") from error


def resource() -> Resource:
    """How OpenTelemetry names this process: as the service sqlstream, unless its variables say something else."""
    from opentelemetry.sdk.resources import Resource  # loaded where the settings ask for it

    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {} if named else {"service.name": SCOPE, "service.version": __version__}
    return Resource.create({**own, "process.pid": os.getpid()})


def metrics_data(jobs: Iterable[JobFigures], processes: ProcessFigures, now: float, of: Resource) -> MetricsData:
    """The metrics of jobs and of this process at a time in seconds since 1970."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # see ``resource``
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    figures = list(jobs)
    of_jobs = (_metric(i, [(_of_job(job), job.started, s) for job in figures for s in i.read(job, now)], now)
               for i in JOB_INSTRUMENTS)  # fmt: skip
    of_process = (_metric(i, [({}, _STARTED, s) for s in i.read(processes, now)], now) for i in PROCESS_INSTRUMENTS)
    metrics = [metric for metric in chain(of_jobs, of_process) if metric is not None]
    scope = ScopeMetrics(InstrumentationScope(SCOPE, __version__), metrics, "")
    return MetricsData([ResourceMetrics(of, [scope], "")])


_STARTED = time.time()


def _of_job(job: JobFigures) -> dict[str, str]:
    (name,) = JOB
    return {name: job.name, JOB_ID: job.id}


def _metric(
    instrument: Instrument[Any], samples: list[tuple[Mapping[str, str], float, Sample]], now: float
) -> Metric | None:
    """The metric of an instrument; None without samples. These are with the attributes of the job and its start."""
    from opentelemetry.sdk.metrics import export  # see ``resource``

    if not samples:
        return None
    points: list[Any] = [
        _point(sample, {**own, **dict(zip(instrument.attributes, sample.attributes, strict=True))}, started, now)
        for own, started, sample in samples
    ]
    data: Any
    match instrument.kind:
        case Kind.COUNTER:
            data = export.Sum(points, export.AggregationTemporality.CUMULATIVE, is_monotonic=True)
        case Kind.HISTOGRAM:
            data = export.Histogram(points, export.AggregationTemporality.CUMULATIVE)
        case Kind.GAUGE:
            data = export.Gauge(points)
    return export.Metric(instrument.name, instrument.doc, instrument.unit, data)


def _point(sample: Sample, attributes: Mapping[str, str], started: float, now: float) -> Any:
    from opentelemetry.sdk.metrics import export  # see ``resource``

    begin, end, value = int(started * _NANOS), int(now * _NANOS), sample.value
    if not isinstance(value, Distribution):
        return export.NumberDataPoint(attributes, begin, end, value)
    total: Any = value.total  # may be unknown to us and to the protocol, but not to the SDK's type
    unknown: Any = None
    counts, bounds = list(value.counts), list(value.bounds)
    return export.HistogramDataPoint(attributes, begin, end, sum(counts), total, counts, bounds, unknown, unknown)


class MetricsSender:
    """Sends the metrics of jobs to a collector until it is closed, and once more then. ``export`` of the exporter
    returns whether it could; metrics that could not be sent are sent with the next ones, because all are totals.
    """

    def __init__(self, exporter: MetricExporter, jobs: Callable[[], Iterable[JobFigures]], interval_s: float) -> None:
        self._exporter, self._jobs, self._interval_s = exporter, jobs, interval_s
        self._resource = resource()
        self._closed = Event()
        self._thread = Thread(target=self._run, name="sqlstream-otlp", daemon=True)
        self._thread.start()

    def send(self) -> None:
        """Send the metrics as they are now."""
        self._exporter.export(metrics_data(self._jobs(), process_figures(), time.time(), self._resource))

    def close(self) -> None:
        """Send the last metrics and stop."""
        self._closed.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            self.send()
        self.send()


def otlp_sender(url: str, jobs: Callable[[], Iterable[JobFigures]], interval_s: float) -> MetricsSender:
    """Sends metrics to the collector at ``url``, such as ``http://collector:4318``, by OTLP over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # see ``resource``

    return MetricsSender(OTLPMetricExporter(endpoint=f"{url.rstrip('/')}/v1/metrics"), jobs, interval_s)
