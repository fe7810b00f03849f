"""The addresses of servers that receivers connect to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlstream.connectors.http import without_references
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import WRONG_VALUE
from sqlstream.planner.catalog import Table
from sqlstream.secrets import is_clear

_PRINTABLE = r"[/?#]?[!-~]*"


def check_url(table: Table, spans: Mapping[str, Span], schemes: tuple[str, ...]) -> Iterable[Diagnostic]:
    """SS504 where the option ``url`` is no URL of one of the schemes, such as ``wss``."""
    text = table.option("url") or ""
    plain = without_references(text)
    if text.startswith("${"):  # its scheme is known when the job starts
        plain = plain.replace("http:", f"{schemes[0]}:", 1)
    if not _is_url(plain, schemes):
        message = f'option "url" of table "{table.name}" is no URL'
        yield Diagnostic(WRONG_VALUE, message, spans.get("url"), hint=_hint(schemes))


def require_url(url: str, schemes: tuple[str, ...]) -> str:
    """Returns the URL, with secrets filled in. ConnectorError SS504 where it is none."""
    if not _is_url(url, schemes) or not is_clear(url):
        raise ConnectorError(WRONG_VALUE, 'option "url" is no URL', hint=_hint(schemes))
    return url


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    pattern = rf"({'|'.join(schemes)})://[^/?#\s]+{_PRINTABLE}"
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _hint(schemes: tuple[str, ...]) -> str:
    return f"Write it as '{schemes[-1]}://host/path', percent-encoded."
