"""A chart as a picture for browsers: SVG without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from sqlstream.shell.chart import Chart, Point, number_of

WIDTH, HEIGHT = 720, 320

_COLOURS = ("#3b76c4", "#d9822b", "#3a9b5c", "#c4493b", "#7d5bb5", "#8a6d4b", "#c265a0", "#6b7280")
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 34, 14, 26
_BAR, _NAMES = 22, 150
_LEVELS = 5


def svg_of(chart: Chart) -> str:
    """The picture of what the chart has now."""
    bars = chart.longest() if chart.bars else []
    height = max(HEIGHT // 4, _TOP + _BAR * len(bars) + 8) if chart.bars else HEIGHT
    parts = "".join(_bars(bars) if chart.bars else _lines(chart))
    title = f'<text x="{WIDTH // 2}" y="16" text-anchor="middle" font-weight="600">{escape(chart.title)}</text>'
    style = 'style="font: 12px sans-serif; fill: currentColor"'
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" {style}>{title}{parts}</svg>'


def _bars(bars: Sequence[tuple[float, str]]) -> Iterator[str]:
    """From zero on, so that those below it go to the left."""
    values = [value for value, _ in bars]
    least, most = min([0.0, *values]), max([0.0, *values])
    room, span = WIDTH - _NAMES - 90, (most - least) or 1.0
    zero = _NAMES - least / span * room
    for number, (value, name) in enumerate(bars):
        top, length = _TOP + number * _BAR, abs(value) / span * room
        left = zero if value >= 0 else zero - length
        yield f'<text x="{_NAMES - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'
        yield f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{_BAR - 6}" fill="{_COLOURS[0]}"/>'
        yield f'<text x="{max(left + length, zero) + 6:.1f}" y="{top + 13}">{_shown(value)}</text>'


def _lines(chart: Chart) -> Iterator[str]:
    lines = chart.fullest()
    points = [(number_of(moment), value) for _, line in lines for moment, value in line]
    if not points:
        return
    across, up = _Axis([x for x, _ in points]), _Axis([y for _, y in points])
    for level in range(_LEVELS):
        value = up.least + up.span * level / (_LEVELS - 1)
        y = _y(up, value)
        yield f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#8884"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_shown(value)}</text>'
    places, names = chart.ticks() or ([across.least, across.most], [_shown(across.least), _shown(across.most)])
    for number, (place, name) in enumerate(zip(places, names, strict=True)):
        anchor = "start" if number == 0 else "end" if number == len(places) - 1 else "middle"
        yield f'<text x="{_x(across, place):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(name)}</text>'
    for number, (_, line) in enumerate(lines):
        yield _line(line, _COLOURS[number % len(_COLOURS)], across, up)
    yield from _legend([name for name, _ in lines if name])


def _line(line: Sequence[Point], colour: str, across: _Axis, up: _Axis) -> str:
    places = " ".join(f"{_x(across, number_of(moment)):.1f},{_y(up, value):.1f}" for moment, value in line)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    width = (WIDTH - _LEFT - _RIGHT) // max(len(names), 1)
    for number, name in enumerate(names):
        x, colour = _LEFT + number * width, _COLOURS[number % len(_COLOURS)]
        yield f'<text x="{x}" y="30" fill="{colour}">{escape(name[: max(width // 8, 3)])}</text>'


class _Axis:
    """From the least of some values to the most."""

    def __init__(self, values: Sequence[float]) -> None:
        self.least, self.most = min(values), max(values)

    @property
    def span(self) -> float:
        return (self.most - self.least) or 1.0


def _x(axis: _Axis, value: float) -> float:
    return _LEFT + (value - axis.least) / axis.span * (WIDTH - _LEFT - _RIGHT)


def _y(axis: _Axis, value: float) -> float:
    return HEIGHT - _BOTTOM - (value - axis.least) / axis.span * (HEIGHT - _TOP - _BOTTOM)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
