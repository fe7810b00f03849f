"""The queries of Nexmark on Flink and on sqlstream in turns, over the same files: ``make nexmark-flink``, or
``python -m examples.nexmark.flink [--events 5000000] [--format parquet] [--query q3 q5] [--rocksdb]``.

Flink runs in one JVM with parallelism 2, state on the heap or, with ``--rocksdb``, in RocksDB with a checkpoint each
ten seconds, into ``blackhole``. Each table is two files; how much of them a micro-batch of ours reads is what sqlstream
chooses, or ``--rows-per-trigger``. Flink's jars come from PyPI (``apache-flink-libraries``) and Maven Central the first
time (``--home``, 350 MB); Hadoop's classes, which its Parquet needs, are PySpark's. The seconds of both are those of
the statement without the start of the process: planning, compiling and starting the job count. ``ratio`` is Flink's
seconds by ours. It needs a JDK, for ``javac``.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from examples.nexmark import files
from examples.nexmark.__main__ import is_right, measured, parser_of
from examples.nexmark.generator import Generator
from examples.nexmark.queries import QUERIES, tables
from examples.nexmark.run import Measured

VERSION = "2.3.0"
REFUSED = {
    "q6": "Flink refuses OVER above changes",
    "q13": "files are no lookup source in Flink",
}
_MAVEN = "https://repo.maven.apache.org/maven2/org/apache/flink"
_OPENED = ("java.util", "java.lang", "java.net", "java.nio", "java.time", "sun.nio.ch")
_MAIN = Path(__file__).with_name("NexmarkOnFlink.java")
MOST_SECONDS = 900
_FILES = 2
"""Of each table: Flink reads a file of Parquet in one task."""
_ROCKSDB = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "10 s",
}


@dataclass(frozen=True)
class OnFlink:
    seconds: float
    processor: float
    """Of the JVM, with its start."""
    peak_mb: int
    done: bool = True
    """Else it was ended after the seconds, and nothing else is known."""


def installed(home: Path) -> str:
    """The class path, after fetching what is missing."""
    lib, jars, classes = home / "pyflink" / "lib", home / "jars", home / "classes"
    if not lib.exists():
        # Its wheel is jars only: no Python of Flink's own, and none of its dependencies, is needed for SQL.
        package = f"apache-flink-libraries=={VERSION}"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(home), package]
        subprocess.run(pip, check=True)
    fetch_jar(home, "flink-sql-parquet", VERSION)
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    path = os.pathsep.join([str(classes), f"{lib}/*", f"{jars}/*", *map(str, hadoop)])
    subprocess.run(["javac", "-proc:none", "-cp", path, "-d", str(classes), str(_MAIN)], check=True)
    return path


def fetch_jar(home: Path, name: str, version: str) -> None:
    """Fetches a jar of Flink from Maven Central, where it is not among the installed ones."""
    jar = home / "jars" / f"{name}-{version}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        partial = jar.with_suffix(".partial")
        urllib.request.urlretrieve(f"{_MAVEN}/{name}/{version}/{jar.name}", partial)
        partial.rename(jar)


def script(query: str, folder: Path, file_format: str) -> str:
    options = f"'connector' = 'filesystem', 'path' = '{folder.as_uri()}/{{table}}', 'format' = '{file_format}'"
    side = f"'connector' = 'filesystem', 'path' = '{folder.as_uri()}/side_input', 'format' = 'csv'"
    return f"{tables(options, side)}CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {QUERIES[query]}"


def on_flink(
    query: str, folder: Path, file_format: str, class_path: str, rocksdb: bool, most_seconds: float
) -> OnFlink | str:
    """The figures, or the error."""
    settings = {"parallelism.default": "2", **(_ROCKSDB if rocksdb else {})}
    with tempfile.TemporaryDirectory(prefix="nexmark-on-flink-") as made:
        if rocksdb:
            settings["execution.checkpointing.dir"] = Path(made, "checkpoints").as_uri()
        print(f"{query} on Flink …", file=sys.stderr, flush=True)
        return run_script(script(query, folder, file_format), class_path, settings, most_seconds)


def run_script(
    text: str, class_path: str, settings: Mapping[str, str], most_seconds: float = MOST_SECONDS
) -> OnFlink | str:
    """Runs a script of Flink SQL in a JVM of its own, ended after ``most_seconds``: its figures, or the error."""
    with tempfile.TemporaryDirectory(prefix="sql-on-flink-") as made:
        path = Path(made) / "script.sql"
        path.write_text(text)
        command = [
            "java", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED), "-cp", class_path,
            "NexmarkOnFlink", str(path), *(f"{key}={value}" for key, value in settings.items()),
        ]  # fmt: skip
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=most_seconds, cwd=made)
        except subprocess.TimeoutExpired:
            return OnFlink(most_seconds, 0, 0, done=False)
    return parsed(ran.returncode, ran.stdout, ran.stderr)


def parsed(code: int, stdout: str, stderr: str) -> OnFlink | str:
    if code == 0:
        return OnFlink(**json.loads(stdout.splitlines()[-1]))
    causes = [line for line in stderr.splitlines() if line.startswith(("Caused by:", "Exception in thread"))]
    return (causes or stderr.splitlines() or ["it ended without a word"])[-1]


def ratio(ours: Measured | str, theirs: OnFlink | str) -> float | None:
    """How many times as fast as Flink we are, at least."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return None
    return theirs.seconds / ours.seconds


def cells(query: str, ours: Measured | str, theirs: OnFlink | str) -> list[str]:
    quotient = ratio(ours, theirs)
    flink, least = ["–", "–", "–"], ""
    if isinstance(theirs, OnFlink) and theirs.done:
        flink = [f"{theirs.seconds:.1f}", f"{theirs.processor:.1f}", f"{theirs.peak_mb:,}"]
    elif isinstance(theirs, OnFlink):
        flink, least = [f"> {theirs.seconds:.0f}", "–", "–"], "> "
    sqlstream = ["–", "–", "–"]
    if isinstance(ours, Measured):
        used = ours.processors
        sqlstream = [f"{ours.seconds:.1f}", f"{used.java + used.python:.1f}", f"{ours.batches.peak_mb:,}"]
    notes = [text for text in (ours, theirs) if isinstance(text, str)]
    if isinstance(ours, Measured) and not is_right(ours):
        notes.append(f"wrong: {ours.difference}")
    return [query, *flink, *sqlstream, "–" if quotient is None else f"{least}{quotient:.2f}", "; ".join(notes)]


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = parser_of("examples.nexmark.flink", __doc__)
    parser.add_argument("--rocksdb", action="store_true", help="Flink's state in RocksDB, a checkpoint each 10 s")
    parser.add_argument("--rows-per-trigger", type=int, help="events of a micro-batch of ours, one file each")
    parser.add_argument("--unchecked", action="store_true", help="do not run ours once more to compare its result")
    parser.add_argument(
        "--most-seconds", type=float, default=MOST_SECONDS, help="end a statement of Flink after so many (%(default)s)"
    )
    parser.add_argument("--home", type=Path, default=Path(".flink"), help="where Flink is installed (default: .flink)")
    chosen = parser.parse_args()
    class_path = installed(chosen.home.resolve())
    table = Table(
        "query", "Flink, s", "processor", "peak, MB", "sqlstream, s", "processor", "peak, MB", "ratio", "notes",
        title=f"{chosen.events:,} events, {chosen.format}", title_justify="left",
    )  # fmt: skip
    ratios = []
    with tempfile.TemporaryDirectory(prefix="sqlstream-nexmark-") as made:
        folder = Path(made) / "events"
        count = _FILES
        options = ["--unchecked"] if chosen.unchecked else []
        if chosen.rows_per_trigger:
            count = files.files_for(chosen.events, chosen.rows_per_trigger)
            options.append("--file-per-trigger")
        files.write(folder, chosen.events, count, chosen.format, Generator())
        for query in chosen.query:
            ours = measured(query, folder, chosen.format, *options)
            theirs = REFUSED.get(query) or on_flink(
                query, folder, chosen.format, class_path, chosen.rocksdb, chosen.most_seconds
            )
            row = cells(query, ours, theirs)
            table.add_row(*row)
            print("  ".join(row), file=sys.stderr, flush=True)
            quotient = ratio(ours, theirs)
            ratios += [] if quotient is None else [quotient]
    console = Console(width=180)
    console.print(table)
    if ratios:
        console.print(f"geometric mean of {len(ratios)} queries: {geometric_mean(ratios):.2f} times as fast as Flink")
    console.print(f"{os.cpu_count()} cores; load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
