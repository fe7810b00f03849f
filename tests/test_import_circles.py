"""Circles of imports stay small: what is only understood together is two or three files, not half the product."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tests.import_graph import import_edges, imported_names, module_name, product_files

MOST_FILES = 3


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
    sources = {module_name(path): path.read_text(encoding="utf-8") for path in product_files()}
    large = [sorted(circle) for circle in circles(import_edges(sources)) if len(circle) > MOST_FILES]
    assert not large


def test_imports_in_functions_and_for_types_count():
    sources = {
        "a": "def f():\n    from b import g",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import c.d",
        "c.d": "from a import f",
        "e": "import a",
    }
    assert circles(import_edges(sources)) == [{"a", "b", "c.d"}]


def test_imports_by_text_count():
    sources = {
        "a": "from importlib import import_module\ndef f():\n    return import_module('b.c').g",
        "b": "def __getattr__(name):\n    return importlib.import_module(f'{__name__}.{name}')",
        "b.c": "from d import table",
        "d": "table = {'x': 'a'}\ndef f(name):\n    return __import__(table[name])",
        "e": "for m in pkgutil.iter_modules(__path__):\n    import_module(m.name)",
        "e.f": "import e",
    }
    assert circles(import_edges(sources)) == [{"a", "b.c", "d"}, {"e", "e.f"}]


def test_a_name_of_a_lazy_package_stands_for_its_home():
    sources = {
        "a": "_HOMES = {'f': 'b', 'g': 'c'}\ndef __getattr__(name):\n    return import_module(_HOMES[name])",
        "b": "from a import g",
        "c": "",
    }
    assert import_edges(sources) == {"a": {"b", "c"}, "b": {"c"}, "c": set()}


def test_what_a_text_may_name_begins_as_it_does():
    tree = ast.parse("import_module(f'a.{name}').g")
    assert list(imported_names(tree, "z", ["a", "a.b", "a.c", "ab"])) == ["a.b", "a.c"]
