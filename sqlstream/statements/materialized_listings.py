"""Materialized views as rows: SHOW MATERIALIZED VIEWS, and how fresh one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlstream.catalog import Catalog, definition_of_view
from sqlstream.grammar import nodes
from sqlstream.results import Rows
from sqlstream.statements.show import passes
from sqlstream.times import time_text, watermark_text

if TYPE_CHECKING:
    from sqlstream.views.keeping import ViewStatus

StatusOf = Callable[[nodes.Name], "ViewStatus"]
Fact = tuple[str, str | None]

LISTED = ("MATERIALIZED VIEWS", "MATERIALIZED TABLES", "STREAMING TABLES")
"""Three words for one list, as the kinds are one."""

_HEADS = {
    "MATERIALIZED VIEWS": "view name",
    "MATERIALIZED TABLES": "table name",
    "STREAMING TABLES": "table name",
}
_COLUMNS = ("state", "watermark", "last epoch", "last commit")


def show_materialized(statement: nodes.Show, catalog: Catalog, status_of: StatusOf | None) -> Rows:
    """A line per view of the database: its name, the state of its job, and how fresh it is."""
    namespace = catalog.namespace(statement.name or nodes.Name((), span=statement.span))
    names = [
        name
        for name in catalog.names("relation", namespace)
        if definition_of_view(catalog.entry("relation", (*namespace, name))) is not None
        and (statement.names is None or passes(name, statement.names))
    ]
    if status_of is None:  # a script is only checked
        return Rows.of_text((_HEADS[statement.what], *_COLUMNS), [])
    rows = []
    for name in names:
        status = status_of(nodes.Name((*namespace, name), span=statement.span))
        rows.append((name, *(value for _, value in facts(status))))
    return Rows.of_text((_HEADS[statement.what], *_COLUMNS), rows)


def freshness_of(statement: nodes.Describe, catalog: Catalog, status_of: StatusOf) -> tuple[Fact, ...]:
    """What DESCRIBE EXTENDED says of a materialized view beside its table; nothing of all else."""
    if not statement.extended:
        return ()
    catalog.required(statement.name)
    if definition_of_view(catalog.entry("relation", catalog.path(statement.name))) is None:
        return ()
    return tuple(facts(status_of(statement.name)))


def facts(status: ViewStatus) -> Iterator[Fact]:
    """The state of the job, how far its input is, and the last epoch that is in the table. Times are in UTC."""
    from sqlstream.jobs.records.record import moment

    yield "state", status.state
    progress = None if status.record is None else status.record.life.progress
    if progress is None:
        yield "watermark", None
    else:
        yield "watermark", "end of input" if progress.input_ended else watermark_text(progress.watermark_ms)
    yield "last epoch", None if status.epoch is None else str(status.epoch)
    yield "last commit", None if status.committed is None else time_text(moment(status.committed))
