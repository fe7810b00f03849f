"""``sqlstream metrics``: what is measured, and what is made of it for Grafana and Prometheus."""

from __future__ import annotations

import sys

import click

from sqlstream.cli.output import writer_for
from sqlstream.results import Rows
from sqlstream.telemetry.alerts import alerts_text
from sqlstream.telemetry.dashboard import dashboard_text
from sqlstream.telemetry.instruments import ALL, JOB, JOB_INSTRUMENTS

_COLUMNS = ("name", "prometheus", "kind", "unit", "attributes", "flink", "description")


def list_metrics(output: str) -> None:
    """Prints the metrics as rows."""
    rows = []
    for instrument in ALL:
        attributes = (*(JOB if instrument in JOB_INSTRUMENTS else ()), *instrument.attributes)
        kind, unit = instrument.kind.value, instrument.unit
        row = (instrument.name, instrument.series, kind, unit, ", ".join(attributes), instrument.flink, instrument.doc)
        rows.append(row)
    shown = Rows.of_text(_COLUMNS, rows)
    writer = writer_for(output, shown.columns, sys.stdout)
    writer.write(shown.fetchall())
    writer.close()


def print_dashboard() -> None:
    """Prints the dashboard."""
    click.echo(dashboard_text(), nl=False)


def print_alerts() -> None:
    """Prints the rules."""
    click.echo(alerts_text(), nl=False)
