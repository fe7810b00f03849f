"""The shape of the product as a table: how large its files are, how they hang together, what one query runs through.

``python -m tests.shape`` compares the working tree with an earlier revision (``--base REV``), which is checked out into
a temporary folder. ``--lowering`` also follows the query until PySpark's DataFrame is there, which starts Spark.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
BASE = "9f9db158"
ROOMS = ("grammar", "planner", "udfs")
FOUNDATION = ("errors", "functions", "secrets", "types")
"""What the rooms may import of ``sqlstream/``, so that a call of it is no climb."""
LARGE, SMALL = 700, 100
TABLE = "CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
QUERY = (
    "SELECT window_start, k, COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
    "GROUP BY window_start, window_end, k"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the product."""

    name: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def lines(self) -> int:
        return len(self.source.splitlines())

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """All import statements, wherever they stand."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]

    @cached_property
    def functions(self) -> list[Function]:
        """All functions and methods."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]


def modules_of(root: Path) -> dict[str, Module]:
    """The product's modules by the names that they are imported by; rglob does not follow links."""
    modules = {}
    for path in sorted(path for folder in ("sqlstream", *ROOMS) for path in (root / folder).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = ("sqlstream", *parts) if parts[0] in ROOMS else parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path.read_text(encoding="utf-8"))
    return modules


# --- imports ---------------------------------------------------------------------------------------------------


def names_of(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The full names that a statement imports."""
    before = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
    yield from (f"{before}{alias.name}" for alias in statement.names)


def edges_of(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """The modules of the product that each one imports, for types alone and inside functions too."""

    def module_of(name: str) -> str:
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return name

    return {
        name: {module_of(full) for statement in module.imports for full in names_of(statement)} - {name, ""}
        for name, module in modules.items()
    }


def circles_of(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, by way of others or directly."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = edges[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    behind = {name: reachable(name) for name in edges}
    in_circles = {frozenset(b for b in after if a in behind[b]) for a, after in behind.items() if a in after}
    return [set(circle) for circle in in_circles]


def inside_functions(module: Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run when a function does, each once."""
    within = {id(node): node for function in module.functions for node in ast.walk(function)}
    yield from (statement for statement in module.imports if id(statement) in within)


# --- functions -------------------------------------------------------------------------------------------------


def is_registry(function: Function) -> bool:
    """Whether other functions are registered with it by the class of their first argument."""
    return any("singledispatch" in ast.unparse(decorator) for decorator in function.decorator_list)


def private_functions(module: Module) -> tuple[int, int]:
    """How many private functions stand at the top, and how many of them are named once in the rest of the module."""
    top = [node.name for node in module.tree.body if isinstance(node, Function)]
    private = [name for name in top if name.startswith("_") and name != "_"]
    named = Counter(node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name))
    return len(private), sum(named[name] == 1 for name in private)


def public_definitions(module: Module) -> Iterator[Function | ast.ClassDef]:
    """Public classes and functions at the top."""
    definitions = (node for node in module.tree.body if isinstance(node, Function | ast.ClassDef))
    yield from (node for node in definitions if not node.name.startswith("_"))


# --- one query -------------------------------------------------------------------------------------------------

TRACE = '''
import json, sys, threading
from pathlib import Path

root, table, query, lowering = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3], sys.argv[4] == "True"
rooms, foundation = {rooms!r}, {foundation!r}
files, climbs, importing, places = set(), [], [0], dict()

class Reached(BaseException):
    pass

class NoSpark:
    """Ends the query where it wants PySpark; threads that load it ahead of time just do not get it."""
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            if threading.current_thread() is threading.main_thread():
                raise Reached
            raise ModuleNotFoundError(name)

def place_of(code):
    """Path and level of a function of the product: 0 for the rooms and what they may import, 1 for what is above."""
    name = code.co_filename
    if name not in places:
        path = Path(name).resolve() if name[:1] == "/" else None
        parts = path.relative_to(root).parts if path and path.is_relative_to(root) else ()
        ours = parts[:1] and parts[0] in ("sqlstream", *rooms)
        low = ours and (parts[0] in rooms or Path(parts[1]).stem in foundation)
        places[name] = ("/".join(parts), 0 if low else 1) if ours else None
    return places[name]

def caller_of(frame):
    """The nearest function of the product below a frame, past those of libraries."""
    while frame is not None:
        place = place_of(frame.f_code)
        if place is not None:
            return place
        frame = frame.f_back

def seen(frame, event, argument):
    code = frame.f_code
    if code.co_name == "<module>" and event in ("call", "return"):
        importing[0] += 1 if event == "call" else -1
    elif event == "call" and not importing[0]:
        place = place_of(code)
        if place is not None:
            files.add(place[0])
            caller = caller_of(frame.f_back)
            if place[1] == 1 and caller is not None and caller[1] == 0:
                climbs.append((caller[0], place[0], code.co_name))

import sqlstream
session = sqlstream.connect()
session.sql(table)
if lowering:
    session.spark
else:
    sys.meta_path.insert(0, NoSpark())
sys.setprofile(seen)
try:
    (session.dataframe if lowering else session.sql)(query)
except Reached:
    pass
finally:
    sys.setprofile(None)
print(json.dumps([len(files), len(climbs)]), flush=True)
'''


def query_of(root: Path, *, lowering: bool) -> tuple[int, int]:
    """How many files of the product run for the query, and how often one of them calls back into a room above it."""
    script = TRACE.format(rooms=ROOMS, foundation=FOUNDATION)
    run = [sys.executable, "-c", script, str(root), TABLE, QUERY, str(lowering)]
    process = subprocess.run(run, cwd=root, env=_environment(root), capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"the query fails in {root}: {process.stderr[-2000:]}")
    files, climbs = json.loads(process.stdout.strip().splitlines()[-1])
    return files, climbs


def _environment(root: Path) -> dict[str, str]:
    """The environment of this process, in which Python finds the product at ``root``."""
    return {**os.environ, "PYTHONPATH": str(root)}


# --- the table -------------------------------------------------------------------------------------------------


def shape_of(root: Path, *, lowering: bool) -> dict[str, str]:
    """All figures of a checkout, by what they are."""
    modules = modules_of(root)
    files = list(modules.values())
    lines = sum(module.lines for module in files)
    edges = edges_of(modules)
    importers = Counter(other for others in edges.values() for other in others)
    functions = [function for module in files for function in module.functions]
    private, once = (sum(counts) for counts in zip(*map(private_functions, files), strict=True))
    inside = [statement for module in files for statement in inside_functions(module)]
    internal = [s for s in inside if any(name.split(".")[0] == "sqlstream" for name in names_of(s))]
    circles = circles_of(edges)
    public = [definition for module in files for definition in public_definitions(module)]
    import_lines = sum((s.end_lineno or s.lineno) - s.lineno + 1 for module in files for s in module.imports)
    lonely = [m for name, m in modules.items() if m.lines < SMALL and importers[name] == 1]
    ran, climbs = query_of(root, lowering=lowering)
    return {
        "product files": f"{len(files):,}",
        "lines": f"{lines:,}",
        "median lines of a file": f"{median(module.lines for module in files):.0f}",
        f"files over {LARGE} lines": f"{sum(module.lines > LARGE for module in files)}",
        "import lines per 100": f"{100 * import_lines / lines:.1f}",
        "functions": f"{len(functions):,}",
        "functions named _": f"{sum(function.name == '_' for function in functions):,}",
        "registries of singledispatch": f"{sum(map(is_registry, functions))}",
        "private functions called once": f"{once:,} of {private:,}",
        "imports inside functions": f"{len(inside)}",
        "… of the product's own modules": f"{len(internal)}",
        "circles of imports": f"{len(circles)}",
        "files in the largest circle": f"{max(map(len, circles), default=0)}",
        "public definitions without docstring": f"{sum(not ast.get_docstring(d) for d in public):,} of {len(public):,}",
        f"files under {SMALL} lines with one importer": f"{len(lonely)}",
        "test files": f"{sum(1 for _ in (root / 'tests').rglob('test_*.py'))}",
        "files that run for the query": f"{ran}",
        "calls back up into sqlstream/": f"{climbs}",
    }


def shape_at(revision: str, *, lowering: bool) -> dict[str, str]:
    """The figures of a revision, from a worktree that is removed afterwards."""
    git = ("git", "-C", str(ROOT), "worktree")
    with tempfile.TemporaryDirectory(prefix="sqlstream-shape-") as folder:
        tree = Path(folder, "tree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            return shape_of(tree, lowering=lowering)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.shape", description=__doc__)
    parser.add_argument("--base", default=BASE, metavar="REV", help=f"what to compare with ({BASE})")
    parser.add_argument("--lowering", action="store_true", help="follow the query into PySpark's DataFrame")
    options = parser.parse_args(arguments)
    before, after = shape_at(options.base, lowering=options.lowering), shape_of(ROOT, lowering=options.lowering)
    print(f"| | {options.base} | now |\n|---|--:|--:|")
    print("\n".join(f"| {name} | {before[name]} | {value} |" for name, value in after.items()))


if __name__ == "__main__":
    main()
