"""Runs the golden files and the fast tests on the versions of PySpark, Python and Java that are claimed.

``python -m tests.versions`` prints a table; ``--only 4.1.4`` takes the rows with that text, ``--small`` three golden
files, as the gate does for the oldest version. Environments are made once, in a cache folder. Where a Java is missing,
an older one stands in for it, and the table says so. Nothing but the standard library is imported.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlstream.spark.java import OLDEST_JAVA, java_version

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sqlstream-versions"
JAVAS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")
SMALL = tuple(f"tests/golden/{name}.golden" for name in ("tumble", "interval_join", "lookup"))
"""A window, a join with two inputs, and Python in an operator without state."""


@dataclass(frozen=True)
class Version:
    """One row of the table."""

    pyspark: str
    python: str
    java: int

    def __str__(self) -> str:
        return f"PySpark {self.pyspark}, Python {self.python}, Java {self.java}"


MATRIX = (
    Version("4.1.4", "3.11", 17),
    Version("4.2.1", "3.12", 21),
    Version("4.3.0", "3.11", 17),
    Version("4.3.0", "3.13", 21),
)
"""The newest release of each line of PySpark that pyproject.toml allows, the oldest first, with each claimed version of
Python and Java at least once, and both ends of them with the newest PySpark."""


class Unavailable(Exception):
    """What a row needs and this machine does not have."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows and print the table; 1 where one of them failed or could not be run."""
    options = _parser().parse_args(arguments)
    rows = [version for version in MATRIX if options.only in str(version)]
    if not rows:
        raise SystemExit(f"no version has the text {options.only!r}")
    results = []
    for version in rows:
        started = time.monotonic()
        try:
            number, java = _java(version.java)
            version = replace(version, java=number)
            print(f"{version} …", flush=True)
            environment = _environment(version, options.environments, small=options.small)
            made = time.monotonic() - started
            outcomes = [_tested(environment, java, tests) for tests in _runs(options)]
        except Unavailable as error:
            results.append((version, f"not run: {error}", "", "", False))
            continue
        seconds = f"{made:.0f} s", f"{time.monotonic() - started - made:.0f} s"
        results.append((version, "; ".join(text for text, _ in outcomes), *seconds, all(good for _, good in outcomes)))
    print(f"\n{'version':<38}  {'made in':>7}  {'run in':>7}  result")
    for version, text, made_in, run_in, _ in results:
        print(f"{version!s:<38}  {made_in:>7}  {run_in:>7}  {text}")
    return 0 if all(good for *_, good in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this text, such as 4.1.4 or 'Java 21'")
    parser.add_argument("--small", action="store_true", help="three golden files, in a smaller environment")
    parser.add_argument("--environments", type=Path, default=CACHE, metavar="FOLDER", help="where they are made")
    parser.add_argument("--processes", default="2", metavar="N", help="how many test processes")
    return parser


def _runs(options: argparse.Namespace) -> Iterator[list[str]]:
    """The arguments of each run of pytest."""
    if options.small:
        yield [*SMALL, "-m", "not long", "--restarts", "tenth"]
        return
    parallel = ["-n", options.processes, "--dist", "loadfile"]
    yield ["tests/golden", "-m", "not long", "--restarts", "fifth", *parallel]
    yield ["tests", "-m", "not spark and not long", *parallel]


def _tested(environment: Path, java: Path, arguments: Sequence[str]) -> tuple[str, bool]:
    """Pytest's last line, and whether all is well; what failed is printed."""
    process = subprocess.run(
        [environment / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT, env=variables(java), capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = (process.stdout + process.stderr).strip().splitlines() or ["pytest printed nothing"]
    if process.returncode:
        print("\n".join(lines[-60:]), flush=True)
    return re.sub(r"=| in [\d.]+s.*", "", lines[-1]).strip(), process.returncode == 0


def variables(java: Path | None = None) -> Mapping[str, str]:
    """The variables of this process, without those that name another Python or its modules, and with the Java."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return kept if java is None else {**kept, "JAVA_HOME": str(java)}


# --- environments ----------------------------------------------------------------------------------------------


def _environment(version: Version, folder: Path, *, small: bool) -> Path:
    wanted = [
        f"pyspark=={version.pyspark}",
        *(("pytest", "pytest-timeout", "hypothesis", "-e", ".") if small else ("-e", ".[dev]")),
    ]
    return environment_with(f"pyspark-{version.pyspark}", version.python, wanted, folder)


def environment_with(name: str, python: str, wanted: Sequence[str], folder: Path = CACHE) -> Path:
    """A virtual environment with what pip is to install, made where there is none yet. Unavailable where that fails."""
    pinned = "|".join(re.escape(text.split("==")[0]) for text in wanted if "==" in text)
    constraints = re.sub(rf"(?m)^({pinned})==.*\n", "", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    own = [str(ROOT), (ROOT / "pyproject.toml").read_text(encoding="utf-8")] if "-e" in wanted else []
    digest = hashlib.sha256("\n".join([*own, constraints, *wanted]).encode()).hexdigest()[:8]
    made = folder / f"{name}-python-{python}-{digest}"
    ready = made / ".ready"
    if not ready.exists():
        shutil.rmtree(made, ignore_errors=True)
        _called(_python(python), "-m", "venv", made)
        (made / "constraints.txt").write_text(constraints, encoding="utf-8")
        pip = (made / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _called(*pip, "-c", made / "constraints.txt", *wanted)
        ready.touch()
    return made


def _called(*command: str | Path) -> None:
    """Run a command at the root; what it prints is shown where it fails."""
    process = subprocess.run(command, cwd=ROOT, env=variables(), capture_output=True, text=True, check=False)
    if process.returncode:
        raise Unavailable(f"{process.stderr.strip()[-600:]}")


def _python(version: str) -> str:
    """A Python of the version: on PATH, or one of pyenv's."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found  # pyenv puts programs there that only say that another version is chosen
    of_pyenv = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
    if not of_pyenv:
        raise Unavailable(f"Python {version} is not there")
    return str(of_pyenv[-1])


def _java(wanted: int) -> tuple[int, Path]:
    """The version and folder of a Java: the wanted one, or the newest of those that are older."""
    on_path = shutil.which("java")
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += [Path(on_path).resolve().parents[1]] if on_path else []
    homes += [home for pattern in JAVAS for home in sorted(Path("/").glob(pattern.lstrip("/")))]
    there = [(java_version(str(home / "bin/java")), home) for home in homes]
    possible = [(number, home) for number, home in there if number is not None and OLDEST_JAVA <= number <= wanted]
    if not possible:
        raise Unavailable(f"Java {wanted} is not there, nor an older one from {OLDEST_JAVA} on")
    return max(possible, key=lambda pair: pair[0])


if __name__ == "__main__":
    sys.exit(main())
