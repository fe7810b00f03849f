"""Every example of the dialect parses, prints, and parses again to the same tree."""

from __future__ import annotations

import pytest

from sqlstream.grammar import format_script, parse_script, to_sql
from tests.grammar.dialect_examples import CHAPTERS

EXAMPLES = [
    pytest.param(text, id=f"{chapter}-{i}") for chapter, texts in CHAPTERS.items() for i, text in enumerate(texts)
]


def test_there_are_well_over_a_hundred_examples() -> None:
    assert len(EXAMPLES) > 200


@pytest.mark.parametrize("text", EXAMPLES)
def test_printed_example_parses_to_the_same_tree(text: str) -> None:
    for statement in parse_script(text):
        printed = to_sql(statement)
        assert parse_script(printed) == (statement,), printed
        assert "\n" not in printed


@pytest.mark.parametrize("text", EXAMPLES)
def test_formatted_example_means_the_same_and_stays_as_it_is(text: str) -> None:
    formatted = format_script(text)
    assert parse_script(formatted) == parse_script(text)
    assert format_script(formatted) == formatted


@pytest.mark.parametrize("text", EXAMPLES)
def test_keywords_are_read_in_any_case(text: str) -> None:
    lowered = "".join(part if i % 2 else part.lower() for i, part in enumerate(text.split("'")))
    if "'" not in text and "`" not in text and '"' not in text:
        assert [to_sql(s).lower() for s in parse_script(lowered)] == [to_sql(s).lower() for s in parse_script(text)]
