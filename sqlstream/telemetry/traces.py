"""Traces of epochs: one span for each, with a child for each of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.jobs.lifecycle.observers import ObservedJob, Report
from sqlstream.jobs.reports.counts import rows_read
from sqlstream.jobs.reports.progress import late_rows
from sqlstream.telemetry.epochs import begin_of, task_seconds
from sqlstream.telemetry.figures import PlanNames, names_of
from sqlstream.telemetry.instruments import JOB
from sqlstream.telemetry.otlp import JOB_ID, SCOPE, resource
from sqlstream.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Tracer

    from sqlstream.errors import SqlStreamError

EPOCH = "sqlstream.epoch"
_NANOS, _PER_MS = 1_000_000_000, 1_000_000

STEPS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""What Spark does in an epoch, in its order; it reports how long each step took, and not when it began."""

_SPANS = {
    "latestOffset": "ask sources",
    "walCommit": "write offsets",
    "getBatch": "get rows",
    "queryPlanning": "plan",
    "addBatch": "execute",
    "commitOffsets": "commit",
}


def steps_of(report: Report) -> Iterator[tuple[str, int, int]]:
    """The steps of an epoch that took time: name, begin and end in nanoseconds since 1970, one after the other."""
    at = int(begin_of(report) * _NANOS)
    durations: Mapping[str, Any] = report.get("durationMs", {})
    for step in STEPS:
        end = at + int(durations.get(step, 0)) * _PER_MS
        if end > at:
            yield step, at, end
        at = end


class TracedJob:
    """Makes the spans of one job."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._names = PlanNames()

    def on_start(self, job: ObservedJob) -> None:
        """Take the names of the plan."""
        self._names = names_of(job.plan)

    def on_epochs(self, job: ObservedJob, reports: Sequence[Report]) -> None:
        """Make the span of each epoch."""
        for report in reports:
            self._epoch(job, report)

    def on_failure(self, job: ObservedJob, error: SqlStreamError) -> None:
        """Make a span of the failure, without a duration: nobody knows when the epoch began that has failed."""
        from opentelemetry.trace import StatusCode  # loaded where the settings ask for traces

        span = self._tracer.start_span("epoch failed", attributes={**_of_job(job), "error.type": error.code})
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, error.diagnostic.message)
        span.end()

    def on_end(self, job: ObservedJob) -> None:
        """Spans end with their epochs."""

    def _epoch(self, job: ObservedJob, report: Report) -> None:
        from opentelemetry.trace import set_span_in_context  # see ``on_failure``

        begin = int(begin_of(report) * _NANOS)
        counts = {"sqlstream.source.rows": rows_read(report), "sqlstream.job.late_rows": late_rows(report)}
        attributes = {**_of_job(job), EPOCH: int(report["batchId"]), **counts}
        span = self._tracer.start_span("epoch", start_time=begin, attributes=attributes)
        inside = set_span_in_context(span)
        for step, at, end in steps_of(report):
            more = self._operators(report) if step == "addBatch" else {}
            self._tracer.start_span(_SPANS[step], inside, start_time=at, attributes=more).end(end)
        span.end(begin + int(report["batchDuration"]) * _PER_MS)

    def _operators(self, report: Report) -> dict[str, float]:
        """Seconds of tasks by operator and phase, as attributes: tasks overlap, so they are no spans."""
        return {
            f"sqlstream.operator.time.{self._names.operator(number)}.{phase}": seconds
            for (number, phase), seconds in task_seconds(report).items()
        }


def _of_job(job: ObservedJob) -> dict[str, str]:
    return {JOB[0]: job.name, JOB_ID: job.id}


class Traces:
    """Sends spans until it is closed. ``processor`` of OpenTelemetry takes the spans that have ended."""

    def __init__(self, processor: SpanProcessor) -> None:
        from opentelemetry.sdk.trace import TracerProvider  # see ``TracedJob.on_failure``

        self._provider: TracerProvider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)

    def new(self) -> TracedJob:
        """An observer for a job that is about to start."""
        return TracedJob(self._provider.get_tracer(SCOPE, __version__))

    def close(self) -> None:
        """Send what is left, and stop."""
        self._provider.shutdown()


def otlp_traces(url: str) -> Traces:
    """Sends spans to the collector at ``url``, such as ``http://collector:4318``, by OTLP over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # see ``TracedJob.on_failure``
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return Traces(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces")))
