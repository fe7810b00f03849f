"""The pages of connectors and settings: their tables come from the descriptions in the source."""

from __future__ import annotations

from pathlib import Path

from sqlstream.connectors import BUILT_IN, Connector, connector
from sqlstream.connectors.__main__ import escaped, option_table, section, value_cell
from sqlstream.connectors.change_formats import CHANGE_OPTIONS
from sqlstream.connectors.formats import CSV_OPTIONS, JSON_OPTIONS
from sqlstream.settings import OPTIONS, PLANNED

_HERE = Path(__file__).parent
_FORMATS = (*CSV_OPTIONS, *JSON_OPTIONS, *CHANGE_OPTIONS)


def connectors_page() -> str:
    """What is said of all connectors, and a section for each."""
    sections = [_section(connector(name)) for name in BUILT_IN if name != "test"]
    formats = ["## Options of the formats", "", *option_table(_FORMATS)]
    return "\n".join([_part("connectors"), "", *(line for s in sections for line in s), *formats]) + "\n"


def settings_page() -> str:
    """The keys of SET, and those that are refused for now."""
    rows = [
        f"| `{o.key}` | {o.kind.accepted} | {value_cell(o.default)} | {escaped(o.doc)} |"
        for o in sorted(OPTIONS, key=lambda o: o.key)
    ]
    planned = [f"| `{key}` | {escaped(instead)} |" for key, instead in sorted(PLANNED.items())]
    return "\n".join(
        [
            _part("settings"), "",
            "| key | value | default | effect |", "|---|---|---|---|", *rows, "",
            "Keys of Flink that are known and have no effect yet are refused (SS350), never stored:", "",
            "| key | what holds instead |", "|---|---|", *planned,
        ]
    ) + "\n"  # fmt: skip


def _part(name: str) -> str:
    """What is written by hand: an introduction, or notes on a connector; empty where there are none."""
    path = _HERE / "parts" / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _section(kind: Connector) -> list[str]:
    names = "csv or json, or one of changes," if set(CHANGE_OPTIONS) <= set(kind.options) else "csv or json"
    formats = f"With the format {names} also [their options](#options-of-the-formats)."
    lines = section(kind, {o.key for o in _FORMATS}, formats)
    notes = _part(kind.name)
    return [*lines, notes, ""] if notes else lines
