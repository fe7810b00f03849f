"""Words of ``-k``."""

from __future__ import annotations

import pytest

from sqlstream.testing.suite import selection

NAME = "tests/revenue.golden::12-stream late rows are dropped"


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        ("late", True),
        ("LATE", True),
        ("session", False),
        ("not session", True),
        ("late and stream", True),
        ("late and session or revenue", True),
        ("late and (session or slow)", False),
        ("not (late or slow)", False),
        ('"late rows"', True),
        ('"rows late"', False),
    ],
)
def test_words_select_by_name(words, selected):
    assert selection(words)(NAME) is selected


@pytest.mark.parametrize("words", ["", "and a", "a or", "(a", "a)", "a b", "not"])
def test_what_is_no_expression_is_refused(words):
    with pytest.raises(ValueError, match=r"missing|not expected"):
        selection(words)
