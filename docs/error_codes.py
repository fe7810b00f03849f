"""Collects the error codes from the places in the source that raise them, and writes them as a page.

A place is a call with a code, given as text or by the name of a constant, and a message behind it. ``…`` stands for
what a message is filled with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
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
    "SS6": ("Ordinary SQL", "Top-N, ORDER BY and LIMIT on streams, and queries over finished data."),
}


# Messages that are not spelled where they are raised.
_SPELLED_HERE = {
    "SS101": 'unexpected "…"',
    "SS381": "a text cannot be translated: … is something else in Flink or Spark",
    "SS396": "a case below SQL, for the tests of a kernel (`sqlstream test`)",
    "SS397": "a case whose Python functions are not there (`sqlstream test`)",
    "SS400": "the root cause of a failed job in Spark's own words",
    "SS401": "the event time of a row is NULL",
    "SS402": "a row that cannot be read, with its file",
    "SS403": "a NULL in a column that is NOT NULL",
    "SS411": "a Python function has raised an exception",
    "SS412": "a Python function has returned a value of the wrong type",
    "SS430": "an event time is out of range",
    "SS440": "a process function has raised an exception; the detail has the key and the row or timer",
    "SS441": "a process function has returned what is no row of its type",
    "SS442": "a process function has written a value that is not of the type of its state",
    "SS443": "timers of a process function register timers without end, after the end of the input",
    "SS444": "a process function uses a timer, a time or a clock that the class or the call does not declare",
    "SS461": "the process of a job of its own has ended, and its log does not say why",
    "SS527": "a sink is given a value that its format cannot hold",
    "SS591": "standard output cannot be written",
    "SS662": "messages that were received are gone, or a file of them is damaged",
}


Entry = dict[str, str]
"""What messages of a code say, each with the first sentence of its hint, or nothing where it has none."""


@cache
def sources() -> tuple[tuple[str, ast.Module], ...]:
    """All modules by their dotted names."""
    return tuple(_parsed())


def _parsed() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if folder == "sqlstream" else ("sqlstream", *parts))
            yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def codes_in_source() -> set[str]:
    """Every code that the source spells anywhere outside of docstrings."""
    return {
        node.value
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }


@cache
def collect() -> dict[str, Entry]:
    """Entries by code, sorted."""
    trees = list(sources())
    by_module = {name: dict(_constants(tree)) for name, tree in trees}
    collected: dict[str, Entry] = {code: {} for code in sorted(codes_in_source())}
    for name, tree in trees:
        constants = by_module[name] | dict(_imported(tree, by_module))
        texts = _assigned_texts(tree)
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            _add(collected, call, constants, texts)
    for code, message in _SPELLED_HERE.items():
        collected[code].setdefault(message, "")
    return collected


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of the module that stand for codes: ``A = "SS101"``, ``A = repeating("SS101")`` and
    ``A, B = "SS101", "SS102"``."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if spelled := _code(_declared(value), {}):
                yield name, spelled
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for name_, value in zip(names, values, strict=True):
                    if isinstance(name_, ast.Name) and (spelled := _code(_declared(value), {})):
                        yield name_.id, spelled


def _declared(value: ast.expr) -> ast.expr:
    """What is declared by ``repeating(…)``, else the value itself."""
    match value:
        case ast.Call(func=ast.Name(id="repeating"), args=[code]):
            return code
    return value


def _imported(tree: ast.Module, by_module: dict[str, dict[str, str]]) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in by_module:
            for alias in node.names:
                if alias.name in by_module[node.module]:
                    yield alias.asname or alias.name, by_module[node.module][alias.name]


def _assigned_texts(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """Texts by the name of the variable that holds them: ``message``, ``hint`` and constants such as ``_INSTALL``."""
    collected: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                collected.setdefault(name, []).append(value)
    return collected


def _add(items: dict[str, Entry], call: ast.Call, constants: dict[str, str], texts: dict[str, list[ast.expr]]) -> None:
    """What a call says under its code, if it has one: the message stands behind the code, or before it."""
    codes = [(place, code) for place, node in enumerate(call.args) if (code := _code(node, constants))]
    if not codes:
        return
    place, code = codes[0]
    near = {name: _nearest(values, call) for name, values in texts.items()}
    texts_before = _spelled(call.args[0], near) if place else []
    rest = call.args[place + 1 :]
    messages = texts_before or (_spelled(rest[0], near) if rest else [])
    hints = [k.value for k in call.keywords if k.arg == "hint"] or (rest if texts_before else rest[1:])
    if isinstance(call.func, ast.Name) and call.func.id == "Unsupported":
        messages = [f"{what} are not executed yet" for what in messages]
        hints = rest[1:2]
    spelled = [text for value in hints for text in _spelled(value, near)]
    for number, text in enumerate(messages):
        if text.strip("…"):
            hint = spelled[min(number, len(spelled) - 1)] if spelled else ""
            items[code][text] = items[code].get(text) or _first_sentence(hint)


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


def _first_sentence(text: str) -> str:
    """A hint up to its first full stop before another sentence."""
    return re.split(r"(?<=[.;]) (?=[A-Z])", text, maxsplit=1)[0]


def page() -> str:
    """The page of all codes, in Markdown: a row for each mistake, in alphabetical order under its code."""
    lines = [
        "# Error codes",
        "",
        "Generated from the source by `make docs`, a row for each mistake; `…` stands for what fills a message.",
        "A message names the objects, shows the line with carets where it knows the place, and ends with a hint,",
        "of which the table has the first sentence.",
    ]
    prefix = ""
    for code, entry in collect().items():
        if code[:3] != prefix:
            prefix = code[:3]
            title, what = _CLASSES[prefix]
            lines += ["", f"## {prefix}xx: {title}", "", what, "", "| code | mistake | hint |", "|---|---|---|"]
        lines += [f"| {code} | {_cell(message)} | {_cell(hint)} |" for message, hint in sorted(entry.items())]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
