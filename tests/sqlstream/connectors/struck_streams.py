"""A stream of changes in a process that is killed, without Spark: ``python -m … FOLDER``, where its table is pickled.

The process does what Spark does with a source and a sink: it writes a position down, then the rows that are between it
and the one before, and then that the micro-batch is complete. What was not complete is repeated by the next process.
It needs a second to start where a job needs ten, so it is killed often.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from sqlstream.planner.catalog import Table
from tests.faults.processes import kill
from tests.sqlstream.connectors.change_streams import Row, Stream, merged


def run(folder: Path) -> None:
    """Reads until it is killed."""
    stream = Stream(pickle.loads((folder / "table").read_bytes()), folder)
    stream.offsets = [(folder / f"position-{n}").read_text() for n in range(_count(folder, "position"))]
    if not stream.offsets:
        stream.first()
        _write(folder / "position-0", stream.offsets[0])
        _write(folder / "complete-0", "")
    while True:
        number = len(stream.offsets) - 1
        if (folder / f"complete-{number}").exists():
            if not stream.plan():
                continue
            number += 1
            _write(folder / f"position-{number}", stream.offsets[-1])
        rows = json.dumps(stream.read())
        written = folder / f"rows-{number}"
        if written.exists() and written.read_text() != rows:
            _write(folder / "differs", str(number))
        _write(written, rows)
        _write(folder / f"complete-{number}", "")


def _write(path: Path, text: str) -> None:
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.replace(path)


def _count(folder: Path, what: str) -> int:
    return len(list(folder.glob(f"{what}-*")))


def strike(table: Table, folder: Path, strikes: int) -> None:
    """Starts processes that read a table, and kills them with kill -9, each up to a second after it has written a
    position down or has completed a micro-batch.
    """
    (folder / "table").write_bytes(pickle.dumps(table))
    random = Random(strikes)
    for number in range(strikes):
        process = start(folder)
        wait_for_one_more(process, folder, "position" if number % 2 else "complete")
        time.sleep(random.random() * random.choice((0.02, 0.2, 1)))
        kill(process.pid)
        process.wait()


def finish(folder: Path, holds: Callable[[], bool]) -> None:
    """Lets a process read until a condition holds."""
    process, deadline = start(folder), time.monotonic() + 120
    try:
        while not holds():
            assert process.poll() is None, (folder / "output").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(1)
    finally:
        kill(process.pid)
        process.wait()


def start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "output").open("ab") as output:
        command = [sys.executable, "-m", "tests.sqlstream.connectors.struck_streams", str(folder)]
        return subprocess.Popen(command, stdout=output, stderr=output)


def wait_for_one_more(process: subprocess.Popen[bytes], folder: Path, what: str) -> None:
    begun, deadline = _count(folder, what), time.monotonic() + 120
    while _count(folder, what) == begun:
        assert process.poll() is None, (folder / "output").read_text()[-2000:]
        assert time.monotonic() < deadline, f"no {what} after {begun}"
        time.sleep(0.005)


def rows_of(folder: Path) -> list[Row]:
    """The table that the rows of all micro-batches make; none has a key that is there already, or none that is not."""
    assert not (folder / "differs").exists(), "a micro-batch that was repeated had other rows"
    table: dict[Row, Row] = {}
    for number in range(1, _count(folder, "complete")):
        merged([tuple(row) for row in json.loads((folder / f"rows-{number}").read_text())], 1, table)
    return sorted(table.values())


if __name__ == "__main__":
    run(Path(sys.argv[1]))
