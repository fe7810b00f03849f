"""Which modules of the product import which: by statements anywhere in a module, and by names given as text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("grammar", "planner", "udfs")


def product_files() -> list[Path]:
    """The files of the product; rglob does not follow the links in ``sqlstream/``, so each is listed once."""
    return sorted(path for folder in ("sqlstream", *ROOMS) for path in (ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    """The name that a file is imported by."""
    first, *rest = path.relative_to(ROOT).with_suffix("").parts
    parts = ["sqlstream", first, *rest] if first in ROOMS else [first, *rest]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree: ast.Module, module: str, modules: Iterable[str]) -> Iterator[str]:
    """Full names of everything that ``module`` imports: at its top, inside functions, for types and by text.

    ``modules`` are all names of modules that a text may mean.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            yield from _named_by_text(node.args[0], tree, module, modules)
        elif isinstance(node, ast.Call) and _called(node) in ("iter_modules", "walk_packages"):
            yield from (name for name in modules if name.startswith(f"{module}."))


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _named_by_text(argument: ast.expr, tree: ast.Module, module: str, modules: Iterable[str]) -> Iterator[str]:
    """What ``import_module(argument)`` may import: the text itself, for ``f"{__name__}.{…}"`` everything with that
    beginning, and for any other expression every text of the module that names a module."""
    match argument:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            beginning = _beginning(parts, module)
            yield from (name for name in modules if beginning and name.startswith(beginning))
        case _:
            texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
            yield from (name for name in modules if name in texts)


def _beginning(parts: list[ast.expr], module: str) -> str:
    """The constant beginning of an f-string, in which ``__name__`` is the name of the module."""
    known = ""
    for part in parts:
        match part:
            case ast.Constant(value=str(text)):
                known += text
            case ast.FormattedValue(value=ast.Name(id="__name__")):
                known += module
            case _:
                break
    return known


def lazy_homes(tree: ast.Module) -> dict[str, str]:
    """The table ``_HOMES`` of a package that imports its names when they are asked for: the module of each name."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="_HOMES")], value=ast.Dict() as table):
                return dict(ast.literal_eval(table))
    return {}


def import_edges(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports, of ``sources`` by their names.

    A name that is no module stands for the module that it is in; a name of a lazy package for its home.
    """
    trees = {name: ast.parse(source) for name, source in sources.items()}
    homes = {f"{module}.{name}": home for module, tree in trees.items() for name, home in lazy_homes(tree).items()}

    def module_of(name: str) -> str:
        name = homes.get(name, name)
        while name and name not in sources:
            name = name.rpartition(".")[0]
        return name

    return {
        name: {module_of(imported) for imported in imported_names(tree, name, sources)} - {name, ""}
        for name, tree in trees.items()
    }
