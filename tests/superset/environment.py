"""The environment of Superset, which has other dependencies than ours: made once, in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
ROOT = Path(__file__).parents[2]

_OF_SQLSTREAM = ("sqlglot", "pandas", "lark", "pyspark", "py4j", "protobuf", "plotext", "prompt_toolkit", "wcwidth")
"""What sqlstream needs and Superset has not, or has in older versions: these stand before its own, for the dialect."""


@dataclass(frozen=True)
class Environment:
    """``overlay``: a folder for PYTHONPATH, with what sqlstream needs beside Superset."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def overlay(self) -> Path:
        return self.folder / "overlay"

    def versions(self, *packages: str) -> dict[str, str]:
        """Of Superset's own packages."""
        code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
        command = [str(self.python), "-c", code, *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return dict(zip(packages, done.stdout.split(), strict=True))


def made(folder: Path) -> Environment:
    """The environment of a folder, which is made anew where our requirements have changed."""
    environment = Environment(folder.absolute())
    wanted = REQUIREMENTS.read_text(encoding="utf-8") + "".join(f"{name}=={version(name)}\n" for name in _OF_SQLSTREAM)
    mark = environment.folder / ".made"
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return environment
    print(f"Setting up {folder} (once; downloads about 900 MB)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment.folder)], check=True)
    _install(environment, "-r", str(REQUIREMENTS))
    pinned = [f"{name}=={version(name)}" for name in _OF_SQLSTREAM]
    _install(environment, "--no-deps", "--target", str(environment.overlay), *pinned)
    mark.write_text(wanted, encoding="utf-8")
    return environment


def install_sqlstream(environment: Environment, target: Path) -> None:
    """This checkout as it is now, installed as a user has it: Superset finds the dialect by its entry points."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"  # building leaves folders behind
        shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "out"))
        _install(environment, "--no-deps", "--target", str(target), str(source))


def _install(environment: Environment, *arguments: str) -> None:
    pip = [str(environment.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *arguments], check=True)
