"""Whether this checkout can be released: ``make release-check``, or ``python -m tests.release [--notes VERSION]``.

Builds both distributions, looks at what is in them and how large they are, installs the planner's into empty
environments, with an empty cache of pip and with a full one, and asks it there for what needs no Spark. Prints a line
for each check; exit status 1 where one does not hold. ``--notes`` prints the section of a version in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

from sqlstream.version import __version__
from tests.distributions import PLANNER, ROOT, build

MOST_BYTES = 3_000_000
MOST_SECONDS = 15.0
_PLANS = """
import sys
from sqlstream.planner import Planner
planner = Planner().with_tables({"bids": {"auction": "BIGINT", "price": "DOUBLE"}})
(query,) = planner.analyze("SELECT auction, MAX(price) AS top FROM bids GROUP BY auction")
assert query.columns[1].sources == ("bids.price",), query
assert not {"pyspark", "pandas", "pyarrow"} & set(sys.modules)
"""
_SCRIPT = """
CREATE TABLE bids (auction BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = '/data/bids', 'format' = 'csv');
SELECT window_start, COUNT(*) FROM TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' HOUR)
GROUP BY window_start, window_end
"""
_COMMANDS = {"check": "no mistakes", "explain": "WindowAggregate(", "format": "CREATE TABLE bids"}

Check = tuple[str, str, bool]
"""What is looked at, what it is, and whether that is right."""


def checks(folder: Path) -> Iterator[Check]:
    """The checks, one after the other. ``folder``: for what they make."""
    wheels = [file for file in build(folder / "sources", folder / "dist") if file.suffix == ".whl"]
    for wheel in wheels:
        yield from _checks_of_wheel(wheel)
    notes = notes_of(__version__) or notes_of("Unreleased")
    yield "notes", f"{len(notes.splitlines())} lines in CHANGELOG.md", bool(notes)
    for cache in ("empty", "full"):
        environment = folder / f"with-{cache}-cache"
        seconds = _installed(environment, wheels[0], folder / "cache")
        told = f"{seconds:.1f} s, cache of pip {cache} (at most {MOST_SECONDS:g})"
        yield f"install {PLANNER}", told, seconds <= MOST_SECONDS
    yield from _checks_of_planning(environment, folder)


def _checks_of_wheel(wheel: Path) -> Iterator[Check]:
    size = wheel.stat().st_size
    yield "wheel", f"{wheel.name}, {size:,} bytes (at most {MOST_BYTES:,})", size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(metadata).decode())
    yield "  version", about["Version"], about["Version"] == __version__
    licence = any(name.endswith("/licenses/LICENSE") for name in names)
    yield "  license", f"{about['License-Expression']}{'' if licence else ', without its file'}", licence
    folders = {name.partition("/")[0] for name in names} - {metadata.partition("/")[0]}
    right = folders == ({"sqlstream", "dbt"} if about["Name"] == PLANNER else set())
    yield "  folders", ", ".join(sorted(folders)) or "none", right


def _checks_of_planning(environment: Path, folder: Path) -> Iterator[Check]:
    """That an environment plans which has the planner alone, and says what it lacks for more."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin/python"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)

    planned = run("-c", _PLANS)
    yield "planner as a library", planned.stderr.strip().rpartition("\n")[2] or "a query", not planned.returncode
    for command, expected in _COMMANDS.items():
        done = run("-m", "sqlstream", command, "-e", _SCRIPT)
        yield f"sqlstream {command}", done.stderr.strip() or "done", not done.returncode and expected in done.stdout
    refused = run("-m", "sqlstream", "run", "-e", _SCRIPT).stderr
    yield "sqlstream run", refused.partition("\n")[0], refused.startswith("SS482")


def notes_of(version: str) -> str:
    """The section of a version in CHANGELOG.md; empty where there is none."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[?{re.escape(version)}\]?[^\n]*\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE | re.I)
    return "" if found is None else found[1].strip()


def _installed(environment: Path, wheel: Path, cache: Path) -> float:
    """The seconds that pip takes to install the wheel and what it depends on into a new environment."""
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    begin = time.monotonic()
    subprocess.run([*pip, "--cache-dir", str(cache), "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    return time.monotonic() - begin


def main() -> int:
    """Print the checks, or the notes. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Whether this checkout can be released.")
    parser.add_argument("--notes", metavar="VERSION", help="print the notes of a version, and end")
    chosen = parser.parse_args()
    if chosen.notes:
        print(notes_of(chosen.notes))
        return 0 if notes_of(chosen.notes) else 1
    good = True
    with tempfile.TemporaryDirectory(prefix="sqlstream-release-") as folder:
        for what, told, holds in checks(Path(folder)):
            good &= holds
            print(f"{what:26} {told}{'' if holds else '   NOT RIGHT'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
