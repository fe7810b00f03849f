"""Whether this checkout can be released: ``make release-check``, or ``python -m tests.release [--notes VERSION]``.

Builds the wheel, looks at what is in it and how large it is, installs it into an empty environment with the two
packages that planning needs and without Spark, and plans a query there. Prints a line for each check; exit status 1
where one does not hold. ``--notes`` prints the section of a version in CHANGELOG.md alone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

from sqlstream.version import __version__

ROOT = Path(__file__).parents[1]
MOST_BYTES = 3_000_000
MOST_SECONDS = 15.0
PLANNING = ("sqlglot", "lark")
"""What the planner needs; everything else that the package asks for is loaded when something runs."""

_SOURCES = ("sqlstream", "grammar", "planner", "udfs", "pyproject.toml", "setup.py", "README.md", "LICENSE")
_PLANS = """
import sys
from sqlstream.planner import Planner
planner = Planner().with_tables({"bids": {"auction": "BIGINT", "price": "DOUBLE"}})
(query,) = planner.analyze("SELECT auction, MAX(price) AS top FROM bids GROUP BY auction")
assert query.columns[1].sources == ("bids.price",), query
assert not {"pyspark", "pandas", "pyarrow"} & set(sys.modules)
"""

Check = tuple[str, str, bool]
"""What is looked at, what it is, and whether that is right."""


def checks(folder: Path) -> Iterator[Check]:
    """The checks, one after the other. ``folder``: for what they make."""
    wheel = _wheel(folder)
    size = wheel.stat().st_size
    yield "wheel", f"{size:,} bytes (at most {MOST_BYTES:,})", size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(metadata).decode())
    yield "version", about["Version"], about["Version"] == __version__
    licence = any(name.endswith("/licenses/LICENSE") for name in names)
    yield "license", f"{about['License-Expression']}{'' if licence else ', without its file'}", licence
    strangers = sorted({name.partition("/")[0] for name in names} - {"sqlstream", "dbt", metadata.partition("/")[0]})
    yield "folders", ", ".join(strangers) or "sqlstream, dbt", not strangers
    notes = notes_of(__version__) or notes_of("Unreleased")
    yield "notes", f"{len(notes.splitlines())} lines in CHANGELOG.md", bool(notes)
    seconds, done = _installed(folder, wheel)
    yield "core without Spark", f"{seconds:.1f} s to install (at most {MOST_SECONDS:g})", seconds <= MOST_SECONDS
    yield "planning there", done or "a query", not done


def notes_of(version: str) -> str:
    """The section of a version in CHANGELOG.md; empty where there is none."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[?{re.escape(version)}\]?[^\n]*\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE | re.I)
    return "" if found is None else found[1].strip()


def _wheel(folder: Path) -> Path:
    source = folder / "source"  # building leaves folders behind
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _installed(folder: Path, wheel: Path) -> tuple[float, str]:
    """The seconds of an installation without Spark, and what is wrong with a plan there; '' where nothing is."""
    environment = folder / "core"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    begin = time.monotonic()
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    lacking = [*pip, "-c", str(ROOT / "constraints.txt"), *PLANNING]
    subprocess.run(lacking, check=True, stderr=subprocess.DEVNULL)  # where pip lists what else the package asks for
    seconds = time.monotonic() - begin
    planned = subprocess.run([python, "-c", _PLANS], capture_output=True, text=True, check=False, cwd=folder)
    return seconds, planned.stderr.strip().rpartition("\n")[2] if planned.returncode else ""


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
            print(f"{what:20} {told}{'' if holds else '   NOT RIGHT'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
