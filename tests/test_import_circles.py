"""Circles of imports stay small: what is only understood together is two or three files, not half the product."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("grammar", "planner", "udfs")
MOST_FILES = 3


def _modules() -> dict[str, Path]:
    """All modules of the product by the names they are imported by; rglob does not follow the links in sqlstream/."""
    paths = (path for folder in ("sqlstream", *ROOMS) for path in (ROOT / folder).rglob("*.py"))
    return {_name(path): path for path in paths}


def _name(path: Path) -> str:
    first, *rest = path.relative_to(ROOT).with_suffix("").parts
    parts = ["sqlstream", first, *rest] if first in ROOMS else [first, *rest]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(source: str) -> Iterator[str]:
    """What a module imports anywhere: at its top, inside functions and for types alone."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _edges(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each one imports. A name that is no module stands for the module it is in."""

    def module_of(name: str) -> str:
        while name and name not in sources:
            name = name.rpartition(".")[0]
        return name

    return {name: {module_of(n) for n in _imported(source)} - {name, ""} for name, source in sources.items()}


def circles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module, the largest first (Tarjan's algorithm)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    collected: list[set[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in edges[module]:
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == numbers[module]:
            place = stack.index(module)
            collected.append(set(stack[place:]))
            del stack[place:]

    for module in edges:
        if module not in numbers:
            visit(module)
    return sorted((circle for circle in collected if len(circle) > 1), key=len, reverse=True)


def test_no_circle_of_imports_has_more_than_three_files():
    sources = {name: path.read_text(encoding="utf-8") for name, path in _modules().items()}
    large = [sorted(circle) for circle in circles(_edges(sources)) if len(circle) > MOST_FILES]
    assert not large


def test_imports_in_functions_and_for_types_count():
    sources = {
        "a": "def f():\n    from b import g",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import c.d",
        "c.d": "from a import f",
        "e": "import a",
    }
    assert circles(_edges(sources)) == [{"a", "b", "c.d"}]
