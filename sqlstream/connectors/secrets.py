"""Secrets of tables: stored in the environment, looked up when a job starts, and never shown.

A value may hold ``${NAME}``, the environment variable of that name. The driver looks it up when a job starts, so
neither the catalog nor a plan contains the secret. ``sqlstream.secrets`` decides which parts of a value that is written
in the statement are secret, and how they are shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from operator import is_
from typing import Any

from sqlstream.errors import ConnectorError, Span
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.secrets import REFERENCE, Secrets, secret_texts, shown_value
from sqlstream.secrets.urls import PLACEHOLDER
from sqlstream.types import DataType

NO_VARIABLE = "SS560"


def resolved(
    values: Mapping[str, Any], environment: Mapping[str, str] | None = None, span: Span | None = None
) -> dict[str, Any]:
    """Returns the options with each ``${NAME}`` replaced by an environment variable. Raises ConnectorError SS560 if
    one is not set.

    ``environment``: the variables; by default those of this process. ``span``: the place in the SQL text for the
    error.
    """
    variables = os.environ if environment is None else environment
    return {k: _replaced(k, v, variables, span) if isinstance(v, str) else v for k, v in values.items()}


def _replaced(key: str, text: str, variables: Mapping[str, str], span: Span | None) -> str:
    for name in REFERENCE.findall(text):
        if name not in variables:
            message = f'environment variable "{name}" of option "{key}" is not set'
            hint = f"Set it where the job is started: export {name}=…, or give the command a file with --env-file."
            raise ConnectorError(NO_VARIABLE, message, span, hint=hint)
    return _known(text, variables)


def _known(text: str, variables: Mapping[str, str]) -> str:
    return REFERENCE.sub(lambda reference: variables.get(reference[1], reference[0]), text)


# --- what is shown --------------------------------------------------------------------------------------------


def masked(options: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns the options for display, with secret values shown as ``******``. References such as ``${NAME}`` are not
    replaced.
    """
    return tuple((key, shown_value(key, value)) for key, value in options)


def without_secrets(plan: Node) -> Node:
    """Returns the plan with secret option values of its tables shown as ``******``."""
    shown = _shown(plan)
    assert isinstance(shown, Node)
    return shown


def _shown(value: Any) -> Any:
    """The value without secrets; the same object if it has none, so that caches by identity stay valid."""
    if isinstance(value, Table):
        shown = masked(value.options)
        return value if shown == value.options else replace(value, options=shown)
    if isinstance(value, tuple):
        items = tuple(_shown(item) for item in value)
        return value if all(map(is_, items, value)) else items
    if not _has_parts(value):
        return value
    parts = ((f.name, getattr(value, f.name)) for f in fields(value) if f.init)
    changed = {name: shown for name, part in parts if (shown := _shown(part)) is not part}
    return replace(value, **changed) if changed else value


def _has_parts(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, DataType | Enum | type)


# --- what is hidden -------------------------------------------------------------------------------------------


def secrets_of(*tables: Table, environment: Mapping[str, str] | None = None) -> Secrets:
    """Returns all texts that must not appear in messages: secret option values of the tables, and values of the
    environment variables that options refer to.
    """
    variables = os.environ if environment is None else environment
    return Secrets.of(text for table in tables for text in _secrets(dict(table.options), variables))


def variables_of(texts: Iterable[str], environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Returns the values of the environment variables that the texts refer to as ``${NAME}``, as far as they are
    set.
    """
    variables = os.environ if environment is None else environment
    return (variables[name] for text in texts for name in REFERENCE.findall(text) if name in variables)


def _secrets(options: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[str]:
    for key, value in options.items():
        names = REFERENCE.findall(value)
        yield from variables_of([value], variables)
        for text in (*secret_texts(key, value), *(secret_texts(key, _known(value, variables)) if names else ())):
            yield _known(text, variables)
            yield from filter(None, map(str.strip, PLACEHOLDER.split(text)))
    yield from (_known(pair, variables) for pair in _pairs(options))


def _pairs(options: Mapping[str, str]) -> Iterator[str]:
    """``user:password``, which basic authentication sends in Base64."""
    for prefix in ("", "auth."):
        if (password := options.get(f"{prefix}password")) is not None:
            yield f"{options.get(f'{prefix}username', '')}:{password}"


def secrets_of_plan(plan: Node) -> Secrets:
    """Returns what ``secrets_of`` returns, for all tables of a plan."""
    return secrets_of(*_tables(plan))


def _tables(value: Any) -> Iterator[Table]:
    if isinstance(value, Table):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _tables(item)
    elif _has_parts(value):
        for field in fields(value):
            yield from _tables(getattr(value, field.name))
