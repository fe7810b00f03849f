"""A kernel under test: hands its calls on, collects what it emits in order, and checks what it owes after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sqlstream.udfs.driver import GroupContext, unfolded
from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain, Kernel


@dataclass(frozen=True)
class CheckedKernel(Kernel):
    """AssertionError where the kernel emits rows of another schema, leaves a timer behind that has passed, or does what
    it says it does not: use processing time, hold the watermark."""

    kernel: Kernel
    emitted: list[pa.Table] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)

    @property
    def output(self) -> pa.Schema:
        return self.kernel.output

    def on_held(self, context: Context) -> None:
        self._call(context, lambda: self.kernel.on_held(context), ())

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        assert isinstance(context, GroupContext)
        assert rows.keys() <= set(range(self.kernel.ports)), f"rows for ports {sorted(rows)} of {self.kernel.ports}"
        passed = () if context.ahead else tuple(Domain)
        self._call(context, lambda: self.kernel.on_ports(rows, context), passed)

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._call(context, lambda: self.kernel.on_event_time(watermark, context), (Domain.EVENT,))

    def on_processing_time(self, time: int, context: Context) -> None:
        self._call(context, lambda: self.kernel.on_processing_time(time, context), tuple(Domain))

    def _call(self, context: Context, call: Callable[[], None], passed: Sequence[Domain]) -> None:
        """``passed`` are the domains of which no timer may be left behind."""
        assert isinstance(context, GroupContext)
        call()
        clocks = {Domain.EVENT: context.watermark, Domain.PROCESSING: context.processing_time}
        for domain in passed:
            timer = context.timers[domain]
            assert timer > clocks[domain] or timer == END_OF_TIME, f"{domain.value} timer {timer} <= {clocks[domain]}"
        if not self.kernel.uses_processing_time:
            assert context.timers[Domain.PROCESSING] == END_OF_TIME, "the kernel says it uses no processing time"
        if not self.kernel.deferring:
            assert context.held == END_OF_TIME, "the kernel says it holds no watermark"
        for emitted in context.emitted.values():
            tables = list(unfolded(self.kernel, emitted))
            emitted.clear()
            _move(tables, self.emitted, self.kernel.output)
        _move(context.late, self.late, self.kernel.late_output)


def _move(tables: list[pa.Table], to: list[pa.Table], schema: pa.Schema | None) -> None:
    for table in tables:
        assert schema is not None, "late rows, but the kernel has no schema for them"
        assert table.schema.equals(schema), f"emitted {table.schema}, which is not {schema}"
        to.append(table.replace_schema_metadata(None))
    tables.clear()
