"""The metrics server: what it answers to whom, and how long it lives."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.jobs.lifecycle.observers import JobObservers
from sqlstream.local_server import is_loopback
from sqlstream.results import Rows
from sqlstream.telemetry.exports import Exports
from sqlstream.telemetry.server import Listening, MetricsServer
from tests.sqlstream.telemetry.figures import figures


def ask(server, path, **headers):
    request = urllib.request.Request(server.url + path, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def served(*jobs, **listening):
    return closing(MetricsServer(Listening(0, **listening), lambda: jobs))


def test_metrics_health_and_readiness_are_served():
    with served(figures()) as server:
        status, text = ask(server, "/metrics")
        assert (status, 'sqlstream_source_rows_total{sqlstream_job_name="totals",' in text) == (200, True)
        assert ask(server, "/ready")[0] == ask(server, "/health?verbose")[0] == 200
        assert ask(server, "/") == (404, "there are /metrics, /health, /ready\n")


@pytest.mark.parametrize(
    ("states", "healthy", "ready"),
    [
        ((), 200, 503),
        (("RUNNING", "FINISHED"), 200, 200),
        (("RUNNING", "RESTARTING"), 200, 503),
        (("RUNNING", "FAILED"), 503, 503),
        (("STOPPED",), 200, 200),
    ],
)
def test_states_of_jobs_decide_health_and_readiness(states, healthy, ready):
    jobs = [figures(f"job {number}", state) for number, state in enumerate(states)]
    with served(*jobs) as server:
        assert (ask(server, "/health")[0], ask(server, "/ready")[0]) == (healthy, ready)
        told = json.loads(ask(server, "/ready")[1])["jobs"]
        assert told == [{"name": job.name, "state": job.state, "epoch": 1} for job in jobs]


def test_metrics_are_shown_to_who_has_the_token():
    with served(figures(), token="s3cret") as server:
        assert ask(server, "/metrics") == (401, "the metrics are read with a token\n")
        assert ask(server, "/metrics", Authorization="Bearer other")[0] == 401
        assert ask(server, "/metrics", Authorization="Bearer s3cret")[0] == 200
        assert ask(server, "/health")[0] == 200


def test_scripts_of_other_pages_read_nothing_of_a_port_of_this_machine():
    with served(figures()) as server:
        assert ask(server, "/metrics", Host="evil.example")[0] == 403
        assert ask(server, "/metrics", Host="localhost:1")[0] == 200
    with served(figures(), host="0.0.0.0") as server:
        assert ask(server, "/metrics", Host="job.namespace.svc")[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_addresses_of_this_machine_are_known(host):
    assert is_loopback(host)
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.com")


def test_a_port_that_is_in_use_is_named():
    with closing(socket.create_server(("127.0.0.1", 0))) as other, pytest.raises(ExecutionError) as error:
        MetricsServer(Listening(other.getsockname()[1]), list)
    assert str(error.value).startswith("SS475: metrics cannot be served on port ")
    assert "of \"127.0.0.1\": Address already in use\nHINT: SET 'metrics.prometheus.port'" in str(error.value)


# --- settings and sessions ------------------------------------------------------------------------------------


def test_sessions_share_a_server_until_the_last_of_them_ends():
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    one, other = (sqlstream.connect() for _ in range(2))
    for session in (one, other):
        session.workspace.settings.set("metrics.prometheus.port", str(port))
    assert one.open_metrics() == other.open_metrics() == f"http://127.0.0.1:{port}"
    one.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
        assert answer.status == 200
    other.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health")


def test_no_setting_opens_no_port():
    with sqlstream.connect() as session:
        assert session.open_metrics() is None


def test_the_token_is_not_shown(monkeypatch):
    monkeypatch.setenv("METRICS_TOKEN", "s3cret")
    with sqlstream.connect() as session:
        session.sql("SET 'metrics.prometheus.token' = '${METRICS_TOKEN}'")
        assert _settings(session)["metrics.prometheus.token"] == "${METRICS_TOKEN}"
        session.sql("SET 'metrics.prometheus.token' = 's3cret'; SET 'metrics.prometheus.host' = '0.0.0.0'")
        shown = _settings(session)
        assert (shown["metrics.prometheus.token"], shown["metrics.prometheus.host"]) == ("******", "0.0.0.0")
        with pytest.raises(ConnectorError, match="SS504"):
            session.sql("SET 'metrics.prometheus.port' = '65536'")


def _settings(session):
    rows = session.sql("SET")
    assert isinstance(rows, Rows)
    return dict(rows.fetchall())


class Closing:
    def __init__(self, closed):
        self.closed = closed

    def close(self):
        self.closed.append(self)


def test_an_export_is_made_once_and_closed_with_its_last_user():
    closed: list[Closing] = []
    exports, users = Exports(), [object(), object()]
    first = exports.use(users[0], "key", lambda: Closing(closed))
    assert exports.use(users[1], "key", lambda: Closing(closed)) is first
    assert exports.use(users[1], "other", lambda: Closing(closed)) is not first
    exports.release(users[0])
    assert closed == []
    exports.release(users[1])
    assert len(closed) == 2


# --- observers ------------------------------------------------------------------------------------------------


class Failing:
    def __getattr__(self, name):
        raise RuntimeError(name)


class Seeing:
    def __init__(self):
        self.seen = []

    def on_start(self, job):
        self.seen.append("start")

    def on_epochs(self, job, reports):
        self.seen += [report["batchId"] for report in reports]

    def on_failure(self, job, error):
        self.seen.append("failure")

    def on_end(self, job):
        self.seen.append("end")


NOBODY: Any = None


def test_an_observer_that_fails_stops_neither_the_job_nor_the_others(caplog):
    seeing = Seeing()
    observers = JobObservers([Failing(), seeing])
    observers.start(NOBODY)
    observers.epochs(NOBODY, [{"batchId": 1}, {"batchId": 0}])
    observers.epochs(NOBODY, [{"batchId": 0}, {"batchId": 1}, {"batchId": 2}])
    observers.failure(NOBODY, NOBODY)
    observers.end(NOBODY)
    assert seeing.seen == ["start", 0, 1, 2, "failure", "end"]
    assert [record.getMessage() for record in caplog.records] == [
        "Failing fails, and the job goes on: RuntimeError('on_start')"
    ]


def test_a_job_without_settings_loads_nothing_that_serves_or_sends():
    code = "import sys, sqlstream.telemetry.observing; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert loaded.isdisjoint({"prometheus_client", "opentelemetry", "http.server", "sqlstream.telemetry.server"})
