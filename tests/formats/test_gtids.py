"""Sets of transactions, in the texts of both servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.gtids import MariaDbGtids, MySqlGtids

_SERVERS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562")
_Transactions = set[tuple[str, int]]
_transactions = st.sets(st.tuples(st.sampled_from(_SERVERS), st.integers(1, 12)), max_size=14)


def event(server: str, number: int) -> bytes:
    """That of MySQL with which a transaction begins."""
    return bytes(20) + bytes.fromhex(server.replace("-", "")) + number.to_bytes(8, "little")


def of(transactions: _Transactions) -> MySqlGtids:
    return MySqlGtids.of(",".join(f"{server}:{number}" for server, number in transactions))


@given(_transactions, _transactions)
def test_sets_of_mysql_are_sets(some: _Transactions, others: _Transactions):
    assert (of(some) <= of(others)) == (some <= others)
    assert (of(some) < of(others)) == (some < others)
    assert (of(some) == of(others)) == (some == others) == (str(of(some)) == str(of(others)))


@given(st.lists(st.tuples(st.sampled_from(_SERVERS), st.integers(1, 12)), unique=True))
def test_transactions_are_added_in_any_order(transactions: list[tuple[str, int]]):
    read = MySqlGtids()
    for server, number in transactions:
        read = read.with_transaction(event(server, number))
    assert read == of(set(transactions))
    assert MySqlGtids.of(str(read)) == read


def test_texts_of_mysql():
    one, other = _SERVERS
    assert str(MySqlGtids.of(f"{one.upper()}:5:1-3:4,\n {other}:7")) == f"{one}:1-5,{other}:7"
    assert str(MySqlGtids.of(f"{one}:1-3:backup:1:3")) == f"{one}:1-3,{one}:backup:1:3"
    assert str(MySqlGtids.of("")) == ""
    with pytest.raises(ValueError, match="0-1-5"):
        MySqlGtids.of("0-1-5")


def test_texts_of_mariadb():
    state = MariaDbGtids.of("1-2-7,0-1-270")
    assert str(state) == "0-1-270,1-2-7"
    assert MariaDbGtids.of("0-9-269") < state
    assert not state <= MariaDbGtids.of("0-1-270")
    assert MariaDbGtids() < state <= state
    with pytest.raises(ValueError, match="unpack"):
        MariaDbGtids.of("0-1")
