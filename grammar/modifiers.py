"""The order of a query's modifiers, standard and streaming."""

from __future__ import annotations

from sqlstream.grammar import nodes as n

_RANKS = {
    "where": 1, "group": 2, "window": 3, "trigger": 4, "evict": 5, "late_data": 6,
    "order": 7, "sort": 7, "distribute": 7, "cluster": 7, "limit": 8, "offset": 9, "emit": 10,
}  # fmt: skip
BEHIND_A_SET_OPERATION = frozenset({"order", "sort", "distribute", "cluster", "limit", "offset"})
_BEHIND_GROUP = frozenset({"having", "qualify", "windows"})


def rank_of(key: str, last: int) -> int:
    """Where the modifier or clause belongs; ``last`` is the rank of the one before it, which must not be higher."""
    if key in _BEHIND_GROUP:
        return max(last, _RANKS["group"]) if last < _RANKS["order"] else _RANKS["group"]
    return _RANKS.get(key, last)


_BEFORE_GROUP = {"JOIN": 0, "LEFT JOIN": 0, "WHERE": 1, "GROUP BY": 2}
_BEHIND = {"ORDER BY": 7, "LIMIT": 8, "UNION ALL": 11}
_OF_SELECT = {"TRIGGER": 4, "EVICT": 5, "LATE DATA": 6}


def modifiers_after(last: int, select: bool) -> frozenset[str]:
    """The words that may follow a modifier of rank ``last``; ``select``: of a SELECT, not of a set operation."""
    words = {**_BEHIND, "EMIT": 10, **({**_BEFORE_GROUP, **_OF_SELECT} if select else {})}
    allowed = {word for word, rank in words.items() if rank > last or rank == last == 0}
    windows = {"COUNT WINDOW", "GLOBAL WINDOW", "WINDOW USING"} if last == _RANKS["group"] else set()
    groups = {"HAVING", "QUALIFY"} if select and last < _RANKS["order"] else set()
    return frozenset(allowed | windows | groups)


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
