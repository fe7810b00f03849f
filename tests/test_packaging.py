"""Every way to install the product plans a query, and none depends on the links in ``sqlstream/``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
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
NEEDED = ("sqlstream", *ROOMS, "pyproject.toml", "setup.py", "README.md", "LICENSE")
QUERY = """
CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
SELECT window_start, k, COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k
"""

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


def _without_links(source: Path) -> Path:
    """What a zip of the repository leaves where links do not exist: text files that hold the target."""
    for room in ROOMS:
        link = source / "sqlstream" / room
        target = str(link.readlink())
        link.unlink()
        link.write_text(target, encoding="utf-8")
    return source


def _zipped(source: Path, file: Path) -> Path:
    """The folder as an archive with one folder in it, as code hosts offer them."""
    return Path(shutil.make_archive(str(file.with_suffix("")), "zip", source.parent, source.name))


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


def _environment(folder: Path) -> Path:
    """A virtual environment that has what this one has, but for what is installed as editable."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "packages_of_the_tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return folder


def _install(environment: Path, *source: str) -> None:
    """Install what pip builds without network: the dependencies are there."""
    pip = (environment / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-compile")
    _run(*pip, "--no-deps", "--no-build-isolation", "--ignore-installed", *source, folder=environment)


def _run(*command: str | Path, folder: Path) -> str:
    """What a command prints that finds Python modules only where its environment has them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def _assert_plans(*python: str | Path, folder: Path, planner_in: Path) -> None:
    """A query is planned by the planner in ``planner_in``."""
    assert "WindowAggregate(keys k; TUMBLE" in _run(*python, "-m", "sqlstream", "explain", "-e", QUERY, folder=folder)
    where = _run(*python, "-c", "import sqlstream.planner as m; print(m.__file__)", folder=folder)
    assert Path(where.strip()).resolve().is_relative_to(planner_in.resolve())


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
    """dbt finds adapters in packages of its own name."""
    names = _names(wheel)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sqlstream", "dbt"}
    of_dbt = {name for name in names if name.startswith("dbt/")}
    assert all(name.startswith(("dbt/adapters/sqlstream/", "dbt/include/sqlstream/")) for name in of_dbt), of_dbt


def test_wheel_names_command_dialect_and_plugin(wheel):
    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith("entry_points.txt")]
        text = files.read(name).decode()
    assert "sqlstream = sqlstream.cli:main" in text
    assert "sqlstream = sqlstream.grammar.dialect:SqlStream" in text
    assert "[ibis.backends]\nsqlstream = sqlstream.ibis\n" in text
    assert "sqlstream.testing.plugin = sqlstream.testing.plugin" in text
    assert "sqlstream = sqlstream.sqlalchemy.dialect:SqlStreamDialect" in text


def test_wheel_has_the_adapter_where_dbt_looks_for_it(wheel):
    names = _names(wheel)
    assert {"dbt/adapters/sqlstream/__init__.py", "dbt/adapters/sqlstream/__version__.py"} <= names
    assert "dbt/__init__.py" not in names and "dbt/adapters/__init__.py" not in names  # these are dbt's own
    own = {str(p.relative_to(ROOT)) for p in (ROOT / "sqlstream/dbt/include").rglob("*") if p.is_file()}
    assert own <= names


def test_wheel_states_version_licence_and_extras(wheel):
    import sqlstream

    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith("/METADATA")]
        stated = Parser().parsestr(files.read(name).decode())
    extras = {
        "examples",
        "postgres",
        "mysql",
        "duckdb",
        "delta",
        "iceberg",
        "otel",
        "dbt",
        "redis",
        "kafka",
        "http",
        "sqlalchemy",
        "ibis",
        "notebook",
        "lsp",
        "views",
        "dev",
        "docs",
    }
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
    archive = _build("sdist", _without_links(_copy(tmp_path / "source")), tmp_path / "sdist")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert _names(_build("wheel", unpacked, tmp_path / "out")) == _names(wheel)


@pytest.mark.parametrize("form", ["zip", pytest.param("source distribution", marks=pytest.mark.long), "wheel"])
def test_installation_plans_a_query(form: str, wheel: Path, tmp_path: Path):
    """The zip and the source distribution are made where links are text files."""
    if form == "wheel":
        file = wheel
    else:
        source = _without_links(_copy(tmp_path / "source"))
        file = _zipped(source, tmp_path / "a.zip") if form == "zip" else _build("sdist", source, tmp_path / "out")
    environment = _environment(tmp_path / "venv")
    _install(environment, str(file))
    _assert_plans(environment / "bin/python", folder=tmp_path, planner_in=environment)


@pytest.mark.long  # the environment that the tests run in is mostly one
def test_editable_installation_plans_a_query(tmp_path: Path):
    source = _copy(tmp_path / "source")
    environment = _environment(tmp_path / "venv")
    _install(environment, "--editable", str(source))
    _assert_plans(environment / "bin/python", folder=tmp_path, planner_in=source / "planner")


def test_editable_installation_without_links_plans_a_query_and_has_every_room_for_workers(tmp_path: Path):
    source = _without_links(_copy(tmp_path / "source"))
    environment = _environment(tmp_path / "venv")
    _install(environment, "--editable", str(source))
    _assert_plans(environment / "bin/python", folder=tmp_path, planner_in=source / "planner")
    script = "from sqlstream.spark.worker_package import worker_package; print(worker_package())"
    cache = f"XDG_CACHE_HOME={tmp_path}"
    archive = Path(_run("env", cache, environment / "bin/python", "-c", script, folder=tmp_path).strip())
    assert {f"sqlstream/{room}/__init__.pyc" for room in ROOMS} <= _names(archive)


def test_bare_checkout_plans_a_query(tmp_path: Path):
    source = _copy(tmp_path / "source")
    _assert_plans(_environment(tmp_path / "venv") / "bin/python", folder=source, planner_in=source / "planner")


def test_new_folder_is_packaged_without_an_edit(tmp_path: Path):
    source = _copy(tmp_path / "source")
    for parent in ("planner/binder", "sqlstream/jobs"):
        (source / parent / "new").mkdir()
        (source / parent / "new/module.py").touch()
    names = _names(_build("wheel", source, tmp_path / "out"))
    assert {"sqlstream/planner/binder/new/module.py", "sqlstream/jobs/new/module.py"} <= names


def test_constraints_pin_every_dependency():
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in _lines(ROOT / "constraints.txt")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[\[<>=]", d)[0].lower().replace("_", "-") for d in wanted}
    # An extra may name others of our own; dbt needs an older protobuf than the rest and has an environment of its own.
    assert names - {"sqlstream", "dbt-core", "dbt-adapters"} <= pinned


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
