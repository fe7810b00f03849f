"""A changelog amounts to the table that its changes leave."""

from __future__ import annotations

import pytest

from sqlstream.testing.values import merge


def test_rows_of_a_key_replace_each_other():
    changes = [("+I", "a", 1), ("+I", "b", 2), ("-U", "a", 1), ("+U", "a", 5), ("-D", "b", 2)]
    assert merge(changes, [0]) == [("a", 5)]


def test_an_upsert_needs_no_withdrawal():
    assert merge([("+I", "a", 1), ("+U", "a", 2)], [0]) == [("a", 2)]


def test_a_deleted_key_may_come_again():
    assert merge([("+I", "a", 1), ("-D", "a", 1), ("+I", "a", 3)], [0]) == [("a", 3)]


def test_equal_rows_without_a_key_are_counted():
    assert merge([("+I", 1), ("+I", 1), ("-D", 1)]) == [(1,)]


def test_withdrawing_what_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="withdraws a row that is not there"):
        merge([("-D", 1)])


def test_keys_may_be_arrays():
    assert merge([("+I", [1], 1), ("+U", [1], 2)], [0]) == [([1], 2)]
