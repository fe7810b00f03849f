"""The wheel, the source distribution and the editable install hold everything; the uninstalled checkout works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("grammar", "planner", "udfs")
NEEDED = ("sqlstream", *ROOMS, "pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.skipif(
    int(version("setuptools").split(".")[0]) < 77, reason="setuptools 77 and newer know licence expressions"
)


def _copy(target: Path) -> Path:
    """The sources as a clone has them, links included, without what builds leave behind."""
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
    return target


def _build(kind: str, source: Path, out: Path) -> Path:
    """Run one hook of the build backend, as pip does in its own environment."""
    out.mkdir(exist_ok=True)
    script = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    subprocess.run([sys.executable, "-c", script], cwd=source, check=True, capture_output=True, text=True)
    (built,) = out.iterdir()
    return built


def _sources() -> set[str]:
    """Every source and data file under the name that it has in an installation."""
    rooms = {f"sqlstream/{path.relative_to(ROOT)}" for room in ROOMS for path in (ROOT / room).rglob("*")}
    own = {str(path.relative_to(ROOT)) for path in (ROOT / "sqlstream").rglob("*") if not path.is_symlink()}
    return {name for name in rooms | own if name.endswith((".py", ".lark", "py.typed"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    base = tmp_path_factory.mktemp("wheel")
    return _build("wheel", _copy(base / "source"), base / "out")


def _names(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as files:
        return set(files.namelist())


def test_wheel_holds_every_source_and_data_file(wheel):
    assert _sources() <= _names(wheel)
    assert any(name.endswith(".lark") for name in _names(wheel))


def test_wheel_holds_nothing_at_the_top_but_the_product(wheel):
    assert {name.split("/")[0].split("-")[0] for name in _names(wheel)} == {"sqlstream"}


def test_wheel_names_command_dialect_and_plugin(wheel):
    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith("entry_points.txt")]
        text = files.read(name).decode()
    assert "sqlstream = sqlstream.cli:main" in text
    assert "sqlstream = sqlstream.grammar.dialect:SqlStream" in text
    assert "sqlstream.testing.plugin = sqlstream.testing.plugin" in text
    assert "sqlstream = sqlstream.sqlalchemy.dialect:SqlStreamDialect" in text


def test_wheel_states_version_licence_and_extras(wheel):
    import sqlstream

    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith("/METADATA")]
        stated = Parser().parsestr(files.read(name).decode())
    extras = {"examples", "postgres", "duckdb", "redis", "http", "sqlalchemy", "notebook", "lsp", "views", "dev"}
    assert stated["Version"] == sqlstream.__version__
    assert stated["License-Expression"] == "Apache-2.0"
    assert set(stated.get_all("Provides-Extra", [])) == extras


def test_unpacked_wheel_imports_without_the_checkout(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path)
    script = "import sqlstream.grammar, sqlstream.planner, sqlstream.udfs; print(sqlstream.grammar.__file__)"
    process = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.stdout.strip() == str(tmp_path / "sqlstream/grammar/__init__.py")


def test_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    archive = _build("sdist", _copy(tmp_path / "source"), tmp_path / "sdist")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert _names(_build("wheel", unpacked, tmp_path / "out")) == _names(wheel)


def test_editable_install_runs_from_the_checkout(tmp_path):
    source = _copy(tmp_path / "source")
    built = _build("editable", source, tmp_path / "out")
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False, system_site_packages=False)
    (site,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(built) as files:
        files.extractall(site)
    script = "import sqlstream.errors as m; print(m.__file__)"  # all else needs the dependencies
    out = subprocess.run(
        [environment / "bin/python", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert Path(out.strip()) == source / "sqlstream/errors.py"


def test_command_runs_from_the_uninstalled_checkout():
    run = subprocess.run(
        [sys.executable, "-m", "sqlstream", "version"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert run.stdout.startswith("sqlstream ")


def test_constraints_pin_every_dependency():
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in _lines(ROOT / "constraints.txt")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[\[<>=]", d)[0].lower().replace("_", "-") for d in wanted}
    assert names - {"sqlstream"} <= pinned  # an extra may name others of our own


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
