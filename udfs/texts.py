"""Values that Python does not have: STRINGs that are no UTF-8, halves of pairs of surrogates, paths that are no paths,
times beyond its datetime."""

from __future__ import annotations

import json
from typing import Any

from sqlstream.errors import ConnectorError, ExecutionError, repeating

NO_TEXT = "SS585"
NO_DATETIME = repeating("SS469")
_SHOWN = 60


def is_text(text: str) -> bool:
    """False for what no UTF-8 spells."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_text(what: str, value: str | bytes) -> ConnectorError:
    shown = ascii(value[:_SHOWN])
    message = f"{what} is no Unicode text: {shown}{'…' if len(value) > _SHOWN else ''}"
    return ConnectorError(NO_TEXT, message, hint="Correct the value where it comes from, or leave such rows out.")


def python_list(rows: Any, what: str, **options: Any) -> list[Any]:
    """``to_pylist`` of Arrow. The errors say ``what``: ConnectorError SS585 where a STRING is no UTF-8, ExecutionError
    SS469 where a time is beyond those of Python's datetime, which has the years 1 to 9999."""
    try:
        values: list[Any] = rows.to_pylist(**options)
    except UnicodeDecodeError as error:
        raise no_text(what, error.object) from None
    except OverflowError:
        message = f"{what} is a time beyond the years 1 to 9999, which Python's datetime does not have"
        hint = "Write CAST(… AS STRING) in the query, or filter such times out."
        raise ExecutionError(NO_DATETIME, message, hint=hint) from None
    return values


def reason_of(error: Exception) -> str:
    """Why a path cannot be used, without the path, which may be as long as a page."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def json_of(text: str | bytes) -> Any:
    """What a text from outside says. ValueError also where it is nested more deeply than Python reads, or writes
    numbers of more digits."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
