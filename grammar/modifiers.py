"""The order of a query's modifiers, standard and streaming."""

from __future__ import annotations

from sqlstream.grammar import nodes as n

_RANKS = {
    "where": 1, "group": 2, "window": 3, "trigger": 4, "evict": 5, "late_data": 6,
    "order": 7, "sort": 7, "distribute": 7, "cluster": 7, "limit": 8, "offset": 9, "emit": 10,
}  # fmt: skip
_BEHIND_GROUP = frozenset({"having", "qualify", "windows"})


def rank_of(key: str, last: int) -> int:
    """Where the modifier or clause belongs; ``last`` is the rank of the one before it, which must not be higher."""
    if key in _BEHIND_GROUP:
        return max(last, _RANKS["group"]) if last < _RANKS["order"] else _RANKS["group"]
    return _RANKS.get(key, last)


_FIELDS: dict[type[n.Node], str] = {
    n.CountWindow: "window",
    n.GlobalWindow: "window",
    n.UserWindow: "window",
    n.Trigger: "trigger",
    n.Evict: "evict",
    n.LateData: "late_data",
    n.Emit: "emit",
    n.WatermarkDelay: "watermark",
    n.AlignBarriers: "barriers",
    n.LookupAsync: "lookup",
    n.TableHint: "hint",
}


def clause_field(clause: n.Node) -> str:
    """The field of ``StreamClauses`` or ``TableClauses`` that holds the clause."""
    return _FIELDS[type(clause)]
