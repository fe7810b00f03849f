"""Charts of metrics as SVG inside of a page: no script, no other files, and colours of the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sqlstream.console.history import GAP_S, SPAN_S, Line, MetricsHistory
from sqlstream.jobs.reports.progress import size_text
from sqlstream.telemetry.dashboard import title_of
from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import Instrument, Kind

MOST_LINES = 6
"""As many as there are colours; more lines than that nobody tells apart."""

_WIDTH, _HEIGHT = 360, 96
_LEFT, _RIGHT, _TOP, _BOTTOM = 4, 356, 8, 88
_MOST_POINTS = 120
"""More would be less than three pixels apart."""

STYLE = """
:root { --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #aa4499; --c4: #8a6d00; --c5: #555; }
@media (prefers-color-scheme: dark) {
  :root { --c0: #56b4e9; --c1: #f0903c; --c2: #2fcf9f; --c3: #dd88cc; --c4: #e6c34a; --c5: #bbb; }
}
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: .8rem; }
figure { margin: 0; background: var(--box); border-radius: 8px; padding: .6rem .8rem; }
figcaption { display: flex; justify-content: space-between; gap: .6rem; font-size: .85rem; }
figcaption b { font-variant-numeric: tabular-nums; white-space: nowrap; }
figure svg { display: block; width: 100%; height: auto; }
figure .ends { display: flex; justify-content: space-between; font-size: .75rem; opacity: .75; }
figure .legend { font-size: .78rem; margin: .2rem 0 0; padding: 0; list-style: none; }
figure .legend li { display: inline-block; margin-right: .9rem; overflow-wrap: anywhere; }
""" + "".join(f".l{i} {{ stroke: var(--c{i}); }} .k{i} {{ color: var(--c{i}); }}\n" for i in range(MOST_LINES))


def chart(instrument: Instrument[JobFigures], history: MetricsHistory, now: float) -> str:
    """Returns the chart of a metric over the last hour, as a figure of HTML; empty where there is nothing to show. What
    is counted is shown per second, of a distribution the mean.
    """
    lines = history.lines(instrument, now)
    if not lines:
        return ""
    shown = sorted(lines, key=lambda line: -line.greatest)[:MOST_LINES]
    top = max(line.greatest for line in shown)
    title = title_of(instrument)
    last = _now_text(instrument, [line for line in shown if now - line.end <= GAP_S])
    most = value_text(instrument, top)
    told = f"{title}: {last} now, at most {most} in the last hour"
    scale = _Scale(min(0.0, *(line.least for line in shown)), top, now)
    paths = "".join(_path(line, number, scale) for number, line in enumerate(shown))
    grid = f'<path d="M{_LEFT} {_TOP}H{_RIGHT}M{_LEFT} {_BOTTOM}H{_RIGHT}" class="grid"/>'
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(told)}">{grid}{paths}</svg>'
    more = f"<span>1 h ago</span><span>at most {escape(most)}</span><span>now</span>"
    caption = (
        f'<figcaption><span title="{escape(instrument.doc)}">{escape(title)}</span><b>{escape(last)}</b></figcaption>'
    )
    return f'<figure>{caption}{svg}<div class="ends">{more}</div>{_legend(instrument, shown, len(lines))}</figure>'


def _now_text(instrument: Instrument[JobFigures], lines: Sequence[Line]) -> str:
    """The present value; a dash where the last one is old, as that of a job that has ended."""
    if not lines:
        return "–"
    return value_text(instrument, sum(line.last for line in lines) if _adds_up(instrument) else lines[0].last)


def _adds_up(instrument: Instrument[JobFigures]) -> bool:
    """Whether the sum of all lines means something: rates and amounts do, ages and means do not."""
    return instrument.kind is Kind.COUNTER or (instrument.kind is Kind.GAUGE and instrument.unit != "s")


@dataclass(frozen=True)
class _Scale:
    """Where values stand: from ``low``, which is below zero where a value is, to ``top``; and the last hour."""

    low: float
    top: float
    now: float

    def place(self, time: float, value: float) -> str:
        """The coordinates of a point."""
        left = _LEFT + (_RIGHT - _LEFT) * (1 - (self.now - time) / SPAN_S)
        return f"{left:.1f} {_BOTTOM - (_BOTTOM - _TOP) * (value - self.low) / ((self.top - self.low) or 1.0):.1f}"


def _path(line: Line, number: int, scale: _Scale) -> str:
    drawn = "".join(_segment(segment, scale) for segment in line.segments)
    return f'<path d="{drawn}" class="line l{number}"/>'


def _segment(points: Sequence[tuple[float, float]], scale: _Scale) -> str:
    every = max(1, len(points) // _MOST_POINTS)
    places = [scale.place(*point) for point in _thinned(points, every)]
    return f"M{'L'.join(places if len(places) > 1 else places * 2)}"


def _thinned(points: Sequence[tuple[float, float]], every: int) -> list[tuple[float, float]]:
    """Of each group of points the greatest, so that a peak is never left out."""
    return [max(points[i : i + every], key=lambda point: point[1]) for i in range(0, len(points), every)]


def _legend(instrument: Instrument[JobFigures], lines: Sequence[Line], known: int) -> str:
    if len(lines) == 1 and not lines[0].name:
        return ""
    items = [
        f'<li><span class="k{i}">■</span> {escape(line.name)} {escape(value_text(instrument, line.last))}</li>'
        for i, line in enumerate(lines)
    ]
    more = [f"<li>and {known - len(lines)} more</li>"] if known > len(lines) else []
    return f'<ul class="legend">{"".join([*items, *more])}</ul>'


def value_text(instrument: Instrument[JobFigures], value: float) -> str:
    """A value of a chart in the unit of its metric, with ``/s`` where it is a rate."""
    rate = "/s" if instrument.kind is Kind.COUNTER else ""
    if instrument.unit == "By":
        return size_text(int(value)) + rate
    if instrument.unit == "s":
        return f"{value:.0%} of the time" if rate else _seconds_text(value)
    return (f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2f}") + rate


def _seconds_text(seconds: float) -> str:
    if abs(seconds) < 1:
        return f"{seconds * 1000:,.0f} ms"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
