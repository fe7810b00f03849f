"""A dashboard of Grafana, made from the registry of metrics: a row for each part of a job, a panel for each metric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import ALL, JOB, STATE, Instrument, Kind, label
from sqlstream.telemetry.processes import ProcessFigures

_AnyInstrument = Instrument[JobFigures] | Instrument[ProcessFigures]

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_JOB = label(JOB[0])
_WIDTH, _HEIGHT, _WHOLE = 8, 8, 24
_UNITS = {"s": "s", "By": "bytes"}
_RATES = {"s": "percentunit", "By": "Bps", "{row}": "cps"}
"""Grafana's names of units. A rate of seconds is a share of the time."""

_ROWS = (
    ("Job", "sqlstream.job."),
    ("Epochs", "sqlstream.epoch."),
    ("Sources", "sqlstream.source."),
    ("Sinks", "sqlstream.sink."),
    ("Operators", "sqlstream.operator."),
    ("State", "sqlstream.state."),
    ("Lookups", "sqlstream.lookup."),
    ("Process", "process."),
)


@dataclass(frozen=True)
class _Query:
    expression: str
    legend: str


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it. Its variables are the data source and the jobs."""
    return {
        "title": "sqlstream jobs",
        "uid": "sqlstream-jobs",
        "tags": ["sqlstream"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_data_source(), _jobs()]},
        "panels": list(_panels()),
    }


def dashboard_text() -> str:
    """The dashboard as JSON."""
    return json.dumps(dashboard(), indent=1) + "\n"


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _jobs() -> dict[str, Any]:
    query = f"label_values({_of('sqlstream.job.status').series}, {_JOB})"
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _of(name: str) -> _AnyInstrument:
    return {instrument.name: instrument for instrument in ALL}[name]


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, prefix in _ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": _WHOLE, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        shown = [instrument for instrument in ALL if instrument.name.startswith(prefix)]
        for i, instrument in enumerate(shown):
            number += 1
            yield _panel(number, instrument, i % 3 * _WIDTH, top + i // 3 * _HEIGHT)
        top += -(-len(shown) // 3) * _HEIGHT


def _panel(number: int, instrument: _AnyInstrument, left: int, top: int) -> dict[str, Any]:
    queries = queries_of(instrument)
    return {
        "id": number,
        "type": "timeseries",
        "title": title_of(instrument),
        "description": instrument.doc,
        "datasource": _SOURCE,
        "gridPos": {"x": left, "y": top, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": _unit(instrument), "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": q.expression, "legendFormat": q.legend}
            for i, q in enumerate(queries)
        ],
    }


def title_of(instrument: _AnyInstrument) -> str:
    """The title of a panel: ``Source rows per second``."""
    words = instrument.name.removeprefix("sqlstream.").replace(".", " ").replace("_", " ")
    is_rate = instrument.kind is Kind.COUNTER and instrument.unit != "s"
    return words[0].upper() + words[1:] + (" per second" if is_rate else "")


def _unit(instrument: _AnyInstrument) -> str:
    if instrument.name in ("sqlstream.job.watermark.time", "sqlstream.source.watermark"):
        return "dateTimeAsIso"
    units = _RATES if instrument.kind is Kind.COUNTER else _UNITS
    return units.get(instrument.unit, "short")


def queries_of(instrument: _AnyInstrument) -> Sequence[_Query]:
    """The queries of the panel of an instrument: rates of what is counted, two quantiles of a distribution."""
    of_job = instrument.name.startswith("sqlstream.")
    labels = [label(name) for name in ((*JOB, *instrument.attributes) if of_job else instrument.attributes)]
    chosen = f'{_JOB}=~"$job"' if of_job else ""
    legend = " ".join(f"{{{{{name}}}}}" for name in labels)
    by = ", ".join(labels)
    series = f"{instrument.series}{{{chosen}}}"
    match instrument.kind:
        case Kind.COUNTER:
            return [_Query(f"sum by ({by}) (rate({series}[$__rate_interval]))", legend)]
        case Kind.HISTOGRAM:
            buckets = f"sum by (le, {by}) (rate({instrument.series}_bucket{{{chosen}}}[$__rate_interval]))"
            return [_Query(f"histogram_quantile({q}, {buckets})", f"{legend} p{q * 100:g}") for q in (0.5, 0.99)]
    in_state = " > 0" if STATE in instrument.attributes else ""
    scale = " * 1000" if _unit(instrument) == "dateTimeAsIso" else ""
    return [_Query(f"{series}{in_state}{scale}", legend)]
