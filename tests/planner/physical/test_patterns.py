"""Which regular expressions tasks match in place of Spark."""

from __future__ import annotations

import pytest

from sqlstream.planner.physical.patterns import with_named_groups


def test_groups_have_the_names_of_their_numbers():
    assert with_named_groups("(&|^)id=(([^&]*))x+?") == ("(?P<g0>(?P<g1>&|^)id=(?P<g2>(?P<g3>[^&]*))x+?)", 3)
    assert with_named_groups("") == ("(?P<g0>)", 0)
    assert with_named_groups("[A-Z0-9]+-[a&.$]|b") == ("(?P<g0>[A-Z0-9]+-[a&.$]|b)", 0)


@pytest.mark.parametrize(
    "pattern",
    [
        "a$", "a.b", "\\d", "(a)+", "(a)?", "(?:a)", "(?i)a", "a*+", "a++", "a{2}", "[[:alpha:]]", "[a&&b]",
        "[^]]", "[]a]",
        "[a-]", "(a", "a)", "é", "*a", "[a", "(a){2}", "a*{2}",
    ],
)  # fmt: skip
def test_others_are_matched_by_spark(pattern: str):
    assert with_named_groups(pattern) is None
