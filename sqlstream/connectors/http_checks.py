"""Checks of the options of a table with the connector ``http``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from sqlstream.connectors.json_columns import check_columns, check_names
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import WRONG_VALUE, OptionKind
from sqlstream.planner.catalog import Table
from sqlstream.secrets import is_clear
from sqlstream.udfs.lookup.sources.http import KEYS
from sqlstream.udfs.lookup.sources.scalars import SCALARS, Template, parse_json_template, parse_template

_ADDRESS = re.compile(r"https?://[^/?#\s]+([/?].*)?", re.IGNORECASE)
_PRINTABLE = re.compile(r"[!-~]*")
_REFERENCE = re.compile(r"\$\{\w+\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_URL_HINT = "Write it as 'https://host/planes/{tailnum}', percent-encoded; columns stand behind the host."


def _statuses(text: str) -> tuple[int, ...]:
    statuses = tuple(int(word) for word in text.split(",") if word.strip())
    if not all(100 <= status <= 599 for status in statuses):
        raise ValueError(text)
    return statuses


STATUSES = OptionKind("list", "HTTP statuses with commas, such as '404,204', or none", _statuses)


def require_address(template: Template, key: str) -> None:
    """ConnectorError SS504 where a template with its secrets put in is no URL; the message shows none."""
    if not is_address(template) or not is_clear("".join(p if isinstance(p, str) else "{x}" for p in template.parts)):
        raise ConnectorError(WRONG_VALUE, f'option "{key}" is no URL', hint=_URL_HINT)


def is_address(template: Template) -> bool:
    """True where the host is fixed: a value never chooses whom to ask."""
    fixed = "".join(text for text in template.parts if isinstance(text, str))
    alone = len(template.parts) <= 1
    match = _ADDRESS.fullmatch(template.start)
    return match is not None and (alone or match[1] is not None) and _PRINTABLE.fullmatch(fixed) is not None


def check(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    yield from check_columns(table, spans)
    yield from _check_urls(table, spans)
    yield from _check_bodies(table, spans)
    yield from _check_headers(table, spans)


def _check_urls(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    for key in ("url", "batch.url"):
        text = table.option(key)
        if text is None:
            continue
        template = parse_template(text)
        if not is_address(parse_template(_without_references(text))):
            message = f'option "{key}" of table "{table.name}" is no URL'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=_URL_HINT)
        yield from check_names(table, key, _columns(template, key), spans, SCALARS)


def _without_references(text: str) -> str:
    """A variable may hold the beginning of a URL, or a part of it: its value is looked at when a job starts."""
    head = _REFERENCE.match(text)
    if head is None:
        return _REFERENCE.sub("x", text)
    rest = _REFERENCE.sub("x", text[head.end() :])
    return f"http://x{rest}" if rest[:1] in ("", "/", "?", ":") else f"http://x/{rest}"


def _columns(template: Template, key: str) -> list[str]:
    return [name for name in template.names if not (key.startswith("batch.") and name == KEYS)]


def _check_bodies(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    if table.option("body") is not None and (table.option("method") or "GET").strip().upper() == "GET":
        message = f'option "body" of table "{table.name}" is not sent with the method GET'
        yield Diagnostic(WRONG_VALUE, message, spans.get("body"), hint="Add 'method' = 'POST', or remove the body.")
    for key in ("body", "batch.body"):
        text = table.option(key)
        if text is None:
            continue
        template = parse_json_template(text)
        try:
            json.loads(template.filled_json(dict.fromkeys(template.names, "0")))
        except ValueError:
            message = f'option "{key}" of table "{table.name}" is no JSON'
            hint = """Write it as '{"tailnum": {tailnum}}'; values come with their quotes."""
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
        yield from check_names(table, key, _columns(template, key), spans, SCALARS)
    single, batch = table.option("batch.url"), table.option("batch.body")
    if single is not None and batch is None and not parse_template(single).names:
        message = f'option "batch.url" of table "{table.name}" has no place for the keys'
        yield Diagnostic(WRONG_VALUE, message, spans.get("batch.url"), hint="Write {keys}, or add batch.body.")


def _check_headers(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    given = dict(table.options)
    for key, value in given.items():
        name = key.removeprefix("headers.")
        if name != key and (not _HEADER.fullmatch(name) or not value.isprintable()):
            message = f'option "{key}" of table "{table.name}" is no header'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Write 'headers.X-Client' = 'sqlstream'.")
    user = {key for key in ("auth.username", "auth.password") if key in given}
    if len(user) == 1:
        message = 'options "auth.username" and "auth.password" need each other'
        yield Diagnostic(WRONG_VALUE, message, spans.get(min(user)), hint="Add the other, or take auth.token.")
    elif user and "auth.token" in given:
        message = 'options "auth.token" and "auth.username" exclude each other'
        yield Diagnostic(WRONG_VALUE, message, spans.get("auth.token"), hint="Remove one of them.")
