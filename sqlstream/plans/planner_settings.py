"""What the session's settings say to the planner, and the rules that they allow."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from sqlstream.connectors import LookupTable, connector
from sqlstream.errors import ConnectorError
from sqlstream.latency import is_low, is_real_time
from sqlstream.planner.binder import BinderSettings
from sqlstream.planner.catalog import Table
from sqlstream.planner.physical import Engine, EngineSettings
from sqlstream.planner.physical.engine import Reuse
from sqlstream.planner.rules import Stage, stages
from sqlstream.settings import COLUMN_EXPANSION, MULTI_JOIN, NEEDS_SETTING, REUSE, REUSE_SOURCE, Settings
from sqlstream.udfs.lookup.options import LookupOptions, Order
from sqlstream.udfs.lookup.source import Comparison


def _checks(table: Table, comparison: Comparison) -> bool:
    """Whether the table's connector checks the comparison in the source."""
    kind = connector(table.connector)
    return isinstance(kind, LookupTable) and kind.filters(table, comparison)


CHOICES = (REUSE, MULTI_JOIN)
"""The settings that choose among plans with the same rows, of which a job keeps that of its checkpoint."""

_RULES = {
    (reuse, together, multi_join): stages(_checks, reuse=reuse, together=together, multi_join=multi_join)
    for reuse, together, multi_join in product((True, False), repeat=3)
}

RULES = _RULES[True, True, True]
"""The rules of the planner, with what connectors do themselves."""


def rules_of(settings: Settings, *, apart: bool = False) -> tuple[Stage, ...]:
    """The ``RULES`` that the settings allow. ``apart``: no operator runs for several inputs of a node, as on
    Spark's own operators.
    """
    reuse, multi_join = (bool(settings[name]) for name in CHOICES)
    of_spark = settings["sqlstream.engine"] == Engine.NATIVE.value or is_real_time(settings)
    return _RULES[reuse, reuse and not (apart or of_spark), multi_join]


def binder_settings(settings: Settings) -> BinderSettings:
    """Converts the session's settings into those of the binder: defaults for window firing, lookups and so on. Raises
    SS522 where a delay is missing.
    """
    zone = None if settings["table.local-time-zone"] == "UTC" else settings["table.local-time-zone"]
    allow_ms = settings["table.exec.emit.allow-lateness"]
    early, late = _fire_delay(settings, "early"), _fire_delay(settings, "late")
    most_held = settings["sqlstream.barriers.max-buffered-rows"]
    functions = settings["sqlstream.functions.on-error"]
    ttl_ms, repeated = settings["table.exec.state.ttl"], settings["table.exec.source.cdc-events-duplicate"]
    dynamic = settings["table.dynamic-table-options.enabled"]
    lookup = _lookup_defaults(settings)
    given = BinderSettings(early, late, allow_ms, zone, lookup, most_held, functions, ttl_ms, repeated, dynamic)
    lengths, nulls = settings["table.exec.sink.type-length-enforcer"], settings["table.exec.sink.not-null-enforcer"]
    return replace(given, lengths=lengths, drops_nulls=nulls == "DROP", not_in_star=settings[COLUMN_EXPANSION])


def _lookup_defaults(settings: Settings) -> LookupOptions:
    """How lookups ask whose query does not say it."""
    unordered = settings["table.exec.async-lookup.output-mode"] == "ALLOW_UNORDERED"
    loose = Order.KEY_ORDERED if settings["table.exec.async-lookup.key-ordered-enabled"] else Order.UNORDERED
    return LookupOptions(
        order=loose if unordered else Order.ORDERED,
        capacity=settings["table.exec.async-lookup.buffer-capacity"],
        timeout_ms=max(1, settings["table.exec.async-lookup.timeout"]),
    )


def _fire_delay(settings: Settings, kind: str) -> int | None:
    """As in Flink: a delay without ``enabled`` changes nothing, ``enabled`` needs a delay."""
    enabled, delay = (f"table.exec.emit.{kind}-fire.{key}" for key in ("enabled", "delay"))
    if not settings[enabled]:
        return None
    delay_ms: int | None = settings[delay]
    if delay_ms is None:
        message = f'setting "{enabled}" needs the setting "{delay}"'
        raise ConnectorError(NEEDS_SETTING, message, hint=f"SET '{delay}' = '1 min'; 0 fires at each row.")
    return delay_ms


def reuse_of(settings: Settings) -> Reuse:
    """What a new checkpoint runs once that its plan has several times."""
    return Reuse(settings[REUSE_SOURCE], settings[REUSE])


def engine_settings_of(settings: Settings) -> EngineSettings:
    """Converts the session's settings into those of the physical planner."""
    return EngineSettings(
        settings["sqlstream.engine"],
        settings["pipeline.operator-chaining.enabled"],
        reuse_of(settings),
        at_once=is_low(settings),
    )
