"""Definitions that are written down name their secrets, and do not hold them."""

from __future__ import annotations

from sqlstream.catalogs.store import Database, Stored
from sqlstream.errors import ConnectorError, Span
from sqlstream.grammar import nodes
from sqlstream.secrets import has_secret_name, secret_texts

SECRET = "SS533"


def refuse_secrets(stored: Stored) -> None:
    """ConnectorError SS533 where an option of a table or a materialized view holds a secret."""
    if isinstance(stored.statement, nodes.CreateTable | nodes.CreateMaterializedView):
        for option in stored.statement.options:
            if secret_texts(option.key, option.value):
                raise _secret(option.key, f'table "{stored.name}"', option.span)


def refuse_secrets_of(database: Database) -> None:
    """The same for a database, whose options may be called anything."""
    for key, value in database.options.items():
        if has_secret_name(key) and secret_texts(key, value):
            raise _secret(key, f'database "{database.name}"', None)


def _secret(key: str, owner: str, span: Span | None) -> ConnectorError:
    message = f'option "{key}" of {owner} holds a secret, which the catalog would write down'
    hint = f"Write '{key}' = '${{NAME}}' and set the environment variable NAME, or give --env-file."
    return ConnectorError(SECRET, message, span, hint=hint)
