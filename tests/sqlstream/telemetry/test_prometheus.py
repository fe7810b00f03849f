"""A real Prometheus reads the rules and scrapes the server: that of Debian's package, where it is installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing, contextmanager

import pytest

from sqlstream.telemetry.alerts import ALERTS, alerts_text
from sqlstream.telemetry.dashboard import queries_of
from sqlstream.telemetry.instruments import ALL
from sqlstream.telemetry.server import Listening, MetricsServer
from tests.sqlstream.telemetry.figures import figures

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed: apt-get install prometheus",
)

SECONDS = 30


@contextmanager
def prometheus(folder, target):
    """The address of a Prometheus that scrapes a server twice a second and knows our rules."""
    (folder / "rules.yml").write_text(alerts_text())
    jobs = [{"job_name": "sqlstream", "scrape_interval": "500ms", "static_configs": [{"targets": [target]}]}]
    rules = {"global": {"evaluation_interval": "500ms"}, "scrape_configs": jobs, "rule_files": ["rules.yml"]}
    (folder / "prometheus.yml").write_text(json.dumps(rules))
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["prometheus", *options], cwd=folder, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def asked(url, path, **query):
    """The data of an answer; None while Prometheus does not answer yet."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:
            return json.load(answer)["data"]
    except urllib.error.URLError:
        return None


def eventually(ask, good):
    end = time.monotonic() + SECONDS
    while not good(answer := ask()):
        assert time.monotonic() < end, answer
        time.sleep(0.2)
    return answer


def test_rules_are_checked_by_its_tool(tmp_path):
    (tmp_path / "rules.yml").write_text(alerts_text())
    done = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert f"SUCCESS: {len(ALERTS)} rules found" in done.stdout, done.stderr


def test_it_scrapes_metrics_and_alerts(tmp_path):
    jobs = [figures(), figures("broken", "FAILED")]
    with (
        closing(MetricsServer(Listening(0), lambda: jobs)) as server,
        prometheus(tmp_path, server.url.removeprefix("http://")) as url,
    ):
        found = eventually(
            lambda: asked(url, "query", query='sqlstream_source_rows_total{sqlstream_job_name="totals"}'),
            lambda data: bool(data and data["result"]),
        )
        (series,) = found["result"]
        assert (series["value"][1], series["metric"]["sqlstream_table"], series["metric"]["job"]) == (
            "30", "bids", "sqlstream",
        )  # fmt: skip
        alerts = eventually(lambda: asked(url, "alerts"), lambda data: bool(data and data["alerts"]))["alerts"]
        failed = {(a["labels"]["alertname"], a["labels"].get("sqlstream_job_name")) for a in alerts}
        assert ("SqlstreamJobFailed", "broken") in failed
        for query in (query for instrument in ALL for query in queries_of(instrument)):
            expression = query.expression.replace("$__rate_interval", "1m").replace("$job", ".*")
            assert asked(url, "query", query=expression) is not None, expression
