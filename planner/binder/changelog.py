"""The change kinds that a source's options declare."""

from __future__ import annotations

from sqlstream.grammar.nodes import Option
from sqlstream.planner.binder.context import Context
from sqlstream.planner.catalog import RowKind

CHANGELOG_OPTION = "changelog-mode"

_KINDS = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}
_MODES = {frozenset(_KINDS[k] for k in mode.split(",")): mode for mode in ("I", "I,UA,D", "I,UB,UA,D", "I,D")}
_FORMATS = {"debezium-json": frozenset(RowKind), "canal-json": frozenset(RowKind)}


def changelog_of(option: Option | None, format_name: str | None, context: Context) -> frozenset[RowKind] | None:
    """The declared kinds; None where nothing is declared. SS218 for modes that do not exist."""
    if option is None:
        return _FORMATS.get(format_name or "")
    kinds = [k.strip().upper() for k in option.value.split(",")]
    found = frozenset(_KINDS[k] for k in kinds if k in _KINDS)
    if len(found) != len(kinds) or found not in _MODES:
        modes = ", ".join(f"'{mode}'" for mode in _MODES.values())
        context.wrong("SS218", f"'{option.value}' is no changelog mode", option.span, f"The modes are {modes}.")
        return None
    return found
