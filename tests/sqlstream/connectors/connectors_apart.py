"""Connectors of packages that are not installed, for tests of their modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sqlstream.connectors as connectors
from sqlstream.secrets.options import show_values_of

EXAMPLES = Path(__file__).parents[3] / "examples"


def register(monkeypatch: pytest.MonkeyPatch, name: str, class_name: str, text: str | Path) -> ModuleType:
    """Makes a connector known, as an entry point of a package does. ``text``: that of its module, or its path."""
    path = text if isinstance(text, Path) else None
    module_name = path.stem if path is not None else f"{name}_of_a_test"
    if path is not None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module_name, module)
        spec.loader.exec_module(module)
    else:
        module = ModuleType(module_name)
        monkeypatch.setitem(sys.modules, module_name, module)
        exec(str(text), module.__dict__)
    kind, find = module.__dict__[class_name](), connectors.find_connector
    assert kind.name == name
    show_values_of(option.key for option in kind.options if option.shown)
    monkeypatch.setattr(connectors, "find_connector", lambda wanted: kind if wanted == name else find(wanted))
    return module
