"""What Flink's documentation writes is taken, or refused with the reason that the list says."""

from __future__ import annotations

import pytest

from tests.flink.listing import Listed, listed, mistakes

ENTRIES = listed()


@pytest.mark.parametrize("entry", [e for e in ENTRIES if not e.due], ids=lambda entry: entry.title)
def test_a_statement_of_flink_is_taken_or_refused_as_listed(entry: Listed) -> None:
    found = mistakes(entry)
    shown = "\n".join(d.render() for d in found)
    if entry.reason is None:
        assert not found, shown
    else:
        assert found and found[0].code == entry.code, shown or "it is accepted"


def test_the_list_is_long_and_names_no_table_twice() -> None:
    assert len(ENTRIES) >= 250
    assert len({e.title for e in ENTRIES}) == len(ENTRIES)
    assert all(e.code for e in ENTRIES if e.reason)
