"""The words behind ``stream``."""

from __future__ import annotations

import pytest

from sqlstream.testing.golden_format import StreamOptions, stream_options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", StreamOptions()),
        ("table", StreamOptions(table=True)),
        ("table by a", StreamOptions(table=True, key=("a",))),
        ("table by a, b unordered", StreamOptions(table=True, key=("a", "b"), unordered=True)),
        ("unordered tolerance 0.01", StreamOptions(unordered=True, tolerance=0.01)),
        ("tolerance 1e-3", StreamOptions(tolerance=0.001)),
    ],
)
def test_words_are_options(text, options):
    assert stream_options(text) == options


@pytest.mark.parametrize(
    "text",
    ["fast", "by a", "table by", "table by a,", "table by a b", "tolerance", "tolerance -1", "tolerance x",
     "tolerance nan", "unordered table"],
)  # fmt: skip
def test_other_words_are_refused(text):
    with pytest.raises(ValueError):
        stream_options(text)
