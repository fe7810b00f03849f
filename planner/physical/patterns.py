"""Patterns that tasks, which have Arrow's functions, read as Spark does, which has Java's: regular expressions, and
formats of times.
"""

from __future__ import annotations

import re

_OF_CLASS = r"(?:[A-Za-z0-9]-[A-Za-z0-9]|&(?!&)|[A-Za-z0-9 _=,;:@#%~\"'<>/!.?*+(){}|$])"
_PART = re.compile(rf"(?:[A-Za-z0-9 _=&,;:@#%~\"'<>/!-]|\[\^?{_OF_CLASS}+\])(?:[*+?]\??(?![*+?{{]))?|\^|\|")
"""Letters and classes of them, once or repeated, the beginning of the text, and alternatives. Left out is what differs,
as ``$``, ``.``, classes with names, and groups that are repeated, or what is not alike in all versions.
"""


_OF_TIMES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_OF_TIME = re.compile(rf"{'|'.join(_OF_TIMES)}|[-/:., _]|'[^'%]+'")


def with_named_groups(pattern: str) -> tuple[str, int] | None:
    """The pattern as RE2 takes it, and how many groups it has. Each has the name ``g`` and its number, 0 of the whole.
    None for a pattern that might match other texts.
    """
    named, open_groups, groups, at = ["(?P<g0>"], 0, 0, 0
    while at < len(pattern):
        if found := _PART.match(pattern, at):
            named.append(found[0])
            at = found.end()
            continue
        if pattern[at] == "(" and pattern[at + 1 : at + 2] != "?":
            groups, open_groups = groups + 1, open_groups + 1
            named.append(f"(?P<g{groups}>")
        elif pattern[at] == ")" and open_groups and pattern[at + 1 : at + 2] not in ("*", "+", "?", "{"):
            open_groups -= 1
            named.append(")")
        else:
            return None
        at += 1
    return None if open_groups else ("".join((*named, ")")), groups)


def format_of_time(pattern: str) -> str | None:
    """The pattern of DATE_FORMAT as ``strftime`` takes it; None for one that may give other texts, such as those with
    names, single letters or fractions of seconds.
    """
    parts, at = [""], 0
    while at < len(pattern):
        found = _OF_TIME.match(pattern, at)
        if found is None or pattern.startswith(found[0][0], found.end()):  # more letters are another form, '' a quote
            return None
        parts.append(_OF_TIMES.get(found[0]) or found[0].strip("'"))
        at = found.end()
    return "".join(parts) or None
