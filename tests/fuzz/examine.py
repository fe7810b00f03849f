"""What must hold for every text whatsoever.

Parsing, checking, planning, explaining and formatting raise ``SqlStreamError`` or nothing. What is printed parses to
the same tree, the format of a formatted text is that text, and the JSON of a plan loads to an equal plan.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import expected_after, format_script, parse_script, parse_script_recovering, to_sql
from sqlstream.grammar import nodes as n
from sqlstream.planner.explain import PLANNER_STAGES, explain, formats_of, from_json, to_json
from sqlstream.planner.node import Node
from sqlstream.planner.rules import optimize
from sqlstream.plans import RULES, bound_plan
from sqlstream.statements.checking import check_script
from sqlstream.statements.registry import define, is_definition
from sqlstream.workspace import Workspace

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """``kind`` says how far a text came: the code of its first mistake, or what it is. ``findings`` is what is wrong
    with us: a group of like findings, and the details of this one."""

    kind: str
    findings: tuple[tuple[str, str], ...] = ()


class _Broken(Exception):
    """Something that must hold does not."""


def examine(text: str, workspace: Workspace) -> Outcome:
    """Put the text through everything that needs no engine."""
    try:
        statements, errors = parse_script_recovering(text)
    except Exception as error:  # any exception is what is looked for
        return Outcome("finding", (_finding("parse", error),))
    steps: list[tuple[str, Callable[[], object]]] = [
        ("completion", lambda: expected_after(text)),
        ("check", lambda: check_script(text, workspace)),
    ]
    findings = [actual for step, run in steps if (actual := _attempt(step, run)) is not None]
    findings += [] if errors else examine_syntax(text, statements)
    scratch = workspace.copy()
    for statement in statements:
        findings += _plans(statement, scratch, text)
    kind = "finding" if findings else errors[0].code if errors else _kind(text, workspace)
    return Outcome(kind, tuple(dict(findings).items()))


def examine_syntax(text: str, statements: tuple[n.Statement, ...]) -> list[tuple[str, str]]:
    """What is wrong with what a text without mistakes prints and formats as."""
    steps: list[tuple[str, Callable[[], object]]] = [
        ("print", lambda: _print(statements)),
        ("format", lambda: _format(text, statements)),
    ]
    return [actual for step, run in steps if (actual := _attempt(step, run)) is not None]


def _kind(text: str, workspace: Workspace) -> str:
    wrong = check_script(text, workspace)
    return wrong[0].code if wrong else "right"


def _attempt(step: str, run: Callable[[], object]) -> tuple[str, str] | None:
    try:
        run()
    except SqlStreamError as error:
        return None if step in ("check", "plan") else (f"{step}: refused with {error.code}", str(error))
    except Exception as error:
        return _finding(step, error)
    return None


def _finding(step: str, error: Exception) -> tuple[str, str]:
    if isinstance(error, _Broken):
        return f"{step}: {error.args[0]}", str(error.args[1])
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if _ROOT in Path(f.filename).resolve().parents and ".venv" not in f.filename]
    place = f"{Path(ours[-1].filename).resolve().relative_to(_ROOT)}, {ours[-1].name}" if ours else "?"
    return f"{step}: {type(error).__name__} in {place}", "".join(traceback.format_exception(error))


# --- print and format -----------------------------------------------------------------------------------------


def _print(statements: tuple[n.Statement, ...]) -> None:
    for statement in statements:
        printed = to_sql(statement)
        _require_same("printed text", (statement,), printed)


def _format(text: str, statements: tuple[n.Statement, ...]) -> None:
    formatted = format_script(text)
    _require_same("formatted text", statements, formatted)
    again = format_script(formatted)
    if again != formatted:
        raise _Broken("formatted again it changes", f"{formatted}\n--- becomes\n{again}")


def _require_same(what: str, statements: tuple[n.Statement, ...], printed: str) -> None:
    try:
        back = parse_script(printed)
    except SqlStreamError as error:
        raise _Broken(f"{what} does not parse, {error.code} {error.diagnostic.message}"[:90], printed) from None
    if back != statements:
        raise _Broken(f"{what} means something else, {_difference(statements, back)}", printed)


def _difference(one: object, two: object) -> str:
    """Kinds of the first nodes that differ."""
    for left, right in zip(_leaves(one), _leaves(two), strict=False):
        if left != right:
            return f"{_named(left)} for {_named(right)}"
    return "it is longer or shorter"


def _leaves(value: object) -> Iterator[object]:
    """Everything inside, depth first; names of types stand for the inner nodes."""
    if isinstance(value, exp.Expr):
        yield type(value).__name__
        for key, inner in value.args.items():
            if inner is not None and inner is not False and inner != []:
                yield f".{key}"
                yield from _leaves(inner)
    elif isinstance(value, n.Node):
        yield type(value).__name__
        for inner in vars(value).values():
            if inner is not value.span:
                yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield ("value", value)


def _named(leaf: object) -> str:
    return "a value" if isinstance(leaf, tuple) else str(leaf)


# --- plans ----------------------------------------------------------------------------------------------------


def _plans(statement: n.Statement, workspace: Workspace, text: str) -> list[tuple[str, str]]:
    """Definitions change the workspace; of the others the plans are looked at."""
    if isinstance(statement, n.Explain):
        statement = statement.statement
    if isinstance(statement, n.CreateTable) and statement.query is not None:
        statement = n.Query(statement.query)
    if isinstance(statement, n.Query | n.Insert | n.StatementSet):
        planned = statement
        collected = [_attempt("plan", lambda: _plan(planned, workspace))]
    elif is_definition(statement):
        defined = statement
        skipped = isinstance(statement, n.Set) and statement.key is None
        collected = [] if skipped else [_attempt("plan", lambda: define(defined, workspace, text))]
    else:
        collected = []
    return [f for f in collected if f is not None]


def _plan(statement: n.Query | n.Insert | n.StatementSet, workspace: Workspace) -> None:
    bound = bound_plan(statement, workspace)
    optimized = optimize(bound, RULES)
    for what, plan in (("bound", bound), ("optimized", optimized)):
        _require_loaded(what, plan)
    for stage in PLANNER_STAGES:
        for layout in formats_of(stage):
            explain(bound, layout, stage, RULES)


def _require_loaded(what: str, plan: Node) -> None:
    document = json.dumps(to_json(plan))
    try:
        back = from_json(document)
    except Exception as error:
        raise _Broken(
            f"JSON of the {what} plan does not load, {type(error).__name__}", f"{error}\n{document}"
        ) from error
    if back != plan:
        raise _Broken(f"JSON of the {what} plan loads to another plan", document)
