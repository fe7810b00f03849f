"""The page of Flink's built-in functions, from ``flink_functions.toml``; a test tries every line of it."""

from __future__ import annotations

import tomllib
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

_INTRODUCTION = """\
# Functions of Flink

All built-in functions of Flink 2, from its page "System (Built-in) Functions", with what happens to them here. A test
plans each example, has Spark compute it and compares with what Flink documents.

Functions are Spark's: where Flink and Spark have a function of the same name, Spark's holds, and what differs is said
below. Functions that only Flink has are there by Flink's name. They run in Catalyst, on streams and over finished data
alike; none of them runs Python per row. EXPLAIN shows them by Flink's names.

* Paths of JSON functions are constant texts of steps `.name`, `['name']`, `[0]`, `[*]`, with `lax` or `strict` (the
  default) before them. JSON_QUERY keeps the order of members, but behind `[*]` they come sorted by name.
* `payload:item.sku` reads from a VARIANT, and from a STRING that holds JSON on streams, where the type is known.
* JSON_OBJECTAGG keeps both members where a key comes twice, for which Flink fails. JSON_ARRAYAGG, JSON_OBJECTAGG and
  COLLECT take rows in the order of arrival, and take rows back on updating inputs. They have no OVER on streams.
* COLLECT gives a MAP from each value to how often it is there, which is what Flink's MULTISET is.
* Periods of OVERLAPS that only touch do overlap, as in Flink.
"""
_TITLES = {
    "comparison": "Comparison", "logical": "Logical", "arithmetic": "Arithmetic", "string": "Strings",
    "temporal": "Times", "conditional": "Conditions", "conversion": "Types", "collection": "Collections",
    "json": "JSON", "variant": "VARIANT", "construction": "Values made", "access": "Values read",
    "grouping": "Grouping", "hash": "Hashes", "aggregate": "Aggregates and OVER", "catalog": "Catalog",
    "window": "Windows", "process": "Functions over tables",
}  # fmt: skip


class Fate(Enum):
    """What happens to a function; the value is how the page says it."""

    SAME = "same"
    DIFFERS = "differs"
    RENAMED = "other name"
    MISSING = "not there"


def entries() -> dict[str, list[Entry]]:
    """The lines by the sections of Flink's page."""
    with Path(__file__).with_name("flink_functions.toml").open("rb") as file:
        return tomllib.load(file)


def fate_of(entry: Entry) -> Fate:
    if "code" in entry:
        return Fate.RENAMED if entry["instead"] else Fate.MISSING
    return Fate.DIFFERS if "why" in entry else Fate.SAME


def page() -> str:
    sections = entries()
    fates = Counter(fate_of(entry) for lines in sections.values() for entry in lines)
    total = ", ".join(f"{fates[fate]} {fate.value}" for fate in Fate)
    parts = [_INTRODUCTION, f"Of {fates.total()} lines: {total}.\n"]
    for section, lines in sections.items():
        rows = "".join(map(_row, lines))
        parts.append(f"## {_TITLES[section]}\n\n| Flink | here | |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def _row(entry: Entry) -> str:
    return f"| `{_cell(entry['call'])}` | {fate_of(entry).value} | {_remark(entry)} |\n"


def _remark(entry: Entry) -> str:
    why = _cell(entry.get("why", ""))
    match fate_of(entry):
        case Fate.SAME:
            return ""
        case Fate.DIFFERS:
            return f"`{_cell(entry['try'])}` is {_value(entry, 'ours')}, in Flink {_value(entry, 'gives')}: {why}"
        case Fate.RENAMED:
            return f"write `{_cell(entry['instead'])}`: {why}"
    return why


def _value(entry: Entry, key: str) -> str:
    null = entry.get("null_ours" if key == "ours" else "null", False)
    return "NULL" if null else f"`{entry[key]!r}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
