"""Positions of MariaDB's log by global transaction identifiers."""

from __future__ import annotations

import pytest

from sqlstream.formats.gtids import GtidPosition


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
