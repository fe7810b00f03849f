"""kill -9 while rows wait for the answers to deferred lookups: what comes out is that of a run without it, row by row.

``make kill-deferred`` runs it. A job from files to files asks a coroutine that answers some keys only when this script
says so, after the kill. It runs undisturbed, then with its driver killed, then with its Python workers killed; the last
two are started again. Results are windows that list their rows in the order in which they came, so a row lost, doubled
or out of place shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.processes import kill, kill_all, python_workers

_ROWS, _FILES = 120, 4
_BATCHES = 2  # before the kill
_TIMEOUT_SECONDS = 300.0

_FUNCTION = """
import asyncio, os
from pathlib import Path

async def name_of(key: int) -> str:
    while key % 7 == 3 and not Path(os.environ["ANSWERS"]).exists():
        await asyncio.sleep(0.05)
    return f"n{key}"
"""

_SCRIPT = """
SET 'pipeline.max-parallelism' = '2';
SET 'sqlstream.clock-interval' = '200 ms';
CREATE FUNCTION name_of AS 'slow_names:name_of' LANGUAGE PYTHON;
CREATE TABLE orders (id BIGINT, customer BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'json', 'source.max-files-per-trigger' = '1');
CREATE TABLE named (start TIMESTAMP(3), n BIGINT, rows_of STRING)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'json');
CREATE VIEW names AS SELECT o.id, o.ts, f.n FROM orders AS o, LATERAL TABLE(name_of(o.customer)) AS f(n)
  LOOKUP ASYNC (TIMEOUT INTERVAL '0.2' SECOND, ON TIMEOUT DEFER);
INSERT INTO named SELECT window_start, COUNT(*), LISTAGG(CAST(id AS STRING) || '=' || n, ' ')
  FROM TUMBLE(TABLE names, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end
"""


@dataclass(frozen=True)
class Run:
    """A job in a folder of its own, in a process of its own."""

    folder: Path

    def prepare(self) -> None:
        (self.folder / "in").mkdir(parents=True)
        (self.folder / "slow_names.py").write_text(_FUNCTION)
        (self.folder / "job.sql").write_text(_SCRIPT.format(folder=self.folder))
        for number in range(_FILES):
            rows = (_row(i) for i in range(number, _ROWS, 1) if i * _FILES // _ROWS == number)
            path = self.folder / "in" / f"{number}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (1_700_000_000 + number,) * 2)

    def start(self) -> subprocess.Popen[bytes]:
        known = [str(self.folder), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, known)),
            "ANSWERS": str(self.answers),
        }
        command = [sys.executable, "-m", "sqlstream", "run", str(self.folder / "job.sql"), "--master", "local[2]"]
        command += ["--set", f"execution.checkpointing.dir={self.folder / 'checkpoints'}"]
        command += ["--set", "execution.end-of-input=final"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    @property
    def answers(self) -> Path:
        """Slow keys are answered when this file is there."""
        return self.folder / "answers"

    @property
    def batches(self) -> int:
        return len(list((self.folder / "checkpoints").glob("*/spark/commits/[0-9]*")))

    def rows(self) -> list[str]:
        collected = [path for path in (self.folder / "out").rglob("*.json") if not path.name.startswith((".", "_"))]
        return sorted(line for path in collected for line in path.read_text().splitlines())


def _row(number: int) -> dict[str, object]:
    return {"id": number, "customer": number % 20, "ts": f"2024-01-01 00:{number // 60:02d}:{number % 60:02d}.000"}


def undisturbed(run: Run) -> str:
    _finish(run)
    return "undisturbed"


def driver_killed(run: Run) -> str:
    process = run.start()
    _wait(lambda: run.batches >= _BATCHES, process)
    kill_all(process.pid)
    process.wait()
    batches = run.batches
    _finish(run)
    return f"driver killed after {batches} batches"


def worker_killed(run: Run) -> str:
    process = run.start()
    _wait(lambda: run.batches >= _BATCHES, process)
    batches, killed = run.batches, 0
    while process.poll() is None:  # Spark replaces workers that die idle; the job fails when one dies at work
        workers = python_workers(process.pid)
        for worker in workers:
            kill(worker.pid)
        killed += len(workers)
        time.sleep(0.5)
    _finish(run)
    return f"{killed} workers killed after {batches} batches"


def _finish(run: Run) -> None:
    """The rest of the job, which must end; slow keys are answered when it has done some batches more."""
    process, before = run.start(), run.batches
    _wait(lambda: run.batches > max(before, _BATCHES), process)
    run.answers.touch()
    if process.wait(_TIMEOUT_SECONDS):
        raise SystemExit(f"the job failed:\n{(run.folder / 'log').read_text()[-3000:]}")


def _wait(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _TIMEOUT_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit("the job ended, or did nothing, before it could be killed")
        time.sleep(0.05)


def main() -> None:
    expected: list[str] | None = None
    with tempfile.TemporaryDirectory(prefix="sqlstream-kill-") as folder:
        for number, story in enumerate((undisturbed, driver_killed, worker_killed)):
            run = Run(Path(folder) / str(number))
            run.prepare()
            begun = time.monotonic()
            said, rows = story(run), run.rows()
            expected = expected if expected is not None else rows
            same = "rows as without it" if rows == expected else "OTHER ROWS"
            print(f"{said}: {len(rows)} windows, {same}, {time.monotonic() - begun:.0f} s", flush=True)
            if rows != expected:
                raise SystemExit("\n".join(["expected", *expected, "found", *rows]))
    assert expected is not None
    counted = sum(json.loads(line)["n"] for line in expected)
    print(f"{counted} of {_ROWS} rows in each run")
    if counted != _ROWS:
        raise SystemExit("rows are missing")


if __name__ == "__main__":
    main()
