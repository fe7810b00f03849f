"""Random windows, triggers, evictors and lateness over random streams: the kernel says what the plain model says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.harness import KernelHarness
from tests.model.operator import Result
from tests.model.queries import INPUT, Query, Step, input_row, per_window, play, streams, windows_of_time


def run(query: Query, steps: list[Step], groups: int) -> tuple[list[list[Result]], int]:
    """What the kernel emits after each step, times in milliseconds, and the rows it counted late."""
    harness = KernelHarness(query.kernel, INPUT, ["k"], groups=groups)
    harness.processing_time(-1000)
    outputs = []
    for kind, argument in steps:
        match kind:
            case "rows":
                harness.rows([input_row(*values) for values in argument])
            case "watermark":
                harness.watermark(argument * 1000)
            case "processing_time":
                harness.processing_time((argument - 1) * 1000)  # what has passed when the clock is there
            case "restart":
                harness.restart()
        outputs.append([_result(row) for row in harness.output()])
    return outputs, harness.counters["late_rows"]


def _result(row: dict[str, object]) -> Result:
    values = list(row.values())
    return (values[0], values[1] // 1000, values[2] // 1000, *values[3:])  # type: ignore[operator]


@settings(max_examples=200)
@given(windows_of_time(), streams(), st.sampled_from([1, 3]))
def test_kernel_equals_model(query, steps, groups):
    expected, late = play(query, steps)
    actual, counted = run(query, steps, groups)
    assert per_window(actual) == per_window(expected), query.sql
    assert counted == late, query.sql
