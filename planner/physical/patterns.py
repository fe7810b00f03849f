"""Regular expressions that RE2, with which tasks match columns, reads as Java does, with which Spark matches rows."""

from __future__ import annotations

import re

_OF_CLASS = r"(?:[A-Za-z0-9]-[A-Za-z0-9]|&(?!&)|[A-Za-z0-9 _=,;:@#%~\"'<>/!.?*+(){}|$])"
_PART = re.compile(rf"(?:[A-Za-z0-9 _=&,;:@#%~\"'<>/!-]|\[\^?{_OF_CLASS}+\])(?:[*+?]\??(?![*+?{{]))?|\^|\|")
"""Letters and classes of them, once or repeated, the beginning of the text, and alternatives. Left out is what differs,
as ``$``, ``.``, classes with names, and groups that are repeated, or what is not alike in all versions.
"""


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
