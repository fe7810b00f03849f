"""Jobs whose servers repeat their secrets: no file that a job writes, and nothing that it prints or logs, holds one. No
command line of a process does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark

VARIABLES = {"ITEMS_TOKEN": "tok-4711", "ITEMS_KEY": "k/e%26y-4711", "SHOP_USER": "user-4711", "PIN": "pin-4711"}
LITERALS = {
    "header": "head-4711",
    "query": "query-4711",
    "password": "hun@ter/4711",
    "spark": "key 4711=ü",
    "java": "trust-4711",
}

SCRIPT = """
import contextlib
import os
import sys
from pathlib import Path

import sqlstream
from sqlstream.errors import SqlStreamError

folder, items, shop = sys.argv[1:]
tables = f'''
CREATE TABLE events (k STRING, pt AS PROCTIME()) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/events', 'format' = 'json', 'source.monitor-interval' = '100 ms');
CREATE TABLE once (k STRING, pt AS PROCTIME()) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/events', 'format' = 'json');
CREATE TABLE items (k STRING, v STRING) WITH (
    'connector' = 'http', 'url' = '{items}/{{k}}?key=${{ITEMS_KEY}}&id=query-4711', 'auth.token' = '${{ITEMS_TOKEN}}',
    'headers.X-Plan' = 'head-4711');
CREATE TABLE failed (k STRING, pt TIMESTAMP, error STRING) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/failed', 'format' = 'json');
CREATE TABLE found (k STRING, v STRING) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/found', 'format' = 'json');
CREATE TABLE found_again (k STRING, v STRING) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/found_again', 'format' = 'json');
CREATE TABLE sent (k STRING) WITH (
    'connector' = 'http', 'url' = '{items}/bad?key=${{ITEMS_KEY}}', 'auth.token' = '${{ITEMS_TOKEN}}',
    'headers.X-Plan' = 'head-4711', 'sink.retries' = '0');
CREATE TABLE orders (k STRING) WITH (
    'connector' = 'postgres', 'url' = '{shop}', 'username' = '${{SHOP_USER}}', 'password' = 'hun@ter/4711',
    'table-name' = 'orders');
'''
join = "SELECT e.k, i.v FROM {} AS e JOIN items FOR SYSTEM_TIME AS OF e.pt AS i {} ON i.k = e.k"
query = f"INSERT INTO found_again {join.format('once', '')}"


def shows(text):
    try:
        found = session.sql(text)
        print(found.wait() if hasattr(found, "wait") else found.fetchall())
    except SqlStreamError as error:
        print(error)
        print(error.__cause__)


settings = {
    "execution.checkpointing.dir": f"{folder}/jobs",
    "spark.hadoop.fs.s3a.secret.key": "key 4711=ü",
    "spark.sql.catalog.shop.anything": "${PIN}",
    "spark.driver.extraJavaOptions": "-Dtold=1 -Djavax.net.ssl.trustStorePassword='trust-4711'",
}


def command_lines():
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            found.append((int(process.name), parent, (process / "cmdline").read_text().replace("\\0", " ")))
    family = {os.getpid()}
    for _ in found:
        family |= {number for number, parent, _ in found if parent in family}
    return [line for number, _, line in found if number in family]


with sqlstream.connect(**settings) as session:
    print("COMMANDS", command_lines(), session.spark.version, command_lines())
    java, hadoop = session.spark._jvm.System, session.spark.sparkContext._jsc.hadoopConfiguration()
    pin = session.spark.conf.get("spark.sql.catalog.shop.anything")
    print("TOLD", hadoop.get("fs.s3a.secret.key") == "key 4711=ü", pin == "pin-4711")
    print("JAVA", java.getProperty("javax.net.ssl.trustStorePassword") == "trust-4711", java.getProperty("told"))
    session.sql(tables)
    session.spark.sparkContext.setLogLevel("INFO")
    job = session.sql(f"INSERT INTO found {join.format('events', 'LOOKUP ASYNC (ON ERROR TO failed)')}")
    while not job.progress().rows_out:
        assert not job.wait(0.1), "the job goes on"
    shows("DESCRIBE JOB 'insert_into_found'")
    job.stop(savepoint=f"{folder}/savepoint")
    shows("INSERT INTO sent SELECT k FROM once")
    shows(query)
    shows("INSERT INTO orders SELECT k FROM once")
    for name in ("items", "sent", "orders"):
        shows(f"SHOW CREATE TABLE {name}")
    for text in ("SHOW JOBS", "DESCRIBE JOB 'insert_into_sent'", f"EXPLAIN SPARK {query}"):
        shows(text)
"""


OF_SPARK = ("org.apache.spark.deploy.SparkSubmit", "TOLD True True", "JAVA True 1")


class Telling(BaseHTTPRequestHandler):
    """Answers with all that it was sent."""

    def do_GET(self) -> None:
        bad = self.path.startswith("/bad")
        text = f"{self.path} {dict(self.headers)}" if bad else '{"k": "good", "v": "x"}'
        self.send_response(403 if bad else 200)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def items() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Telling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_no_file_and_no_log_of_a_job_holds_a_secret(tmp_path: Path, items: str, postgres_server: PostgresServer):
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text('{"k": "bad"}\n{"k": "good"}\n')
    environment = {
        **os.environ,
        **VARIABLES,
        "TMPDIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
    }
    shop = f"postgresql://127.0.0.1:{postgres_server.port}/postgres"
    done = subprocess.run(
        [sys.executable, "-", str(tmp_path), items, shop],
        input=SCRIPT, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    for words in ("SS579", "SS432", "SS562", "status 403", "password authentication failed", *OF_SPARK):
        assert words in done.stdout, done.stdout
    (failed,) = (path.read_text() for path in (tmp_path / "failed").rglob("*.json"))
    assert "status 403" in failed and "******" in failed
    outputs = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    outputs |= {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    assert {"jobs/insert_into_found/plan.json", "jobs/insert_into_sent/job.json", "savepoint/savepoint.json"} <= set(
        outputs
    )
    assert {
        (name, secret) for name, text in outputs.items() for secret in spelled() if secret.encode() in text
    } == set()


def names(folder: Path) -> Iterator[str]:
    yield from (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def spelled() -> set[str]:
    secrets = (*VARIABLES.values(), *LITERALS.values(), "ter/4711")
    return {form for secret in secrets for form in (secret, quote(secret, safe=""), quote(secret))}
