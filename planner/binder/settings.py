"""What settings of the session say to the binder."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.planner.bad_rows import BadAction
from sqlstream.planner.catalog import MetadataColumns
from sqlstream.udfs.barriers import MOST_HELD
from sqlstream.udfs.lookup.options import DEFAULT_LOOKUP, LookupOptions


@dataclass(frozen=True)
class EmitSettings:
    """Flink's ``table.exec.emit.*``, for windows whose query does not say when they fire.

    ``early_ms`` and ``late_ms`` are the delays of early and late firings where those are enabled, 0 for each row;
    ``allow_ms`` is the lateness that they allow. ``zone``: TUMBLE, HOP and CUMULATE start on that zone's wall clock;
    None for UTC. ``lookup`` holds the defaults of ``table.exec.async-lookup.*`` for lookups. ``most_held``: how many
    rows may wait for barriers. ``functions``: what happens to rows for which a scalar function raises an exception,
    with the name of a table. ``state_ttl_ms``: rows of operators whose state does not end by itself are forgotten so
    long after they were written; 0: never. ``repeated_changes``: tables may give a change twice. ``dynamic_options``:
    OPTIONS hints may change the options of tables. ``lengths``: what becomes of a value that is not as long as the type
    of its column in the table that is written, ``drops_nulls``: rows are left out that have no value in one that is
    NOT NULL. ``not_in_star``: the kinds of virtual metadata columns that `*` does not stand for.
    """

    early_ms: int | None = None
    late_ms: int | None = None
    allow_ms: int | None = None
    zone: str | None = None
    lookup: LookupOptions = DEFAULT_LOOKUP
    most_held: int = MOST_HELD
    functions: tuple[BadAction, str | None] = (BadAction.FAIL, None)
    state_ttl_ms: int = 0
    repeated_changes: bool = False
    dynamic_options: bool = True
    lengths: str = "IGNORE"
    drops_nulls: bool = False
    not_in_star: frozenset[MetadataColumns] = frozenset()

    @property
    def allowed_ms(self) -> int:
        """How late rows may be. As in Flink, ``allow_ms`` has no effect where late firings are not enabled."""
        return self.allow_ms or 0 if self.late_ms is not None else 0


DEFAULT_EMIT = EmitSettings()
