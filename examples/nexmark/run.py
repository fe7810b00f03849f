"""Runs one query of Nexmark over files and checks what it ends with, in a process of its own: ``python -m
examples.nexmark.run QUERY FOLDER FORMAT [--file-per-trigger] [--unchecked]`` prints the figures as JSON."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pyarrow as pa

import sqlstream
from examples.nexmark.expected import MATCHING, compared_text, differing, in_duckdb
from examples.nexmark.queries import FUNCTIONS, QUERIES, tables
from examples.throughput.measure import MOST_BATCHES, Batches, Watch
from sqlstream.jobs import Job


@dataclass(frozen=True)
class Processors:
    """Seconds, of the processes that still run at the end: those that have ended are left out."""

    java: float
    compilers: float
    """Of Java's compiler threads, which ``java`` includes; 0 where there is no /proc."""
    python: float


@dataclass(frozen=True)
class Measured:
    batches: Batches
    seconds: float
    """From the statement to the end of the job."""
    first_result: float
    """Seconds from the statement to the end of the first micro-batch with rows."""
    processors: Processors
    rows: int
    """That the final result should have."""
    difference: str
    """Empty where the final result is the expected one, or was not looked at."""


def measured(query: str, folder: Path, file_format: str, file_per_trigger: bool, unchecked: bool) -> Measured:
    with sqlstream.connect() as session:
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        for statement in definitions(folder, file_format, file_per_trigger):
            session.sql(statement)
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        watch = Watch(session.spark, None)
        start = time.time()
        with watch.watching():
            job = session.sql(f"CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {QUERIES[query]}")
            assert isinstance(job, Job)
            job.wait()
        seconds, used, batches = time.time() - start, processors(), watch.batches()
        first = watch.first_result(start)
        result = (0, "") if unchecked else checked(session, query, folder, file_format)
        return Measured(batches, seconds, first, used, *result)


def definitions(folder: Path, file_format: str, file_per_trigger: bool) -> list[str]:
    options = f"'connector' = 'filesystem', 'path' = '{folder}/{{table}}', 'format' = '{file_format}'"
    if file_per_trigger:
        options += ", 'source.max-files-per-trigger' = '1'"
    lookup = f"'connector' = 'filesystem', 'path' = '{folder}/side_input', 'format' = 'csv'"
    return [text for text in f"{tables(options, lookup)}{FUNCTIONS}".split(";\n") if text.strip()]


def checked(session: sqlstream.Session, query: str, folder: Path, file_format: str) -> tuple[int, str]:
    """The number of rows expected, and how those of the stream, which runs once more, differ from them."""
    text = compared_text(query)
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    actual = _table(session, text)
    if query in MATCHING:
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        expected = _table(session, text)
    else:
        expected = in_duckdb(text, folder, file_format)
    return len(expected), differing(expected, actual)


def _table(session: sqlstream.Session, text: str) -> pa.Table:
    return session.sql(text).table().to_arrow()  # type: ignore[union-attr]


def processors() -> Processors:
    java = compilers = python = 0.0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            times, is_java = process.cpu_times(), "java" in process.name()
            of_compilers = _of_compilers(process) if is_java else 0.0
        except psutil.Error:
            continue
        seconds = times.user + times.system
        if is_java:
            java += seconds
            compilers += of_compilers
        else:
            python += seconds
    return Processors(java, compilers, python)


def _of_compilers(process: psutil.Process) -> float:
    names = {}
    for task in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        with suppress(OSError):  # the thread has ended since its name was listed
            names[int(task.parent.name)] = task.read_text()
    ours = [thread for thread in process.threads() if "CompilerThre" in names.get(thread.id, "")]
    return sum(float(thread.user_time) + float(thread.system_time) for thread in ours)


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.nexmark.run", description=__doc__)
    parser.add_argument("query", choices=QUERIES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("format")
    parser.add_argument("--file-per-trigger", action="store_true", help="a micro-batch reads one file of each table")
    parser.add_argument("--unchecked", action="store_true", help="do not run once more to compare the result")
    chosen = parser.parse_args()
    figures = measured(chosen.query, chosen.folder, chosen.format, chosen.file_per_trigger, chosen.unchecked)
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
