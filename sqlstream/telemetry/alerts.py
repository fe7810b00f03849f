"""Rules for alerts of Prometheus, made from the registry of metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream.telemetry.instruments import ALL, JOB, STATE, label
from sqlstream.yaml_text import yaml_text

_JOB = label(JOB[0])
_BY_JOB = f"{{{{ $labels.{_JOB} }}}}"


def series(name: str) -> str:
    """The series of the instrument with this name, as queries of Prometheus name it. Raises KeyError for others."""
    return {instrument.name: instrument.series for instrument in ALL}[name]


@dataclass(frozen=True)
class Alert:
    """One rule. ``waits``: how long the condition must hold. ``critical``: somebody has to act at once."""

    name: str
    condition: str
    summary: str
    description: str
    waits: str = "0m"
    critical: bool = False

    def rule(self) -> dict[str, Any]:
        """The rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.condition,
            "for": self.waits,
            "labels": {"severity": "critical" if self.critical else "warning"},
            "annotations": {"summary": self.summary, "description": self.description},
        }


def _status(state: str) -> str:
    return f'{series("sqlstream.job.status")}{{{label(STATE)}="{state}"}} == 1'


def _running(condition: str) -> str:
    return f"{condition} and on ({_JOB}) {_status('RUNNING')}"


def _grows(name: str, window: str, by: str) -> str:
    return f"increase({series(name)}[{window}]) > {by}"


ALERTS = (
    Alert(
        "SqlstreamJobFailed",
        _status("FAILED"),
        f"Job {_BY_JOB} has failed",
        "It does not restart. `sqlstream jobs show` has the error and its hint.",
        critical=True,
    ),
    Alert(
        "SqlstreamEpochFails",
        _grows("sqlstream.job.failures", "15m", "0"),
        f"An epoch of job {_BY_JOB} has failed",
        "The job restarts from its checkpoint as restart-strategy.* says.",
    ),
    Alert(
        "SqlstreamRestartsAgainAndAgain",
        _grows("sqlstream.job.restarts", "15m", "3"),
        f"Job {_BY_JOB} restarts again and again",
        "It reads the same rows each time, and gets no further.",
        critical=True,
    ),
    Alert(
        "SqlstreamWatermarkStands",
        _running(f"changes({series('sqlstream.job.watermark.time')}[15m]) == 0"),
        f"The watermark of job {_BY_JOB} stands",
        "No window closes. A source has no rows, or one of several holds the others back: see "
        "table.exec.source.idle-timeout.",
        waits="15m",
    ),
    Alert(
        "SqlstreamWatermarkLagGrows",
        f"{series('sqlstream.job.watermark.lag')} > 300 and deriv({series('sqlstream.job.watermark.lag')}[15m]) > 0.1",
        f"Job {_BY_JOB} falls behind",
        "Its watermark is more than 5 minutes old, and gets older.",
        waits="15m",
    ),
    Alert(
        "SqlstreamSourceLagGrows",
        f"deriv({series('sqlstream.source.pending_rows')}[15m]) > 0",
        f"A source of job {_BY_JOB} has more and more rows that are not read",
        "Rows come faster than the job reads them.",
        waits="30m",
    ),
    Alert(
        "SqlstreamLateRows",
        _grows("sqlstream.job.late_rows", "15m", "0"),
        f"Job {_BY_JOB} drops late rows",
        "They came after the watermark: give it a longer delay, or keep them with LATE DATA TO.",
    ),
    Alert(
        "SqlstreamBadRows",
        _grows("sqlstream.source.bad_rows", "15m", "0"),
        f"Table {{{{ $labels.{label('sqlstream.table')} }}}} of job {_BY_JOB} has bad rows",
        "They cannot be read or converted, and are left out or kept apart.",
    ),
    Alert(
        "SqlstreamEpochsSlow",
        f"histogram_quantile(0.9, sum by (le, {_JOB}) (rate({series('sqlstream.epoch.duration')}_bucket[15m]))) > 60",
        f"Epochs of job {_BY_JOB} take longer than a minute",
        "sqlstream_epoch_part_duration_seconds_total says for what.",
        waits="15m",
    ),
    Alert(
        "SqlstreamLookupsTimeOut",
        _grows("sqlstream.lookup.timeouts", "15m", "0"),
        f"Lookups {{{{ $labels.{label('sqlstream.lookup')} }}}} of job {_BY_JOB} time out",
        "What is asked is slow or away; the lookup's clauses say what becomes of the rows.",
    ),
)


def alert_rules() -> dict[str, Any]:
    """The rules as one group of Prometheus."""
    return {"groups": [{"name": "sqlstream", "rules": [alert.rule() for alert in ALERTS]}]}


def alerts_text() -> str:
    """The file of rules, in YAML."""
    return yaml_text(alert_rules())
