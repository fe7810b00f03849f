"""Builds what a release publishes: ``make dist``, or ``python -m tests.distributions [FOLDER]``.

There are two distributions of one version. ``sqlstream-planner`` holds all modules and depends on what planning needs,
so that tools which embed the planner need no Spark. ``sqlstream`` holds no file: it depends on ``sqlstream-planner`` of
the same version and on all else. They share no file, so neither can overwrite or remove one of the other's, and pip
keeps their versions equal. An extra could not do that: extras add dependencies, and take none away.

A checkout is one project (``pip install .``), which holds everything and depends on everything. It could not depend on
``sqlstream-planner``, which pip would look for in an index.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlstream.version import __version__

ROOT = Path(__file__).parents[1]
PLANNER, FULL = "sqlstream-planner", "sqlstream"
_SOURCES = ("sqlstream", "grammar", "planner", "udfs", "setup.py")
_TEXTS = ("README.md", "LICENSE")


def build(folder: Path, out: Path) -> list[Path]:
    """Builds the wheel and the source distribution of both into ``out``. Returns them, those of the planner first.

    ``folder``: for the sources that they are built of.
    """
    out.mkdir(parents=True, exist_ok=True)
    built = []
    for name, source in sources(folder).items():
        for kind in ("wheel", "sdist"):
            script = f"from setuptools import build_meta as b; print(); print(b.build_{kind}({str(out.absolute())!r}))"
            done = subprocess.run(
                [sys.executable, "-c", script], cwd=source, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{kind} of {name} cannot be built:\n{done.stderr}")
            built.append(out / done.stdout.splitlines()[-1])
    return built


def sources(folder: Path) -> Mapping[str, Path]:
    """Writes a project for each distribution into ``folder``. Returns the folder of each by its name."""
    projects = {PLANNER: planner_project(), FULL: full_project()}
    for name, project in projects.items():
        _copy(folder / name, *_TEXTS)
        (folder / name / "pyproject.toml").write_text("\n".join(_toml(project)) + "\n", encoding="utf-8")
    _copy(folder / PLANNER, *_SOURCES)
    return {name: folder / name for name in projects}


def planner_project() -> dict[str, Any]:
    """The project file of the distribution with all modules: the repository's, with fewer dependencies."""
    whole = _whole()
    chosen = whole["tool"]["sqlstream"]["planner"]
    project = whole["project"] | {
        "name": PLANNER,
        "description": f"The planner of {FULL} without Spark: check, explain, format, lineage, completion",
        "dependencies": [d for d in whole["project"]["dependencies"] if name_of(d) in chosen["dependencies"]],
        "optional-dependencies": {name: whole["project"]["optional-dependencies"][name] for name in chosen["extras"]},
        "entry-points": {name: whole["project"]["entry-points"][name] for name in chosen["entry-points"]},
    }
    return {
        "build-system": whole["build-system"],
        "project": project,
        "tool": {"setuptools": whole["tool"]["setuptools"]},
    }


def full_project() -> dict[str, Any]:
    """The project file of the distribution without files: the planner of the same version, and what runs its plans."""
    whole = _whole()
    chosen = whole["tool"]["sqlstream"]["planner"]
    project = {key: value for key, value in whole["project"].items() if key not in ("dynamic", "scripts")} | {
        "version": __version__,
        "dependencies": [f"{PLANNER}=={__version__}", *whole["project"]["dependencies"]],
        "entry-points": {
            name: points
            for name, points in whole["project"]["entry-points"].items()
            if name not in chosen["entry-points"]
        },
    }
    return {"build-system": whole["build-system"], "project": project, "tool": {"setuptools": {"packages": []}}}


def name_of(requirement: str) -> str:
    """The name of the package that a requirement asks for."""
    return re.split(r"[\[<>=~!; ]", requirement, maxsplit=1)[0]


def _whole() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _copy(target: Path, *names: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / name)


def _toml(table: Mapping[str, Any], *path: str) -> Iterator[str]:
    """The lines of a table of texts, lists of texts and tables, which JSON spells as TOML does."""
    if path:
        yield f"\n[{'.'.join(map(json.dumps, path))}]"
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _toml(value, *path, key)


def main() -> None:
    """Build into a folder, by default ``dist``, and print what was built."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    work = out / ".sources"
    try:
        for file in build(work, out):
            print(f"{file}  {file.stat().st_size:,} bytes")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
