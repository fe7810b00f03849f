"""The layers: imports point downwards, PySpark stays where it belongs, ``import sqlstream`` is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from sqlstream.connectors import on_spark
from tests.import_graph import ROOMS, ROOT, imported_names, module_name, product_files

FOUNDATION = ("errors", "functions", "secrets", "types")

# What a room may import of sqlstream; the rest of the product may import everything.
MAY_IMPORT = {
    "secrets": {"secrets"},
    "errors": {"secrets"},
    "types": {"errors"},
    "functions": {"functions", "types"},
    "grammar": {"grammar", *FOUNDATION},
    "formats": {"formats", *FOUNDATION},
    "udfs": {"udfs", "formats", *FOUNDATION},
    "planner": {"planner", "grammar", "udfs", "formats", *FOUNDATION},
}
SPARK_ALLOWED = ("planner/lowering/", "udfs/spark/", "sqlstream/")
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}


# Texts that name what is above: tools look for ``sqlstream.planner.Planner``, which knows connectors and settings.
NAMED_ABOVE = {"planner/__init__.py": {"analysis"}}


@cache
def _modules() -> tuple[str, ...]:
    return tuple(str(path.relative_to(ROOT)) for path in product_files())


@cache
def _names() -> tuple[str, ...]:
    return tuple(module_name(ROOT / module) for module in _modules())


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), module)


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Full names of what a module imports anywhere: also inside functions, for types and by text."""
    return tuple(imported_names(_tree(module), module_name(ROOT / module), _names()))


def _room(module: str) -> str:
    """The layer of a file: its room, or for sqlstream/errors.py and the like the name of the module."""
    first, *rest = Path(module).with_suffix("").parts
    return first if first in ROOMS else rest[0]


def test_every_room_has_modules():
    assert {_room(m) for m in _modules()} >= {*ROOMS, *FOUNDATION}


def _wrong(of_module: Callable[[str], object], modules: Iterable[str]) -> dict[str, object]:
    """What a rule finds, by module. One test for all modules: there are 500, and each test costs some milliseconds."""
    found = {module: of_module(module) for module in modules}
    assert found
    return {module: each for module, each in found.items() if each}


def test_imports_point_downwards():
    def upwards(module: str) -> set[str]:
        ours = {name.split(".")[1] for name in _imports(module) if name.startswith("sqlstream.")}
        return ours - MAY_IMPORT[_room(module)] - NAMED_ABOVE.get(module, set())

    assert _wrong(upwards, [m for m in _modules() if _room(m) in MAY_IMPORT]) == {}


def test_rooms_are_imported_through_the_product():
    def beside(module: str) -> list[str]:
        return [name for name in _imports(module) if name.split(".")[0] in (*ROOMS, "None")]

    assert _wrong(beside, _modules()) == {}


QUESTIONS = ("planner", "planner/rules", "planner/explain", "planner/physical")
# Who loads a plan of JSON needs the class of each node.
READS_ALL_NODES = {"planner/explain/to_json.py": {"sqlstream.planner.operators"}}


def test_what_asks_about_nodes_knows_no_operator():
    """Operators answer in their rooms, so that a new one is added there alone."""

    def known(module: str) -> set[str]:
        allowed = tuple(READS_ALL_NODES.get(module, ()))
        operators = {name for name in _imports(module) if name.startswith("sqlstream.planner.operators")}
        return {name for name in operators if not name.startswith(allowed)} if allowed else operators

    assert _wrong(known, [m for m in _modules() if str(Path(m).parent) in QUESTIONS]) == {}


def test_pyspark_stays_in_its_places():
    def of_spark(module: str) -> list[str]:
        return [name for name in _imports(module) if name.split(".")[0] in ("pyspark", "py4j")]

    assert _wrong(of_spark, [m for m in _modules() if not m.startswith(SPARK_ALLOWED)]) == {}


def test_imports_inside_functions_say_why():
    def silent(module: str) -> list[int]:
        lines = (ROOT / module).read_text(encoding="utf-8").splitlines()
        nodes = ast.walk(_tree(module))
        functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        imports = {n.lineno for f in functions for n in ast.walk(f) if isinstance(n, ast.Import | ast.ImportFrom)}

        def says_why(line: int) -> bool:
            above = next(i for i in range(line - 1, 0, -1) if i not in imports)  # one comment for several of them
            return "#" in lines[line - 1] or lines[above - 1].strip().startswith("#")

        return [line for line in sorted(imports) if not says_why(line)]

    assert _wrong(silent, [m for m in _modules() if _room(m) in ROOMS]) == {}


def test_every_module_says_what_it_is():
    assert _wrong(lambda module: not ast.get_docstring(_tree(module)), _modules()) == {}


def test_names_of_modules_say_something():
    assert _wrong(lambda module: set(Path(module).with_suffix("").parts) & VAGUE_NAMES, _modules()) == {}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_relative_links(room: str):
    link = ROOT / "sqlstream" / room
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{room}"


def _loaded_by(statement: str) -> tuple[float, set[str]]:
    """Seconds that a statement takes in a fresh interpreter, and the top-level packages it loads."""
    script = (
        f"import sys, time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start); "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    seconds, names = out.splitlines()
    return float(seconds), set(names.split())


def test_import_of_the_product_is_fast_and_light():
    tries = [_loaded_by("import sqlstream") for _ in range(3)]
    assert min(seconds for seconds, _ in tries) < 0.3
    assert not tries[0][1] & {"pyspark", "py4j", "pandas", "pyarrow", "numpy"}


@pytest.mark.parametrize("room", ["grammar", "planner"])
def test_parsing_and_planning_load_no_spark(room: str):
    _, loaded = _loaded_by(f"import sqlstream.{room}")
    assert not loaded & {"pyspark", "py4j"}


def test_describing_connectors_loads_no_spark():
    """Statements are checked by what a connector says of itself; ``on_spark`` is for jobs."""
    names = (module_name(path) for path in product_files())
    described = [n for n in names if n.startswith("sqlstream.connectors.") and not n.endswith("__main__")]
    apart = [n for n in described if not n.startswith("sqlstream.connectors.on_spark.")]
    _, loaded = _loaded_by(f"import {', '.join(apart)}")
    assert not loaded & {"pyspark", "py4j"}


def test_every_module_that_runs_connectors_can_be_reached():
    folder = Path(on_spark.__file__).parent
    assert on_spark.__all__ == sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


def test_kernels_load_no_parser():
    """Spark's workers have the package, not what parses SQL, and would load it for longer than the kernels."""
    _, loaded = _loaded_by(
        "import sqlstream.udfs.spark.adapter, sqlstream.udfs.lookup.operator, sqlstream.udfs.process"
    )
    assert not loaded & {"sqlglot", "lark"}
