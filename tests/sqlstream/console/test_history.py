"""The last hour of metrics in memory, and its charts."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlstream.console.charts import chart, value_text
from sqlstream.console.history import MOST_POINTS, MOST_SERIES, SPAN_S, STEP_S, MetricsHistory
from sqlstream.console.watching import with_epochs
from sqlstream.jobs.records.history import Epoch
from sqlstream.jobs.reports.progress import Progress
from sqlstream.telemetry.epochs import EpochTotals
from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import JOB_INSTRUMENTS

NOW = 1_700_000_000.0
BY_NAME = {instrument.name: instrument for instrument in JOB_INSTRUMENTS}
ROWS, STATE, EPOCHS = (
    BY_NAME[name] for name in ("sqlstream.source.rows", "sqlstream.job.state.size", "sqlstream.epoch.duration")
)


def figures(read: dict[str, int] | None = None, state: int = 0, epochs: EpochTotals | None = None) -> JobFigures:
    progress = Progress(read_by_table=read or {}, state_bytes=state)
    return JobFigures("totals", "id", "RUNNING", NOW, progress, epochs or EpochTotals())


def recorded(*reads: int, step: float = STEP_S) -> tuple[MetricsHistory, float]:
    """A history of the rows read of a table, and the time of its last value."""
    history = MetricsHistory()
    for number, read in enumerate(reads):
        history.add(figures({"bids": read}), NOW + number * step)
    return history, NOW + (len(reads) - 1) * step


def values(history: MetricsHistory, instrument, now: float) -> list[list[float]]:
    return [[value for _, value in segment] for line in history.lines(instrument, now) for segment in line.segments]


def test_what_is_counted_is_a_rate():
    history, now = recorded(0, 100, 100, 400)
    assert values(history, ROWS, now) == [[10.0, 0.0, 30.0]]


def test_a_new_start_of_a_job_counts_from_nothing():
    history, now = recorded(500, 50)
    assert values(history, ROWS, now) == [[5.0]]


def test_looks_that_follow_too_soon_are_left_out():
    history, now = recorded(*range(0, 1000, 10), step=1.0)
    assert len(values(history, ROWS, now)[0]) == 9


def test_there_is_a_gap_where_nobody_looked():
    history, now = recorded(0, 10, 20)
    for later in (600.0, 610.0):
        history.add(figures({"bids": 30}), now + later)
    assert [len(segment) for segment in values(history, ROWS, now + 610)] == [2, 2]


def test_no_more_than_an_hour_is_kept():
    history, now = recorded(*range(3 * MOST_POINTS))
    (line,) = history.lines(ROWS, now)
    (points,) = line.segments
    assert len(points) == MOST_POINTS - 1 and points[0][0] >= now - SPAN_S
    assert history.lines(ROWS, now + 2 * SPAN_S) == ()


def test_no_more_series_are_kept_than_anybody_looks_at():
    history = MetricsHistory()
    for seconds in (0.0, 10.0):
        history.add(figures({f"t{i}": i for i in range(2 * MOST_SERIES)}), NOW + seconds)
    assert 0 < sum(len(history.lines(instrument, NOW + 10)) for instrument in JOB_INSTRUMENTS) <= MOST_SERIES


def test_a_gauge_is_shown_as_it_is_and_a_distribution_by_its_mean():
    history, totals = MetricsHistory(), EpochTotals()
    for number in range(3):
        epochs = [Epoch(number, NOW + number, 5, 1000 * number, 0)]
        totals = with_epochs(totals, epochs, NOW)
        history.add(figures(state=number << 10, epochs=totals), NOW + number * STEP_S)
    assert values(history, STATE, NOW + 20) == [[0.0, 1024.0, 2048.0]]
    assert values(history, EPOCHS, NOW + 20) == [[1.0, 2.0]]


def test_epochs_count_once_and_only_those_of_this_start():
    epochs = [Epoch(number, NOW + number, 5, 300, 0) for number in range(4)]
    totals = with_epochs(EpochTotals(), epochs[:3], NOW + 1)
    assert (totals.count, totals.last_epoch, totals.buckets[2]) == (2, 2, 2)
    assert with_epochs(totals, epochs, NOW + 1) == replace(
        totals, count=3, seconds=totals.seconds + 0.3, buckets=(0, 0, 3, *totals.buckets[3:]), last_epoch=3,
        last_end=NOW + 3,
    )  # fmt: skip


# --- charts ---------------------------------------------------------------------------------------------------


def test_a_chart_says_in_words_what_it_draws():
    history, now = recorded(0, 100, 500)
    drawn = chart(ROWS, history, now)
    (told,) = re.findall(r'aria-label="([^"]+)"', drawn)
    assert told == "Source rows per second: 40/s now, at most 40/s in the last hour"
    assert "bids 40/s" in drawn and "<script" not in drawn and "href" not in drawn


def test_names_of_tables_are_text_on_a_chart():
    history = MetricsHistory()
    for seconds in (0.0, 10.0):
        history.add(figures({"<b>": 10, '"': 5}), NOW + seconds)
    drawn = chart(ROWS, history, NOW + 10)
    assert "</span> <b>" not in drawn and "</span> &lt;b&gt; " in drawn and "</span> &quot; " in drawn


def test_the_greatest_line_is_at_the_top_and_only_as_many_as_there_are_colours():
    history = MetricsHistory()
    for seconds in (0.0, 10.0):
        history.add(figures({f"t{i}": int(i * seconds) for i in range(9)}), NOW + seconds)
    drawn = chart(ROWS, history, NOW + 10)
    assert len(re.findall(r'class="line', drawn)) == 6 and "and 3 more" in drawn
    assert "L356.0 8.0" in drawn.partition("l0")[0]


def test_values_below_zero_stay_inside_of_a_chart():
    """A watermark of events of the future has a negative lag."""
    history = MetricsHistory()
    for seconds, watermark_ms in ((0.0, NOW * 1000 + 9000), (10.0, NOW * 1000 - 5000)):
        progress = Progress(watermark_ms=int(watermark_ms))
        history.add(replace(figures(), progress=progress), NOW + seconds)
    drawn = chart(BY_NAME["sqlstream.job.watermark.lag"], history, NOW + 10)
    places = re.findall(r"[ML][\d.]+ (-?[\d.]+)", drawn.partition('class="grid"/>')[2])
    assert [float(place) for place in places] == [88.0, 8.0]


def test_a_chart_of_a_job_that_has_ended_tells_no_present_value():
    history, now = recorded(0, 100, 500)
    assert "<b>–</b>" in chart(ROWS, history, now + 600)


def test_a_metric_without_values_has_no_chart():
    assert chart(ROWS, MetricsHistory(), NOW) == ""


def test_values_have_the_unit_of_their_metric():
    assert value_text(STATE, 3 << 20) == "3.0 MB"
    assert [value_text(EPOCHS, seconds) for seconds in (0.25, 2.5, 600, 7200)] == [
        "250 ms",
        "2.5 s",
        "10.0 min",
        "2.0 h",
    ]
    assert value_text(BY_NAME["sqlstream.operator.time"], 0.25) == "25% of the time"
    assert value_text(BY_NAME["sqlstream.source.io"], 2048) == "2.0 KB/s"
