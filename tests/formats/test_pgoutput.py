"""Messages of pgoutput as PostgreSQL 16 has sent them, and as its documentation describes them."""

from __future__ import annotations

import numpy as np
import pytest

from sqlstream.formats.pgoutput import (
    Commit,
    Messages,
    Relation,
    RelationColumn,
    Snapshot,
    StreamCommit,
    begin_message,
    changes_of,
    transactions_of,
    truncated,
    without_owner,
)

BEGIN = bytes.fromhex("42000000000 14a92b0 00030447a2321bc1 000002dd".replace(" ", ""))
RELATION = bytes.fromhex(
    "5200004000 7075626c696300 7400 64 0003 01 696400 00000014 ffffffff 00 7600 00000019 ffffffff"
    "00 6e00 00000017 ffffffff".replace(" ", "")
)
COMMIT = bytes.fromhex("4300 00000000014a9200 00000000014a92b0 00030447a2321bc1".replace(" ", ""))


def row(*values: str | None, unchanged: tuple[int, ...] = ()) -> bytes:
    found = len(values).to_bytes(2, "big")
    for n, value in enumerate(values):
        text = (value or "").encode()
        found += b"u" if n in unchanged else b"n" if value is None else b"t" + len(text).to_bytes(4, "big") + text
    return found


def message(kind: str, relation: int, *rows: tuple[str, bytes]) -> bytes:
    return kind.encode() + relation.to_bytes(4, "big") + b"".join(mark.encode() + content for mark, content in rows)


def messages(*given: bytes) -> Messages:
    ends = np.cumsum([len(m) for m in given])
    return Messages(np.frombuffer(b"".join(given), np.uint8), np.concatenate(([0], ends[:-1])))


def test_a_relation_says_which_columns_follow():
    columns = (RelationColumn("id", 20, True), RelationColumn("v", 25, False), RelationColumn("n", 23, False))
    assert Relation.of(RELATION) == Relation(0x4000, "public", "t", "d", columns)


def test_a_commit_says_where_it_is_and_where_the_next_transaction_may_begin():
    assert Commit.of(COMMIT) == Commit(0x14A9200, 0x14A92B0)


def test_a_running_transaction_is_read_like_others_when_it_is_committed():
    """As the documentation describes its messages: each has the number of its (sub-)transaction."""
    number = (0x2DD).to_bytes(4, "big")
    assert without_owner(b"I" + number + b"rest") == (0x2DD, b"Irest")
    commit = StreamCommit.of(b"c" + number + COMMIT[1:])
    assert (commit.transaction, commit.at, commit.end) == (0x2DD, 0x14A9200, 0x14A92B0)
    begin = begin_message(0x2DD, commit.at, commit.time)
    assert len(begin) == len(BEGIN) == len(begin_message(1))
    assert transactions_of(messages(begin), (0, 0)).last == transactions_of(messages(BEGIN), (0, 0)).last


def test_truncate_names_tables():
    assert truncated(b"T" + (2).to_bytes(4, "big") + b"\0" + bytes.fromhex("0000400000004001")) == [0x4000, 0x4001]


def test_messages_are_of_the_transaction_that_began_last():
    other = BEGIN[:-4] + (99).to_bytes(4, "big")
    found = transactions_of(messages(COMMIT, BEGIN, RELATION, COMMIT, other), (7, 0))
    assert found.numbers.tolist() == [7, 0x2DD, 0x2DD, 0x2DD, 99]
    assert found.last == (99, 0x00030447A2321BC1)


def test_rows_are_read_column_by_column():
    relation = Relation.of(RELATION)
    some = messages(
        message("I", 0x4000, ("N", row("1", "a", None))),
        message("I", 0x4001, ("N", row("1"))),  # of another table
        message("U", 0x4000, ("N", row("1", None, "5", unchanged=(1,)))),
        message("U", 0x4000, ("K", row("1", None, None)), ("N", row("2", "", "5"))),
        message("U", 0x4000, ("O", row("2", "long", "5")), ("N", row("2", None, "6", unchanged=(1,)))),
        message("D", 0x4000, ("O", row("2", "ü", "6"))),
    )
    changes = changes_of(some, [relation])
    assert bytes(changes.kinds) == b"IUUUD"
    assert changes.messages.tolist() == [0, 2, 3, 4, 5]
    assert changes.whole.tolist() == [False, False, False, True, True]
    assert [c.texts(some.data).to_pylist() for c in changes.new] == [
        ["1", "1", "2", "2"], ["a", None, "", "long"], [None, "5", "5", "6"],
    ]  # fmt: skip
    assert [c.texts(some.data).to_pylist() for c in changes.old] == [
        ["1", "2", "2"], [None, "long", "ü"], [None, "5", "6"],
    ]  # fmt: skip
    assert changes.new_rows.tolist() == [0, 1, 2, 3, -1]
    assert changes.old_rows.tolist() == [-1, -1, 0, 1, 2]
    assert chr(changes.new[1].kinds[1]) == "u", "no old row has it"


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_snapshot_sees_transactions_whose_numbers_have_wrapped_around(epoch: int):
    base = epoch << 32
    snapshot = Snapshot.of(f"{base + 100}:{base + 110}:{base + 100},{base + 105}")
    numbers = np.array([99, 100, 101, 105, 109, 110, 4_294_967_290])
    assert snapshot.sees(numbers).tolist() == [True, False, True, False, True, False, True]
    at_the_edge = Snapshot.of(f"{base + (1 << 32) - 2}:{base + (1 << 32) + 2}:")
    assert at_the_edge.sees(np.array([4_294_967_295, 0, 1, 2, 3])).tolist() == [True, True, True, False, False]
