"""Secrets in the options of tables: kept in the environment, and never shown.

A value may hold ``${NAME}``, the environment variable of that name. The driver looks it up when a job starts, so that
neither the catalog nor a plan knows the secret. A secret that is written in the statement itself is masked wherever
options are shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import Node
from sqlstream.types import DataType

NO_VARIABLE = "SS560"
MASK = "******"

_REFERENCE = re.compile(r"\$\{(\w+)\}")
_SECRET_KEY = re.compile(r"password|passwd|secret|token|authorization|api[-_.]?key|credential|jaas", re.IGNORECASE)
_OF_URL = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]*)@")
_OF_QUERY = re.compile(r"(?<=[?&])([\w.-]*(?:password|secret|token|api[-_.]?key)[\w.-]*)=([^&\s]*)", re.IGNORECASE)


def resolved(values: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The values with ``${NAME}`` replaced by environment variables; ConnectorError SS560 where one is not set."""
    variables = os.environ if environment is None else environment
    return {k: _replaced(k, v, variables) if isinstance(v, str) else v for k, v in values.items()}


def _replaced(key: str, text: str, variables: Mapping[str, str]) -> str:
    def of(reference: re.Match[str]) -> str:
        found = variables.get(reference[1])
        if found is None:
            message = f'environment variable "{reference[1]}" of option "{key}" is not set'
            hint = f"Set it where the job is started: export {reference[1]}=…"
            raise ConnectorError(NO_VARIABLE, message, hint=hint)
        return found

    return _REFERENCE.sub(of, text)


def masked(options: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Options as they may be shown: what is secret is ``******``, references to variables stay."""
    return tuple((key, _masked(key, value)) for key, value in options)


def _masked(key: str, value: str) -> str:
    if _SECRET_KEY.search(key):
        return value if _is_reference(value) else MASK
    shown = _OF_URL.sub(lambda m: m[0] if _is_reference(m[2]) else f"{m[1]}:{MASK}@", value)
    return _OF_QUERY.sub(lambda m: m[0] if _is_reference(m[2]) else f"{m[1]}={MASK}", shown)


def _is_reference(value: str) -> bool:
    """``Bearer ${TOKEN}`` tells no secret either."""
    return bool(_REFERENCE.search(value)) and len(_REFERENCE.sub("", value).split()) <= 1


def without_secrets(plan: Node) -> Node:
    """The plan with the options of its tables as they may be shown."""
    found = _shown(plan)
    assert isinstance(found, Node)
    return found


def _shown(value: Any) -> Any:
    if isinstance(value, Table):
        return replace(value, options=masked(value.options))
    if isinstance(value, tuple):
        return tuple(_shown(item) for item in value)
    if isinstance(value, DataType | Enum) or not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {f.name: _shown(getattr(value, f.name)) for f in fields(value) if f.init}
    return replace(value, **changed)
