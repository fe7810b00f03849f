"""Collects the error codes from the places in the source that raise them, and writes them as a page.

A place is a call with a code, given as text or by the name of a constant, and a message behind it. ``…`` stands for
what a message is filled with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("grammar", "planner", "udfs", "sqlstream")
CODE = re.compile(r"SS\d{3}")

_CLASSES = {
    "SS1": ("Parse", "The text is not a statement of the dialect."),
    "SS2": ("Bind", "Names, types and legality."),
    "SS3": ("Unsupported", "A part of the dialect, or of Flink's, that is not executed. Nothing is ever ignored."),
    "SS4": ("Execution", "A job failed while it ran, or could not start."),
    "SS5": ("Connector", "Tables, options and settings."),
}


@dataclass
class Entry:
    """Messages and hints under one code, in the order of the source, without repetition."""

    messages: dict[str, None] = field(default_factory=dict)
    hints: dict[str, None] = field(default_factory=dict)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def codes_in_source() -> set[str]:
    """Every code that the source spells anywhere outside of docstrings."""
    return {
        node.value
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }


def collect() -> dict[str, Entry]:
    """Entries by code, sorted."""
    trees = list(sources())
    constants = {name: code for _, tree in trees for name, code in _constants(tree)}
    found = {code: Entry() for code in sorted(codes_in_source())}
    for _, tree in trees:
        texts = _assigned_texts(tree)
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            _add(found, call, constants, texts)
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(code))) if CODE.fullmatch(code):
                yield name, code


def _assigned_texts(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """Texts by the name of the variable that holds them: ``message``, ``hint`` and constants such as ``_INSTALL``."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
    return found


def _add(found: dict[str, Entry], call: ast.Call, constants: dict[str, str], texts: dict[str, list[ast.expr]]) -> None:
    for place, argument in enumerate(call.args[:-1]):
        code = _code(argument, constants)
        if code is None:
            continue
        near = {name: _nearest(values, call) for name, values in texts.items()}
        entry = found[code]
        for message in _spelled(call.args[place + 1], near):
            is_table_entry = isinstance(call.func, ast.Name) and call.func.id == "Unsupported"
            entry.messages[f"{message} are not executed yet" if is_table_entry else message] = None
        hints = [k.value for k in call.keywords if k.arg == "hint"]
        hints += [call.args[place + 2]] if len(call.args) > place + 2 and not hints else []
        for hint in (text for value in hints for text in _spelled(value, near)):
            entry.hints[hint] = None
        return


def _code(node: ast.expr, constants: dict[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str(text)) if CODE.fullmatch(text):
            return text
        case ast.Name(id=name):
            return constants.get(name)
    return None


def _nearest(values: list[ast.expr], call: ast.Call) -> ast.expr | None:
    """The last assignment before the call."""
    return max((v for v in values if v.lineno <= call.lineno), key=lambda v: v.lineno, default=None)


def _spelled(node: ast.expr, near: dict[str, ast.expr | None]) -> list[str]:
    """The texts that an expression may be."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in parts)]
        case ast.IfExp(body=one, orelse=other):
            return _spelled(one, near) + _spelled(other, near)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in _spelled(left, near) or ["…"] for b in _spelled(right, near) or ["…"]]
        case ast.Name(id=name):
            value = near.get(name)
            return _spelled(value, {**near, name: None}) if value is not None else []
    return []


def page() -> str:
    """The page of all codes, in Markdown."""
    lines = [
        "# Error codes",
        "",
        "Generated from the source by `make docs`; `…` stands for what a message is filled with.",
        "A message names the objects, shows the line with carets where it knows the place, and ends with a hint.",
    ]
    prefix = ""
    for code, entry in collect().items():
        if code[:3] != prefix:
            prefix = code[:3]
            title, what = _CLASSES[prefix]
            lines += ["", f"## {prefix}xx: {title}", "", what, "", "| code | message | hint |", "|---|---|---|"]
        lines.append(f"| {code} | {_cell(entry.messages)} | {_cell(entry.hints)} |")
    return "\n".join(lines) + "\n"


def _cell(texts: dict[str, None]) -> str:
    return "<br>".join(text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for text in texts)
