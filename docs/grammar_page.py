"""The grammar file as documentation: ``python -m docs.grammar_page`` rewrites ``docs/grammar.md``.

Sections, comments and rules come from ``streaming.lark`` alone; a test compares the file with what this prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlstream.grammar.language import GRAMMAR_FILE

DOCUMENT = GRAMMAR_FILE.resolve().parent.parent / "docs" / "grammar.md"

_INTRO = """\
# Grammar

Generated from `grammar/streaming.lark` by `python -m docs.grammar_page`; do not edit.

Queries, expressions and types are Spark's SQL and are read by sqlglot. The rules here are the statements and the
streaming clauses around and inside them.

Notation: `"WORD"` is a keyword in any case, `x?` optional, `x*` any number of times, `x | y` a choice.
"""
_SECTION = re.compile(r"// -+ (?P<title>.+?) -+$")
_RULE = re.compile(r"[?!]*(?P<name>[a-z_]+): (?P<body>.+)$")
_ALIAS = re.compile(r"\s*-> [a-z_]+")
_NAME = re.compile(r"(?<![a-zA-Z\"])_(?=[a-z])")
_WIDTH = 100


@dataclass
class Section:
    title: str
    comments: list[str]
    rules: list[tuple[str, str]]


def document() -> str:
    """The text of ``docs/grammar.md``."""
    sections = list(_sections(GRAMMAR_FILE.read_text(encoding="utf-8")))
    return "\n".join([_INTRO, *(_printed(s) for s in sections)])


def _sections(text: str) -> Iterator[Section]:
    section = Section("Terminals and start rules", [], [])
    for line in _logical_lines(text):
        if title := _SECTION.match(line):
            yield section
            section = Section(title["title"], [], [])
        elif line.startswith("//"):
            section.comments.append(line.removeprefix("//").removeprefix(" "))
        elif rule := _RULE.match(line):
            section.rules.append((rule["name"].strip("_"), _body(rule["body"])))
    yield section


def _logical_lines(text: str) -> Iterator[str]:
    """Lines of the file; a rule and its continuations, which are indented, are one line."""
    pending = ""
    for line in text.splitlines():
        if line.startswith(" "):
            pending = f"{pending} {line.strip()}"
            continue
        yield pending
        pending = line
    yield pending


def _body(text: str) -> str:
    """The right side in EBNF: no aliases, no inlining marks, ``x?`` for ``[x]``."""
    plain = re.sub(r"\b(and|or)_\b", r"\1", _NAME.sub("", _ALIAS.sub("", text)))
    return re.sub(r"\[([^\[\]\s]+)\]", r"\1?", plain).replace("[", "(").replace("]", ")?")


def _printed(section: Section) -> str:
    rules = "\n".join(_rule(name, body) for name, body in section.rules)
    parts = [f"## {section.title}", "", *_comments(section)]
    return "\n".join([*parts, "```ebnf", rules, "```", ""] if rules else parts)


def _comments(section: Section) -> list[str]:
    """Comments of a section without rules keep their layout."""
    if not section.comments:
        return []
    return [*section.comments, ""] if section.rules else ["```text", *section.comments, "```", ""]


def _rule(name: str, body: str) -> str:
    line = f"{name} ::= {body}"
    if len(line) <= _WIDTH:
        return line
    choices = _choices(body)
    return f"{name} ::=\n    " + "\n  | ".join(choices)


def _choices(body: str) -> list[str]:
    """The alternatives at the top level, outside parentheses and quotes."""
    choices, depth, quoted = [""], 0, False
    for char in body:
        quoted ^= char == '"'
        depth += {"(": 1, ")": -1}.get(char, 0) * (not quoted)
        if char == "|" and depth == 0 and not quoted:
            choices.append("")
        else:
            choices[-1] += char
    return [choice.strip() for choice in choices]


def main(target: Path = DOCUMENT) -> None:
    target.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
