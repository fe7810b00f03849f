"""Tables as of a constant time or version: ``t FOR SYSTEM_TIME AS OF TIMESTAMP '…'`` and ``t VERSION AS OF 7``.

They mean options of the table, which connectors of table formats have.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from sqlglot import exp

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.nodes import Option
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.catalog import TIME_AS_OF, VERSION_AS_OF, Catalog, Table


def constant_as_of(source: exp.Expr) -> tuple[str, str] | None:
    """Returns the option and its value that a constant after ``AS OF`` means; None for other times, and without one."""
    version = source.args.get("version")
    if not isinstance(version, exp.Version) or version.text("kind").upper() != "AS OF":
        return None
    value = version.expression
    if version.name.upper() == "VERSION":
        return (VERSION_AS_OF, value.name) if isinstance(value, exp.Literal) else None
    if isinstance(value, exp.Cast) and value.to.this in _TIMES:
        value = value.this
    return (TIME_AS_OF, value.name) if isinstance(value, exp.Literal) and value.is_string else None


_TIMES = (
    exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ,
    exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATE,
)  # fmt: skip


def as_it_was(table: Table, source: exp.Expr, catalog: Catalog, zone: str | None) -> Table:
    """Returns the table as of the constant time or version in ``source``; the table itself without one.

    ``zone``: the time zone of times without one; None for UTC. UnsupportedError SS302 where the connector of the table
    knows no other time than now.
    """
    constant = constant_as_of(source)
    if constant is None:
        return table
    key, text = constant
    span = span_of(source.args["version"]) or span_of(source) or Span(0, 0)
    value = _with_zone(text, zone) if key == TIME_AS_OF else text
    try:
        return catalog.with_options(table, (Option(key, value, span=span),), span)
    except SqlStreamError as error:
        if all(d.code == "SS502" for d in error.diagnostics):
            raise unsupported.refusal("past", span) from None
        raise


def _with_zone(text: str, zone: str | None) -> str:
    with suppress(ValueError):  # the option says what is wrong with it
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(zone) if zone else UTC)).isoformat()
    return text
