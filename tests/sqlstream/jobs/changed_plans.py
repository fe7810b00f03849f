"""Twelve changes of a job's query, and what becomes of its state: ``python -m tests.sqlstream.jobs.changed_plans``.

Each case changes the definitions or the query of one job, which sums numbers per key and window and looks names up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.jobs.checkpoints.checkpoint import require_compatible
from sqlstream.jobs.checkpoints.fingerprint import Declared, fingerprint, to_text
from sqlstream.planner.nodes import Insert
from sqlstream.plans import plan_of
from sqlstream.session import Session
from tests.planner.plans import physical

TEXTS = {
    "columns": "k STRING, v INT, w INT, ts TIMESTAMP(3)",
    "delay": "1",
    "bids": "bids",
    "in": "in",
    "pace": "1 s",
    "out": "out",
    "format": "json",
    "query": "SELECT k, SUM(v) AS total, window_start FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
    "GROUP BY k, window_start, window_end",
}
"""The job as it was, in parts that changes replace."""

DEFINITIONS = """
CREATE TABLE {bids} ({columns}, WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/{in}', 'format' = 'json', 'source.monitor-interval' = '{pace}');
CREATE TABLE totals (k STRING, total BIGINT, start TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '{folder}/{out}', 'format' = '{format}');
CREATE TABLE names (k STRING, name STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/names.json', 'format' = 'json');
"""


@dataclass(frozen=True)
class Change:
    """``texts`` replace parts of the job; ``refused``: how the detail of the refusal begins, '' where there is none."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    refused: str = ""


def _query(text: str) -> dict[str, str]:
    return {"query": text}


_SUMS = TEXTS["query"]

CHANGES = (
    Change("a filter below the windows", _query(_SUMS.replace("GROUP BY", "WHERE v > 0 GROUP BY"))),
    Change("a filter above them", _query(f"{_SUMS} HAVING SUM(v) > 0")),
    Change(
        "other columns and names",
        _query(
            "SELECT UPPER(key), s * 1, start_of FROM (SELECT key, SUM(n) AS s, window_start AS start_of FROM TUMBLE("
            "TABLE (SELECT k AS key, v AS n, ts AS at FROM bids), DESCRIPTOR(at), INTERVAL '10' SECOND) "
            "GROUP BY key, window_start, window_end)"
        ),
    ),
    Change("another sink", {"out": "elsewhere", "format": "csv"}),
    Change("another delay of the watermark", {"delay": "3"}),
    Change("a stateless lookup below", _query(
        "SELECT k, SUM(v) AS total, window_start FROM TUMBLE(TABLE (SELECT b.k, b.v, b.ts, n.name FROM "
        "(SELECT *, PROCTIME() AS pt FROM bids) AS b LEFT JOIN names FOR SYSTEM_TIME AS OF b.pt AS n ON b.k = n.k), "
        "DESCRIPTOR(ts), INTERVAL '10' SECOND) WHERE name IS NULL OR name <> 'nobody' "
        "GROUP BY k, window_start, window_end"
    )),
    Change("other keys", _query(
        _SUMS.replace("GROUP BY k", "GROUP BY k, w")
    ), 'It holds the window aggregate with the keys "k STRING", where the query has "k STRING, w INT".'),
    Change("another window", _query(
        _SUMS.replace("'10' SECOND", "'20' SECOND")
    ), 'It holds the window aggregate with the window "TUMBLE size 10 s", where the query has "TUMBLE size 20 s".'),
    Change("other aggregates", _query(
        _SUMS.replace("SUM(v)", "SUM(w)")
    ), 'It holds the window aggregate with the aggregates "SUM(v)", where the query has "SUM(w)".'),
    Change("an operator less", _query(
        "SELECT k, CAST(v AS BIGINT), ts FROM bids"
    ), "It holds a window aggregate (window TUMBLE size 10 s), which the query no longer has."),
    Change("another table", {"bids": "offers", "query": _SUMS.replace("TABLE bids", "TABLE offers")},
           'It holds the source "bids", where the query has the source "offers".'),
    Change("another type of a column", {"columns": "k STRING, v DOUBLE, w INT, ts TIMESTAMP(3)"},
           'It holds the window aggregate with the types of aggregates "BIGINT of INT", where the query has '
           '"DOUBLE of DOUBLE".'),
)  # fmt: skip


def script(folder: str, change: Change | None = None) -> tuple[str, str]:
    """The definitions and the INSERT of the job, changed."""
    texts = {**TEXTS, **(change.texts if change else {}), "folder": folder}
    return DEFINITIONS.format(**texts), f"INSERT INTO totals {texts['query']}"


def plan(definitions: str, insert: str) -> Insert:
    """The optimized plan of an INSERT; no Spark."""
    session = Session()
    session.sql(definitions)
    (statement,) = parse_script(insert)
    assert isinstance(statement, nodes.Insert)
    actual = plan_of(statement, session.workspace)
    assert isinstance(actual, Insert)
    return actual


def refusal(before: Insert, now: Insert, declared: Declared | None = None) -> SqlStreamError | None:
    """Why the state of one plan is not that of another."""
    try:
        there, here = (fingerprint(physical(plan), declared) for plan in (before, now))
        require_compatible("jobs/totals", to_text(there), here)
    except SqlStreamError as error:
        return error
    return None


def table(folder: str = "/data") -> Iterator[tuple[str, str, str]]:
    """A row per change: what it is, accepted or refused, and the message."""
    before = plan(*script(folder))
    for change in CHANGES:
        error = refusal(before, plan(*script(folder, change)))
        told = "" if error is None else f"{error.code}: {error.diagnostic.message}. {error.diagnostic.detail}"
        yield change.name, "accepted" if error is None else "refused", told


if __name__ == "__main__":
    for name, verdict, message in table():
        print(f"{name:32} {verdict:10} {message}".rstrip())
