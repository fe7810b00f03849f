"""What ``make check-psql`` counts as a whole epoch, and what not."""

from __future__ import annotations

import pytest

from examples.views.psql import SeenByPsql
from examples.views.served import SHOPS


def read(epoch, count, newest=3, shops=range(SHOPS)):
    return [f"{epoch},{shop},{count},{newest}" for shop in shops]


def test_whole_epochs_are_counted_once():
    seen = SeenByPsql()
    seen.take([], now=5.0)
    for lines in (read(0, 4, 0), read(1, 8, 1), read(1, 8, 1)):
        seen.take(lines, now=5.0)
    assert (seen.reads, seen.epochs, seen.broken, seen.back) == (4, {0, 1}, 0, 0)
    assert seen.visible == {0: 5.0, 1: 5.0}


@pytest.mark.parametrize(
    "lines",
    [
        read(2, 8, shops=range(SHOPS - 1)),
        read(2, 8, shops=[*range(SHOPS - 1), 0]),
        [*read(2, 8, shops=range(SHOPS - 1)), f"2,{SHOPS - 1},12,3"],
        [*read(2, 8, shops=range(SHOPS - 1)), f"2,{SHOPS - 1},8,4"],
        read(1, 8),  # which had other rows before
        read("", 8),
    ],
    ids=["a shop is missing", "one is there twice", "one has more rows", "one has a newer file", "changed", "no epoch"],
)
def test_everything_else_is_no_whole_epoch(lines):
    seen = SeenByPsql()
    seen.take(read(1, 4), now=0)
    seen.take(lines, now=0)
    assert (seen.broken, seen.epochs) == (1, {1})


def test_an_older_epoch_is_one_that_went_back():
    seen = SeenByPsql()
    seen.take(read(2, 8), now=0)
    seen.take(read(1, 4), now=0)
    assert (seen.broken, seen.back) == (0, 1)
