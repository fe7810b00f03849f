"""The page of metrics: what is written by hand, and the registry as a table."""

from __future__ import annotations

from pathlib import Path

from sqlstream.connectors.__main__ import escaped
from sqlstream.telemetry.alerts import ALERTS
from sqlstream.telemetry.instruments import ALL, Kind

_PART = Path(__file__).parent / "parts" / "metrics.md"


def page() -> str:
    """The page in Markdown."""
    rows = [
        f"| `{i.name}` | `{i.series}{_bucket(i.kind)}` | {i.kind.value}, {i.unit} | {_attributes(i.attributes)} | "
        f"{escaped(i.flink or '–')} | {escaped(i.doc)} |"
        for i in ALL
    ]
    alerts = [f"| {a.name} | {a.summary.replace('{{ $labels.', '').replace(' }}', '')} |" for a in ALERTS]
    return "\n".join(
        [
            _PART.read_text(encoding="utf-8").strip(), "", "## All metrics", "",
            "Those of jobs have the attribute `sqlstream.job.name` (label `sqlstream_job_name`) besides.", "",
            "| OpenTelemetry | Prometheus | kind and unit | attributes | Flink | what |", "|---|---|---|---|---|---|",
            *rows, "", "## All alerts", "", "| alert | |", "|---|---|", *alerts,
        ]
    ) + "\n"  # fmt: skip


def _bucket(kind: Kind) -> str:
    return "_bucket" if kind is Kind.HISTOGRAM else ""


def _attributes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
