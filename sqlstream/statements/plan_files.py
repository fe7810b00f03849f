"""COMPILE PLAN and EXECUTE PLAN: a statement with all definitions that it needs, as JSON in a file.

The file holds the statement and the definitions as SQL, which every later version reads, and the plan as this version
makes it, to be looked at. EXECUTE PLAN plans the statement anew: what has changed in the catalog since has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlstream.batch import Batch, chosen, set_of_streams
from sqlstream.catalogs.declaring import create_table
from sqlstream.catalogs.functions import function_statement
from sqlstream.connectors.secrets import masked, without_secrets
from sqlstream.errors import BindError, Span, SqlStreamError, UnsupportedError
from sqlstream.grammar import format_script, nodes, parse_script, to_sql
from sqlstream.planner.catalog import Function, FunctionKind, Table, View
from sqlstream.planner.explain import to_json
from sqlstream.plans import Root
from sqlstream.statements.definitions import define
from sqlstream.statements.materialized_views import refuse_writing
from sqlstream.statements.replacing_rows import chosen_to_overwrite
from sqlstream.version import __version__
from sqlstream.workspace import Workspace

EXISTS = "SS371"
NO_PLAN = "SS372"
SECRET = "SS373"
VERSION = 1
FORCE = "table.plan.force-recompile"

Compiled = nodes.Insert | nodes.StatementSet
_NAME = re.compile(r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*")
_PREFIXES = ("table.", "pipeline.operator-chaining", "sqlstream.functions.")


def planned(statement: Compiled | nodes.Query, workspace: Workspace) -> Root | Batch:
    """What the statement runs as. SqlStreamError with all that is wrong."""
    if not isinstance(statement, nodes.Query):
        refuse_writing(_targets(statement, workspace), statement)
    if isinstance(statement, nodes.StatementSet):
        return set_of_streams(statement, workspace)
    if isinstance(statement, nodes.Insert) and statement.overwrite:
        return chosen_to_overwrite(statement, workspace)
    return chosen(statement, workspace)


def _targets(statement: Compiled, workspace: Workspace) -> list[Table]:
    """The tables that are written, as far as there are such."""
    inserts = statement.inserts if isinstance(statement, nodes.StatementSet) else (statement,)
    relations = (workspace.catalog.relation(str(insert.target)) for insert in inserts)
    return [relation for relation in relations if isinstance(relation, Table)]


def compile_plan(statement: nodes.CompilePlan, workspace: Workspace) -> None:
    """Writes the file. SS371 where it is there already, SS373 where a table holds a secret itself."""
    plan, file = planned(statement.statement, workspace), Path(statement.path)
    if file.exists() and not workspace.settings[FORCE]:
        if statement.if_not_exists or statement.execute:
            return
        hint = f"Write IF NOT EXISTS, remove the file, or SET '{FORCE}' = 'true'."
        raise BindError(EXISTS, f'the file "{file}" exists already', statement.span, hint=hint)
    text = json.dumps(_document(statement.statement, plan, workspace), ensure_ascii=False, indent=2)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BindError(
            NO_PLAN, f'the plan cannot be written into "{file}": {error.strerror}', statement.span
        ) from error


def compiled_plan(path: str, workspace: Workspace, span: Span | None = None) -> tuple[Compiled, Workspace]:
    """The statement of a file, and the workspace with the definitions that it was compiled with. SS372."""
    document = _read(path, span)
    scratch = workspace.copy()
    for key, value in document["settings"].items():
        scratch.settings.set(key, value)
    for text in document["definitions"]:
        _redefine(text, scratch)
    (statement,) = parse_script(document["statement"])
    if not isinstance(statement, Compiled):
        raise _no_plan(path, span, "It holds no INSERT.")
    return statement, scratch


def _document(statement: Compiled, plan: Root | Batch, workspace: Workspace) -> dict[str, Any]:
    text = to_sql(statement)
    settings = {key: value for key, value in workspace.settings.given.items() if key.startswith(_PREFIXES)}
    document = {
        "version": VERSION,
        "sqlstream": __version__,
        "statement": text,
        "definitions": list(_definitions(text, workspace, set(), statement.span)),
        "settings": settings,
    }
    return document if isinstance(plan, Batch) else {**document, "plan": to_json(without_secrets(plan))}


def _definitions(text: str, workspace: Workspace, seen: set[str], span: Span) -> Iterator[str]:
    """Those that the text names, each behind the ones that it names itself."""
    catalog = workspace.catalog
    for name in dict.fromkeys(match[0].replace("`", "") for match in _NAME.finditer(text)):
        for definition in (catalog.relation(name), catalog.function(name)):
            if definition is None or definition.name in seen:
                continue
            seen.add(definition.name)
            if isinstance(definition, View):
                yield from _definitions(to_sql(definition.query), workspace, seen, span)
            if isinstance(definition, Function) and definition.kind is FunctionKind.SQL:
                called = " ".join((definition.target, *(text for _, text in definition.defaults)))
                yield from _definitions(called, workspace, seen, span)
            yield format_script(to_sql(_statement(definition, span))).strip()


def _statement(definition: Table | View | Function, span: Span) -> nodes.Statement:
    name = nodes.Name((definition.name,))
    match definition:
        case Table():
            shown = zip(definition.options, masked(definition.options), strict=True)
            secret = next((key for (key, value), (_, text) in shown if value != text), None)
            if secret is not None:
                message = f'option "{secret}" of table "{definition.name}" holds a secret, which stands in no file'
                raise UnsupportedError(SECRET, message, span, hint="Write ${NAME}, a variable of the environment.")
            return create_table(definition)
        case View():
            return nodes.CreateView(name, definition.query, definition.columns)
    return function_statement(definition)


def _redefine(text: str, workspace: Workspace) -> None:
    """Defines what the text does in place of what has its name. A function that was registered as it is stays."""
    (statement,) = parse_script(text)
    if isinstance(statement, nodes.CreateFunction):
        registered = workspace.catalog.function(str(statement.name))
        if statement.definition is None and registered is not None and registered.target == statement.target:
            return
        statement = replace(statement, replace=True)
    else:
        assert isinstance(statement, nodes.CreateTable | nodes.CreateView), text
        existing = workspace.catalog.relation(str(statement.name))
        if existing is not None:
            kind = "VIEW" if isinstance(existing, View) else "TABLE"
            workspace.catalog.drop(kind, replace(statement.name, parts=(existing.name,)))
    define(statement, workspace, text)


def _read(path: str, span: Span | None) -> dict[str, Any]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_plan(path, span, f"It cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _no_plan(path, span, "It is no JSON.") from error
    wanted = {"statement": str, "definitions": list, "settings": dict, "version": int}
    if not isinstance(document, dict) or not all(isinstance(document.get(k), kind) for k, kind in wanted.items()):
        raise _no_plan(path, span, "It lacks what COMPILE PLAN writes.")
    if document["version"] > VERSION:
        raise _no_plan(path, span, f"A later version of sqlstream has written it, {document.get('sqlstream')}.")
    return document


def _no_plan(path: str, span: Span | None, detail: str) -> SqlStreamError:
    hint = "COMPILE PLAN 'path' FOR INSERT INTO … writes one."
    return BindError(NO_PLAN, f'"{path}" is no plan that can be executed', span, detail=detail, hint=hint)
