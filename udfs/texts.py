"""Values that Python does not have: STRINGs that are not UTF-8, unpaired surrogates, invalid paths, and times beyond
the range of datetime."""

from __future__ import annotations

import json
from typing import Any

from sqlstream.errors import ConnectorError, ExecutionError, repeating

NO_TEXT = "SS585"
NO_DATETIME = repeating("SS469")
_SHOWN = 60


def is_text(text: str) -> bool:
    """True if the string can be encoded as UTF-8, that is, has no unpaired surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_text(what: str, value: str | bytes) -> ConnectorError:
    """Returns the error SS585 for a value that is not UTF-8. ``what`` names the value in the message, such as ``key
    "id"``.
    """
    shown = ascii(value[:_SHOWN])
    message = f"{what} is no Unicode text: {shown}{'…' if len(value) > _SHOWN else ''}"
    return ConnectorError(NO_TEXT, message, hint="Correct the value where it comes from, or leave such rows out.")


def python_list(rows: Any, what: str, **options: Any) -> list[Any]:
    """Converts an Arrow array or table to Python values (``to_pylist``, which gets ``options``). Errors name it by
    ``what``, such as "a value".

    Raises ConnectorError SS585 if a STRING is not UTF-8, ExecutionError SS469 for a time outside of the years 1 to
    9999, which Python's datetime does not support.
    """
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
    """Why a path cannot be used, from the exception of the operating system, without the path itself, which may be very
    long.
    """
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def json_of(text: str | bytes) -> Any:
    """Parses a JSON text that was written by another program. Raises ValueError if it is not JSON, is nested too deeply
    for Python's parser, or has longer numbers than Python reads.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def one_line(error: Exception) -> str:
    """The message of an error without line feeds."""
    return " ".join(str(error).split())
