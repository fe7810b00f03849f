"""Names and strings as text: backticks where a plain name would not read back as itself."""

from __future__ import annotations

import re
from functools import cache

from sqlglot import Dialect, exp

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote_name(name: str) -> str:
    """The name as SQL: in backticks if it has special characters or is a keyword of the language, else unchanged."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in _words()
    return name if plain else "`" + name.replace("`", "``") + "`"


def quote_dotted(name: str) -> str:
    """A dotted name with its parts quoted where necessary."""
    return ".".join(quote_name(name_part) for name_part in name.split("."))


def quote_string(text: str) -> str:
    """The text as a string literal of Spark."""
    return exp.Literal.string(text).sql(dialect="sqlstream")


@cache
def _words() -> frozenset[str]:
    """What sqlglot or the grammar would not read as a name everywhere."""
    dialect = Dialect.get_or_raise("sqlstream")  # by its name, because the dialect prints with what is here
    names = dialect.parser_class.ID_VAR_TOKENS
    reserved = {word for word, token in dialect.tokenizer_class.KEYWORDS.items() if token not in names}
    return frozenset(reserved | {"CASE", "CONSTRAINT", "DESCRIPTOR", "IN", "INTERVAL", "IS", "PRIMARY", "WATERMARK"})
