"""Sessions on Spark in tests of connectors: tables with options as arguments, rows of queries, and jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session


def named(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a table from names of arguments, in which ``__`` stands for a dot and ``_`` for a hyphen."""
    return {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}


def declare(session: Session, name: str, columns: str, given: Mapping[str, str], **options: str) -> None:
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in {**given, **named(options)}.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query that ends, sorted."""
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(map(tuple, result), key=repr)


def started(session: Session, insert: str) -> Job:
    job = session.sql(insert)
    assert isinstance(job, Job)
    return job


def run(session: Session, insert: str) -> None:
    """Runs a job that ends by itself."""
    assert started(session, insert).wait(120)


def until(holds: Any, seconds: float = 90) -> None:
    """Waits until a function that is called without arguments returns True."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)
