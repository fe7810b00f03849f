"""How long the shell makes somebody wait: for the prompt, for the first row, and for that of a second query.

``python -m examples.throughput.shell_start`` drives a shell in a terminal, with a class archive
(``python -m sqlstream.class_archive``), which it makes, and without, and prints a table. The first query is typed ahead
as soon as the prompt is there. The second, an aggregate that keeps state, comes so long after the first was stopped as
somebody takes at least to read and to type it, in which the shell warms up; and in other shells at once, as from a
script. Each line is the best of several shells, because the machine has other work; ``--times 1`` takes one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pexpect

PROMPT_S, FIRST_S, SECOND_S = 0.5, 8.0, 1.5
"""Targets."""
TYPING_S = 5.0
"""Between the end of the first query and the Enter of the second, which has 61 characters."""

_TABLE = (
    "CREATE TABLE ticks (n BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen', "
    "'rows-per-second' = '20', 'fields.n.min' = '1', 'fields.n.max' = '1000000');"
)
_FIRST = "SELECT n, 'first' AS query FROM ticks;"
_SECOND = "SELECT COUNT(*) AS n, 'second' AS query FROM ticks;"
_EMPTY = """\
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master('local[*]').config('spark.ui.enabled', 'false').getOrCreate()
spark.range(1).collect()
"""
_LIMIT_S = 60


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=3, help="of each measurement")
    times = options.parse_args().times
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"the best of {times}; load of the machine before: {load}\n")
    second = "first row of the second query"
    print(f"| | prompt | first row since the start | {second}, {TYPING_S:g} s later | {second}, at once |")
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as cache:  # the archive of the user stays as it is
        variables = {"XDG_CACHE_HOME": cache}
        command = [sys.executable, "-m", "sqlstream.class_archive"]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **variables})
        print(_line("with the class archive", variables, times), flush=True)
    with tempfile.TemporaryDirectory() as nothing:
        print(_line("without the class archive", {"XDG_CACHE_HOME": nothing}, times))
    empty = _best(lambda: (_empty_spark(),), times)[0]
    print(f"\nAn empty Spark, from the start of Python to the row of `spark.range(1)`: {empty:.1f} s")


def _line(name: str, environment: Mapping[str, str], times: int) -> str:
    prompt, first, second = _best(lambda: _session(environment, TYPING_S), times)
    *_, at_once = _best(lambda: _session(environment, 0), times)
    cells = (_judged(prompt, PROMPT_S), _judged(first, FIRST_S), _judged(second, SECOND_S), f"{at_once:.2f} s")
    return f"| {name} | {' | '.join(cells)} |"


def _best(measure: Callable[[], tuple[float, ...]], times: int) -> tuple[float, ...]:
    return tuple(map(min, zip(*(measure() for _ in range(times)), strict=True)))


def _judged(seconds: float, target: float) -> str:
    return f"{seconds:.2f} s (≤ {target:g} s: {'holds' if seconds <= target else 'missed'})"


def _session(environment: Mapping[str, str], pause: float) -> tuple[float, float, float]:
    """Seconds from the start to the prompt, from the start to the first row of a query that is typed at once, and from
    the second query, so long after the end of the first, to its first row."""
    started = time.monotonic()
    with _shell(environment) as shell:
        shell.expect("sqlstream>", timeout=_LIMIT_S)
        prompt = time.monotonic() - started
        shell.send(f"{_TABLE}\r")
        shell.send(f"{_FIRST}\r")
        _row(shell, "first")
        first = time.monotonic() - started
        _stop(shell)
        time.sleep(pause)
        asked = time.monotonic()
        shell.send(f"{_SECOND}\r")
        _row(shell, "second")
        second = time.monotonic() - asked
        _stop(shell)
    return prompt, first, second


def _stop(shell: pexpect.spawn) -> None:
    shell.sendintr()
    shell.expect("stopped", timeout=_LIMIT_S)
    shell.expect("sqlstream>", timeout=_LIMIT_S)


def _row(shell: pexpect.spawn, word: str) -> None:
    """Wait for a row with the word, which stands between lines of a table, not in quotes as in the query."""
    shell.expect(re.compile(rf"\d[^'\r\n]{{0,40}}\s{word}\b(?!')"), timeout=_LIMIT_S)


@contextmanager
def _shell(environment: Mapping[str, str]) -> Iterator[pexpect.spawn]:
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home, "TERM": "xterm", **environment}
        shell = pexpect.spawn(
            sys.executable, ["-m", "sqlstream", "shell"], env=variables, encoding="utf-8", dimensions=(40, 200)
        )
        shell.logfile_read = sys.stderr if os.environ.get("SHOW_TERMINAL") else None
        try:
            yield shell
            shell.sendeof()
            shell.expect(pexpect.EOF, timeout=_LIMIT_S)
        finally:
            shell.close(force=True)


def _empty_spark() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", _EMPTY], check=True, capture_output=True)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
