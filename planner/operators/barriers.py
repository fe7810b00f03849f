"""ALIGN BARRIERS: rows of several channels, where rows after a marker wait for the markers of the other channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import Field, FieldNames, Provenance, Schema, traced
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.properties import StateDescription, WaitsFor, WindowInfo
from sqlstream.udfs.barriers import MOST_HELD


@dataclass(frozen=True)
class AlignBarriers(Unary):
    """ALIGN BARRIERS: rows arrive on ``channels`` channels. When the marker of a barrier has arrived on one of them,
    the further rows of that channel wait until it has arrived on all.

    ``channel`` and ``id`` are expressions that give a row's channel and barrier. ``marker``, ``cancel_when`` and
    ``end_when`` are conditions, tested in this order; rows that meet one of them are markers and are not emitted.
    ``output`` is an additional field: the id of the last barrier that was aligned before the row. At most ``most_held``
    rows may wait.
    """

    channel: exp.Expression
    channels: int
    marker: exp.Expression
    id: exp.Expression
    output: Field
    cancel_when: exp.Expression | None = None
    end_when: exp.Expression | None = None
    at_least_once: bool = False
    timeout_ms: int | None = None
    most_held: int = MOST_HELD

    @property
    def holds(self) -> bool:
        """True if the operator stores rows of a channel while it waits for the markers of other channels."""
        return not self.at_least_once

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        """The expressions that the operator computes for each row."""
        computed = (self.channel, self.marker, self.id, self.cancel_when, self.end_when)
        return tuple(e for e in computed if e is not None)

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, self.output)

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        return self.holds or self.timeout_ms is not None

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        read = frozenset().union(*map(columns_of, self.expressions))
        return replace(self, input=self.input.pruned((required - {self.output.name}) | read))

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [f"channel {sql(self.channel)} of {self.channels}", f"marker {sql(self.marker)}", f"id {sql(self.id)}"]
        marks = (("cancel when", self.cancel_when), ("end when", self.end_when))
        parts += [f"{words} {sql(condition)}" for words, condition in marks if condition is not None]
        parts += ["at least once" if self.at_least_once else "exactly once"]
        parts += [f"timeout {readable(self.timeout_ms)}"] if self.timeout_ms is not None else []
        return f"AlignBarriers({'; '.join(parts)}; {self.output.name})"

    # --- what runs --------------------------------------------------------------------------------------------

    # None: channels wait for each other.
    exchange_keys = ()

    @property
    def waits_for(self) -> WaitsFor | None:
        return WaitsFor.BARRIERS if self.holds else None

    columnar_only_clause = "ALIGN BARRIERS"

    @property
    def kernel_text(self) -> str:
        held = (
            "counts the markers" if self.at_least_once else f"holds up to {self.most_held:,} rows of channels that wait"
        )
        return f"that {held}"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        return {**self.input.column_provenance, self.output.name: "barrier_id"}

    state_title = ("barriers", "barriers")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        """The facts that a changed query must share to go on from a checkpoint, as pairs of name and text. The limits
        on the number of waiting rows and on their time are not facts, because a query may continue with other limits.
        """
        names = self.input.column_provenance
        yield "channel", traced(self.channel, names)
        yield "number of channels", str(self.channels)
        ways = {"marker": self.marker, "id": self.id, "CANCEL WHEN": self.cancel_when, "END WHEN": self.end_when}
        yield from ((name, traced(condition, names)) for name, condition in ways.items() if condition is not None)
        yield "guarantee", "at least once" if self.at_least_once else "exactly once"
        yield "type of the id", str(self.output.type)
        yield "columns", self.input.rows_fact

    # --- changes ----------------------------------------------------------------------------------------------

    consumer_name = "ALIGN BARRIERS"

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.holds:
            yield StateDescription("rows behind barriers", f"their barrier is aligned; at most {self.most_held:,} rows")
        else:
            yield StateDescription("barriers that are pending", "they are aligned")
