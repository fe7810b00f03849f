"""Positions of logs by global transaction identifiers."""

from __future__ import annotations

import uuid

import pytest

from sqlstream.formats.gtids import GtidPosition, GtidSet, gtids_of


def test_texts():
    position = GtidPosition.of("1-2-7,\n0-1-270")
    assert str(position) == "0-1-270,1-2-7"
    assert position == GtidPosition.of("0-1-270,1-2-7")
    assert str(GtidPosition.of("")) == ""
    for text in ("0-1", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "0-1-270;1-1-1"):
        with pytest.raises(ValueError, match=r"unpack|invalid"):
            GtidPosition.of(text)


def test_a_transaction_is_the_last_one_of_its_domain():
    event = bytes(5) + (9).to_bytes(4, "little") + bytes(10) + (271).to_bytes(8, "little")
    for domain, text in ((0, "0-9-271"), (7, "0-1-270,7-9-271")):
        with_domain = event + domain.to_bytes(4, "little") + b"\0"
        assert str(GtidPosition.of("0-1-270").with_transaction(with_domain)) == text


_ONE, _TWO = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_texts_of_mysql():
    found = gtids_of(f"{_TWO.upper()}:7,\n{_ONE}:1-3:5 : 4:9-11")
    assert str(found) == f"{_ONE}:1-5:9-11,{_TWO}:7"
    assert isinstance(gtids_of("0-1-270"), GtidPosition)
    assert str(GtidSet.of(f"{_ONE}:1-2:Blue:1:2")) == f"{_ONE}:1-2,{_ONE}:blue:1-2"
    for text in ("3e11fa47:1-5", _ONE, f"{_ONE}:", f"{_ONE}:0", f"{_ONE}:5-3"):
        with pytest.raises(ValueError):
            GtidSet.of(text)


def test_sets_of_mysql():
    some = GtidSet.of(f"{_ONE}:2-4,{_TWO}:7")
    assert some <= GtidSet.of(f"{_ONE}:1-9,{_TWO}:7-8")
    assert not some <= GtidSet.of(f"{_ONE}:1-3:5-9,{_TWO}:7")
    assert not some <= GtidSet.of(f"{_ONE}:1-9")
    assert (_ONE, 4) in some
    assert (_ONE, 5) not in some
    assert (_TWO, 7) in some
    for number, text in ((5, f"{_ONE}:2-5,{_TWO}:7"), (9, f"{_ONE}:2-4:9,{_TWO}:7"), (1, f"{_ONE}:1-4,{_TWO}:7")):
        event = bytes(20) + uuid.UUID(_ONE).bytes + number.to_bytes(8, "little")
        assert str(some.with_transaction(event)) == text
