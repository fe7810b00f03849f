"""The pages of connectors and settings: their tables come from the descriptions in the source."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlstream.connectors import BUILT_IN, Connector, LookupTable, Sink, Source, connector
from sqlstream.connectors.change_formats import CHANGE_OPTIONS
from sqlstream.connectors.connector import CHANGELOG
from sqlstream.connectors.formats import CSV_OPTIONS, JSON_OPTIONS
from sqlstream.options import Option
from sqlstream.planner.catalog import Table
from sqlstream.settings import OPTIONS, PLANNED

_HERE = Path(__file__).parent
_FORMATS = (*CSV_OPTIONS, *JSON_OPTIONS, *CHANGE_OPTIONS)


def connectors_page() -> str:
    """What is said of all connectors, and a section for each."""
    sections = [_section(connector(name)) for name in BUILT_IN if name != "test"]
    formats = ["## Options of the formats", "", *_table(_FORMATS)]
    return "\n".join([_part("connectors"), "", *(line for s in sections for line in s), *formats]) + "\n"


def settings_page() -> str:
    """The keys of SET, and those that are refused for now."""
    rows = [
        f"| `{o.key}` | {o.kind.accepted} | {_value(o.default)} | {_escaped(o.doc)} |"
        for o in sorted(OPTIONS, key=lambda o: o.key)
    ]
    planned = [f"| `{key}` | {_escaped(instead)} |" for key, instead in sorted(PLANNED.items())]
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
    formats = {o.key for o in _FORMATS}
    own = [o for o in kind.options if o.key not in formats]
    roles = (("source", Source), ("lookup table", LookupTable), ("sink", Sink))
    listed = [word for word, role in roles if isinstance(kind, role)]
    use = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
    lines = [f"## {kind.name}", "", f"{_escaped(kind.doc)} A {use}.", ""]
    if own:
        lines += [*_table(own, "source" if isinstance(kind, Source) else "lookup"), ""]
    if len(own) < len(kind.options):
        names = "csv or json, or one of changes," if set(CHANGE_OPTIONS) <= set(kind.options) else "csv or json"
        lines += [f"With the format {names} also [their options](#options-of-the-formats).", ""]
    if metadata := kind.metadata(Table("t", (), kind.name)):
        keys = ", ".join(f"`{key}` {type_}" for key, type_ in metadata.items())
        lines += [f"METADATA columns: {keys}.", ""]
    notes = _part(kind.name)
    return [*lines, notes, ""] if notes else lines


def _table(options: Iterable[Option], reading: str = "source") -> list[str]:
    """``reading``: what a table does whose rows are not written, be a source or answer lookups."""
    rows = [
        f"| `{o.key}` | {_use(o, reading)} | {_escaped(o.kind.accepted)} | {_default(o)} | {_escaped(o.doc)} |"
        for o in options
        if o.key != CHANGELOG.key
    ]
    return ["| option | of | value | default | meaning |", "|---|---|---|---|---|", *rows]


def _use(option: Option, reading: str) -> str:
    reading = "lookup" if option.key.startswith("lookup.") else reading
    return ", ".join(word for word, yes in ((reading, option.source), ("sink", option.sink)) if yes)


def _default(option: Option) -> str:
    return "**required**" if option.required else _value(option.default)


def _value(text: str | None) -> str:
    return "" if text is None else f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
