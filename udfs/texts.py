"""Texts that are none: bytes of a STRING that are no UTF-8, halves of pairs of surrogates, paths that are no paths."""

from __future__ import annotations

from typing import Any

from sqlstream.errors import ConnectorError

NO_TEXT = "SS585"
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


def python_list(rows: Any, what: str) -> list[Any]:
    """``to_pylist`` of Arrow. ConnectorError SS585, which says ``what``, where a STRING is no UTF-8."""
    try:
        found: list[Any] = rows.to_pylist()
    except UnicodeDecodeError as error:
        raise no_text(what, error.object) from None
    return found


def reason_of(error: Exception) -> str:
    """Why a path cannot be used, without the path, which may be as long as a page."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
