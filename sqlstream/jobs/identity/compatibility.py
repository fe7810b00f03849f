"""Whether a query may go on with the state of another: part by part, by what the state depends on."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from sqlstream.jobs.identity.fingerprint import CHAIN, FingerprintPart


@dataclass(frozen=True)
class Difference:
    """Why a query cannot use the state of another, in a sentence; ``part`` names the operator or source.

    ``exception`` says which part of an otherwise harmless change is not allowed.
    """

    part: str
    text: str
    exception: str = ""


_BETWEEN = ", but no filter between windows on the same keys, which run in one call without it"


def difference(stored: tuple[FingerprintPart, ...], current: tuple[FingerprintPart, ...]) -> Difference | None:
    """The first difference, from the top; None where the query may go on."""
    matcher = SequenceMatcher(None, [_identity(p) for p in stored], [_identity(p) for p in current], autojunk=False)
    for tag, left, left_end, right, right_end in matcher.get_opcodes():
        gone, new = stored[left:left_end], current[right:right_end]
        if tag != "equal" and len(gone) == len(new) and gone[0].kind == new[0].kind and gone[0].kind != "source":
            return _changed(gone[0], new[0])
        if tag != "equal":
            return _other_parts(gone, new)
    pairs = zip(stored, current, strict=True)
    return next((different for before, now in pairs if (different := _changed(before, now)) is not None), None)


def _identity(entry: FingerprintPart) -> tuple[str, str]:
    """Parts that stand for each other: sources by table, process functions by uid, the others by what they are."""
    own = {"source": "table", "process function": "uid"}.get(entry.kind, "")
    return entry.kind, dict(entry.facts).get(own, "")


def _other_parts(gone: tuple[FingerprintPart, ...], new: tuple[FingerprintPart, ...]) -> Difference:
    if not new:
        return Difference(gone[0].name, f"{_described(gone[0])}, which the query no longer has")
    if not gone:
        return Difference(new[0].name, f"nothing of {_described(new[0])}, which the query has")
    return Difference(gone[0].name, f"{_described(gone[0])}, where the query has {_described(new[0])}")


def _described(entry: FingerprintPart) -> str:
    """``a window aggregate (keys k STRING)``."""
    if entry.kind in ("source", "watermark"):
        return f"the {entry.name}"
    facts = dict(entry.facts)
    told = next((f"{name} {facts[name]}" for name in ("uid", "window", "keys", "table") if facts.get(name)), "")
    article = "" if entry.kind == "windows" else ("the " if entry.name != entry.kind else "a ")
    return f"{article}{entry.name}" + (f" ({told})" if told else "")


def _changed(before: FingerprintPart, now: FingerprintPart) -> Difference | None:
    left, right = dict(before.facts), dict(now.facts)
    for name in [*left, *(n for n in right if n not in left)]:
        stored, current = left.get(name, "none"), right.get(name, "none")
        if stored != current:
            told = f'the {before.name} with the {name} "{stored}", where the query has "{current}"'
            return Difference(before.name, told, _BETWEEN if name == CHAIN else "")
    if before.name != now.name:
        return Difference(before.name, f"the {before.name}, where the query has the {now.name}")
    if before.depth != now.depth:
        return Difference(before.name, f"the {before.name} at another place of the plan")
    return None
