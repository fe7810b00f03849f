"""Error messages for outside systems that do not answer as they should: table, key, cause and advice."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.errors import ConnectorError
from sqlstream.udfs.lookup.source import Key, Request
from sqlstream.udfs.texts import is_text, no_text

NO_EQUALITY = "SS570"
WRONG_ANSWER = "SS573"
UNREADABLE = "SS576"
NO_PACKAGE = "SS577"

_SHOWN_KEYS = 3
_SHOWN_BODY = 200


def keys_text(request: Request, keys: Sequence[Key]) -> str:
    """``key (carrier = AA)``, or the first of several keys."""
    names = [name for name, _ in request.keys]
    texts = [", ".join(f"{n} = {v}" for n, v in zip(names, key, strict=True)) for key in keys[:_SHOWN_KEYS]]
    listed = ", ".join(f"({text})" for text in texts)
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    return f"{'key' if len(keys) == 1 else 'keys'} {listed}{more}"


def require_texts(table: str, request: Request, keys: Sequence[Key]) -> None:
    """ConnectorError SS585 where a key holds half a pair of surrogates, which no system outside takes as a text."""
    for key in keys:
        for (name, _), value in zip(request.keys, key, strict=True):
            if isinstance(value, str) and not is_text(value):
                raise no_text(f'key "{name}" of table "{table}"', value)


def beginning(text: str) -> str:
    """The first characters of an answer, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_BODY else f"{line[:_SHOWN_BODY]}…"


def wrong_answer(table: str, column: str, keys: str, cause: str) -> ConnectorError:
    """A value of an answer that is none of its column."""
    message = f'column "{column}" of table "{table}" cannot be read for {keys}: {cause}'
    return ConnectorError(WRONG_ANSWER, message, hint="Correct the value where it is kept, or the type of the column.")


def no_equality(table: str, column: str, what: str) -> ConnectorError:
    """A lookup whose keys do not say what the request is made of."""
    message = f'lookup of table "{table}" has no equality on column "{column}", which its {what} is made of'
    return ConnectorError(NO_EQUALITY, message, hint=f'Add "{column}" = … to ON.')


def no_package(connector: str, package: str) -> ConnectorError:
    message = f'connector "{connector}" needs the Python package "{package}", which is not installed'
    return ConnectorError(NO_PACKAGE, message, hint=f"pip install 'sqlstream[{connector}]'")
