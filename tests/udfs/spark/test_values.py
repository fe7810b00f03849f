"""Values of state as text."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.spark.state_server import from_texts, to_texts

VALUES = st.binary(max_size=40) | st.builds(lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 90))


@given(st.lists(VALUES))
def test_values_become_texts_of_ascii_and_come_back(values):
    texts = list(to_texts(values))
    assert all(text.isascii() for text in texts)
    assert from_texts(texts) == values


@pytest.mark.parametrize("size", [0, 1, 7, 127, 128, 1 << 16, 300_000])
def test_values_of_any_size_that_no_codec_makes_shorter(size):
    values = [os.urandom(size) for _ in range(3)]
    assert from_texts(list(to_texts(values))) == values
    assert from_texts([list(to_texts(values))[1]]) == [values[1]], "each by itself"


def test_what_repeats_is_kept_once():
    (text,) = to_texts([b"seven of nine" * 1000])
    assert len(text) < 200
