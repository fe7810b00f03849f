"""The two distributions of a release: the planner alone plans without Spark, and both go together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest

from sqlstream.spark.not_installed import BEYOND_PLANNING
from sqlstream.version import __version__
from tests.depth import usually
from tests.distributions import FULL, PLANNER, ROOT, build, full_project, name_of, planner_project
from tests.test_packaging import QUERY, _environment, _install

pytestmark = pytest.mark.skipif(
    int(metadata.version("setuptools").split(".")[0]) < 77, reason="setuptools 77 and newer know licence expressions"
)
MODULES = {"protobuf": {"google"}, "pyspark": {"pyspark", "py4j"}}
"""Modules of packages that are not called like them."""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """What a release publishes, by the name of the distribution and the end of the file's."""
    base = tmp_path_factory.mktemp("distributions")
    files = build(base / "sources", base / "dist")
    return {f"{name}{end}": file for file, (name, end) in zip(files, _kinds(), strict=True)}


def _kinds() -> list[tuple[str, str]]:
    return [(name, end) for name in (PLANNER, FULL) for end in (".whl", ".tar.gz")]


@pytest.fixture(scope="module")
def planning(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the planner's distribution and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("planning")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    extras = planner_project()["project"]["optional-dependencies"]["lsp"]
    for package in sorted(_with_dependencies([*planner_project()["project"]["dependencies"], *extras])):
        _link(metadata.distribution(package), site)
    with zipfile.ZipFile(built[f"{PLANNER}.whl"]) as files:
        files.extractall(site)
    return folder / "bin/python"


def _with_dependencies(requirements: list[str]) -> set[str]:
    """The names of packages, and of all that these depend on in this environment, without extras."""
    found: set[str] = set()
    waiting = [name_of(requirement) for requirement in requirements]
    while waiting:
        name = waiting.pop()
        if name not in found:
            try:
                wanted = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue  # for another system or version of Python
            found.add(name)
            waiting += [name_of(each) for each in wanted if "extra ==" not in each]
    return found


def _link(distribution: metadata.Distribution, site: Path) -> None:
    for top in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))


def _run(*command: str | Path, folder: Path, given: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that finds modules only where its environment has them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False, input=given, timeout=60
    )
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def _about(wheel: Path) -> tuple[set[str], dict[str, list[str]]]:
    """The files of a wheel beside its metadata, and the metadata."""
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        (name,) = [n for n in names if n.endswith("/METADATA")]
        stated = Parser().parsestr(files.read(name).decode())
    return {n for n in names if ".dist-info/" not in n}, {key: stated.get_all(key, []) for key in stated}


def test_full_distribution_holds_no_file_and_asks_for_the_planner_of_its_version(built):
    files, stated = _about(built[f"{FULL}.whl"])
    assert files == set()
    assert f"{PLANNER}=={__version__}" in stated["Requires-Dist"]
    assert any(each.startswith("pyspark") for each in stated["Requires-Dist"])
    assert {"kafka", "delta", "lsp", "dbt"} <= set(stated["Provides-Extra"])


def test_planner_holds_all_modules_and_asks_for_little(built):
    files, stated = _about(built[f"{PLANNER}.whl"])
    assert {
        "sqlstream/planner/__init__.py",
        "sqlstream/udfs/spark/adapter.py",
        "sqlstream/grammar/streaming.lark",
    } <= files
    needed = {name_of(each) for each in stated["Requires-Dist"] if "extra ==" not in each}
    assert needed == {"sqlglot", "lark", "click", "rich", "pyarrow", "numpy"}
    assert stated["Version"] == [__version__] and stated["Provides-Extra"] == ["lsp"]


def test_each_entry_point_is_in_one_distribution(built):
    def of(name: str) -> set[str]:
        with zipfile.ZipFile(built[f"{name}.whl"]) as files:
            (path,) = [n for n in files.namelist() if n.endswith("/entry_points.txt")]
            return {line for line in files.read(path).decode().splitlines() if line.startswith("[")}

    assert of(PLANNER) == {"[console_scripts]", "[sqlglot.dialects]"}
    assert of(FULL) == {"[ibis.backends]", "[pytest11]", "[sqlalchemy.dialects]", "[superset.db_engine_specs]"}


def test_source_distribution_of_the_full_one_holds_no_module_either(built, tmp_path):
    shutil.unpack_archive(built[f"{FULL}.tar.gz"], tmp_path, filter="data")
    assert not list(tmp_path.rglob("*.py"))


def test_packages_beyond_planning_are_the_dependencies_that_the_planner_lacks():
    named = {name_of(each) for each in full_project()["project"]["dependencies"]} - {PLANNER}
    lacking = named - _with_dependencies(planner_project()["project"]["dependencies"])
    assert set().union(*(MODULES.get(name, {name}) for name in lacking)) == BEYOND_PLANNING


COMMANDS = {
    "check": "no mistakes",
    "explain": "WindowAggregate(keys k; TUMBLE",
    "format": "CREATE TABLE t (",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_planner_alone_has_the_commands_that_need_no_spark(command: str, planning: Path, tmp_path: Path):
    done = _run(planning, "-m", "sqlstream", command, "-e", QUERY, folder=tmp_path)
    assert COMMANDS[command] in done.stdout and done.returncode == 0, done.stderr


def test_planner_alone_checks_tables_of_every_connector_that_examples_use(planning: Path, tmp_path: Path):
    """Files, topics, lookups and changes of databases are declared by modules that also run them."""
    scripts = [file for story in ("live", "windows", "flights") for file in (ROOT / "examples" / story).glob("*.sql")]
    assert len(scripts) > 3
    done = _run(planning, "-m", "sqlstream", "check", *scripts, folder=tmp_path)
    assert "SS482" not in done.stderr and "internal error" not in done.stderr, done.stderr


def test_planner_alone_answers_as_a_library(planning: Path, tmp_path: Path):
    script = f"""
from sqlstream.planner import Planner
definition, _, query = {QUERY!r}.partition(";")
planner = Planner().with_ddl(definition)
(select,) = planner.analyze(query).statements
print(select.kind, select.state, select.fingerprint)
print(planner.plan(query, "physical"))
"""
    done = _run(planning, "-c", script, folder=tmp_path)
    assert done.stdout.startswith("SELECT") and "state in RocksDB" in done.stdout, done.stderr


def test_planner_alone_serves_editors(planning: Path, tmp_path: Path):
    def message(method: str, **more: object) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "method": method} | more).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    asked: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
    given = message("initialize", id=1, params=asked) + message("shutdown", id=2) + message("exit")
    done = _run(planning, "-m", "sqlstream", "lsp", folder=tmp_path, given=given)
    assert '"completionProvider"' in done.stdout, done.stderr


@pytest.mark.parametrize("command", usually(["run -e", "shell", "serve", "jobs list", "test"], "run -e", "shell"))
def test_commands_that_need_more_say_what_to_install(command: str, planning: Path, tmp_path: Path):
    (tmp_path / "a.sql").write_text(QUERY)
    (tmp_path / "a.golden").write_text("# a\nstatement\nSELECT 1\n")
    more = {"run -e": [QUERY], "serve": ["a.sql"], "test": ["a.golden"]}.get(command, [])
    done = _run(planning, "-m", "sqlstream", *command.split(), *more, folder=tmp_path)
    assert done.stderr.startswith("SS482: the Python package of module"), done.stderr
    assert "\nHINT: pip install sqlstream." in done.stderr and done.returncode == 3


STATEMENTS = (
    "SELECT k FROM t",  # a stream
    "INSERT INTO o SELECT k FROM t",
    "SELECT 1",  # a batch
    "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k",
)


def test_statements_that_need_spark_say_so_in_python(planning: Path, tmp_path: Path):
    script = f"""
import sqlstream
session = sqlstream.connect()
session.sql("CREATE TABLE t (k STRING) WITH ('connector' = 'datagen')")
session.sql("CREATE TABLE o (k STRING) WITH ('connector' = 'blackhole')")
asked = [lambda s=s: session.sql(s) for s in {STATEMENTS!r}]
for ask in [*asked, lambda: session.spark, lambda: session.dataframe("SELECT k FROM t")]:
    try:
        ask()
    except sqlstream.SqlStreamError as error:
        print(error.code)
print(len(session.sql("DESCRIBE FUNCTION EXTENDED abs").fetchall()) > 0)
"""
    done = _run(planning, "-c", script, folder=tmp_path)
    assert done.stdout.split() == ["SS482"] * 6 + ["True"], done.stderr


@pytest.mark.long
def test_both_are_installed_and_removed_without_harm_to_each_other(built, tmp_path: Path):
    environment = _environment(tmp_path / "venv")
    python = environment / "bin/python"
    _install(environment, str(built[f"{PLANNER}.whl"]))
    before = set(_files(environment))
    _install(environment, str(built[f"{FULL}.whl"]))
    assert set(_files(environment)) == before, "the full distribution brings no file"
    _run(python, "-m", "pip", "uninstall", "--yes", "--quiet", FULL, folder=tmp_path)
    assert set(_files(environment)) == before
    done = _run(environment / "bin/sqlstream", "check", "-e", QUERY, folder=tmp_path)
    assert "no mistakes" in done.stdout, done.stderr


def _files(environment: Path) -> Iterator[Path]:
    """The files of our modules and commands in an environment, without what Python compiles."""
    for path in environment.rglob("*"):
        if path.suffix != ".pyc" and ("sqlstream" in path.parts or path.parent.name == "bin"):
            yield path
