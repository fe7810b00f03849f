"""Metrics and traces as a collector receives them."""

from __future__ import annotations

import gzip
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sqlstream.errors import ExecutionError
from sqlstream.telemetry.instruments import ALL
from sqlstream.telemetry.otlp import otlp_sender
from sqlstream.telemetry.traces import otlp_traces
from tests.planner.plans import plan
from tests.sqlstream.telemetry.figures import figures, report

PENDING = {"sqlstream.source.pending_rows", "sqlstream.source.partition.pending_rows"}
"""Of sources that report what they have."""

REQUESTS: dict[str, Any] = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


@contextmanager
def collector():
    """A collector's address, and what it has received."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            received.append(REQUESTS[self.path].FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(point):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in point.attributes}


def test_metrics_arrive_with_names_units_and_attributes():
    with collector() as (url, received):
        otlp_sender(f"{url}/", lambda: [figures()], 3600).close()
    ((of_resource,),) = [r.resource_metrics for r in received]
    assert {"service.name": "sqlstream"}.items() <= attributes(of_resource.resource).items()
    (scope,) = of_resource.scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    assert set(metrics) == {i.name for i in ALL} - PENDING
    (rows,) = metrics["sqlstream.source.rows"].sum.data_points
    assert (rows.as_int, metrics["sqlstream.source.rows"].unit) == (30, "{row}")
    assert attributes(rows) == {
        "sqlstream.job.name": "totals", "sqlstream.job.id": "id-1", "sqlstream.table": "bids"
    }  # fmt: skip
    assert metrics["sqlstream.source.rows"].sum.is_monotonic
    (epochs,) = metrics["sqlstream.epoch.duration"].histogram.data_points
    assert (epochs.count, epochs.sum, len(epochs.bucket_counts)) == (2, 7.5, len(epochs.explicit_bounds) + 1)
    (lookups,) = metrics["sqlstream.lookup.duration"].histogram.data_points
    assert (lookups.count, lookups.HasField("sum")) == (4, False)


def test_metrics_are_sent_again_and_again():
    with collector() as (url, received):
        sender = otlp_sender(url, lambda: [figures()], 0.05)
        while len(received) < 3:
            time.sleep(0.01)
        sender.close()


def test_the_environment_names_the_service(monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    with collector() as (url, received):
        otlp_sender(url, list, 3600).close()
    assert attributes(received[0].resource_metrics[0].resource)["service.name"] == "orders"


BIDS = "CREATE TABLE bids (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');"
COUNTS = "SELECT k, COUNT(*) FROM bids GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)"
JOB: Any = SimpleNamespace(name="totals", id="id-1", plan=plan(COUNTS, BIDS))


def test_an_epoch_is_a_span_and_its_parts_are_children():
    with collector() as (url, received):
        traces = otlp_traces(url)
        traced = traces.new()
        traced.on_start(JOB)
        traced.on_epochs(JOB, [report(7)])
        traces.close()
    spans = [s for r in received for of in r.resource_spans for scope in of.scope_spans for s in scope.spans]
    (epoch,) = [span for span in spans if span.name == "epoch"]
    children = sorted((s for s in spans if s.parent_span_id == epoch.span_id), key=lambda s: s.start_time_unix_nano)
    assert [s.name for s in children] == ["ask sources", "write offsets", "get rows", "plan", "execute", "commit"]
    assert {s.trace_id for s in spans} == {epoch.trace_id}
    milliseconds = [(s.end_time_unix_nano - s.start_time_unix_nano) // 10**6 for s in (epoch, *children)]
    assert milliseconds == [500, 20, 15, 5, 30, 400, 10]
    assert all(a.end_time_unix_nano == b.start_time_unix_nano for a, b in pairwise(children))
    assert {"sqlstream.job.name": "totals", "sqlstream.epoch": 7, "sqlstream.job.late_rows": 1}.items() <= attributes(
        epoch
    ).items()
    assert attributes(children[4])["sqlstream.operator.time.0: WindowAggregate.commit"] == pytest.approx(0.04)


def test_a_failure_is_a_span_with_its_code():
    with collector() as (url, received):
        traces = otlp_traces(url)
        traces.new().on_failure(JOB, ExecutionError("SS400", "it broke"))
        traces.close()
    ((span,),) = [scope.spans for r in received for of in r.resource_spans for scope in of.scope_spans]
    assert (span.name, span.status.message, attributes(span)["error.type"]) == ("epoch failed", "it broke", "SS400")
