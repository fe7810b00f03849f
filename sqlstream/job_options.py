"""What a job is started with besides its plan: when its epochs begin, and what its record says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlstream.connectors.secrets import masked, secrets_of_plan, without_secrets
from sqlstream.jobs.coordinator import Checkpointing, Retention
from sqlstream.jobs.records import Description
from sqlstream.planner.explain import to_json
from sqlstream.versions import versions

if TYPE_CHECKING:
    from sqlstream.planner.nodes import Node
    from sqlstream.settings import Settings

_PREFIX = "execution.checkpointing"


def checkpointing_of(settings: Settings, poll_ms: Callable[[], int]) -> Checkpointing:
    """The settings ``execution.checkpointing.*``; ``poll_ms`` gives the interval where they say none."""
    interval_ms = settings[f"{_PREFIX}.interval"]
    retention = settings[f"{_PREFIX}.externalized-checkpoint-retention"]
    return Checkpointing(
        interval_ms=poll_ms() if interval_ms is None else interval_ms,
        min_pause_ms=settings[f"{_PREFIX}.min-pause"],
        timeout_ms=settings[f"{_PREFIX}.timeout"],
        tolerable_failures=settings[f"{_PREFIX}.tolerable-failed-checkpoints"],
        retention=Retention.ALWAYS if retention is None else Retention(retention),
    )


def description_of(plan: Node, sql: str, settings: Settings) -> Description:
    """What the record of a job says of what it runs, without secrets."""
    given = dict(masked(settings.given.items()))
    return Description(secrets_of_plan(plan).hidden(sql), to_json(without_secrets(plan)), given, versions())
