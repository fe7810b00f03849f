"""The part of the fault test with topics on little: what is planned and declared, and what failures must say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sqlstream.session import Session
from tests.faults import topic_fleet, topics
from tests.faults.kafka_cluster import LOGIN
from tests.faults.running import Fleet
from tests.faults.struck import Records
from tests.faults.topic_fleet import KINDS
from tests.faults.topics import FAULTS, THIRTY, planned


def test_thirty_strikes_are_of_every_fault_in_an_order_that_repeats() -> None:
    strikes = planned(THIRTY, random.Random(1))
    assert {fault: strikes.count(fault) for fault in FAULTS} == FAULTS
    assert strikes == planned(THIRTY, random.Random(1)) != planned(THIRTY, random.Random(2))
    assert sorted(planned(len(FAULTS), random.Random(1))) == sorted(FAULTS)


@pytest.mark.parametrize("name", KINDS)
def test_the_tables_are_declared_as_they_are_allowed_to_be(name: str) -> None:
    kind = KINDS[name]
    given = {"prefix": "p", "brokers": "h:1", "login": LOGIN, "more": ", 'on-error' = 'skip'"}
    source = topic_fleet._SOURCE.format(
        name=f"{name}_read", columns=kind.columns, topic=kind.topic,
        format=kind.format.format(registry="http://r"), **given,
    )  # fmt: skip
    sink = topic_fleet._SINK.format(name=name, columns=kind.written, **given)
    assert Session().check(f"{source}{sink}INSERT INTO {name} {kind.work}") == ()


def test_failures_that_somebody_has_to_mend_must_say_how(tmp_path: Path) -> None:
    records = Records(Fleet(tuple(KINDS), tmp_path, tmp_path))
    records.of("copies", "poison").failed.append("SS402: a row cannot be read")
    records.of("totals", "poison").failed.append("SS402: a row cannot be read\nHINT: The option 'on-error' skips it.")
    records.of("totals", "broker stop").failed.append("SS590: brokers do not answer")
    assert topics._unhelpful(records) == ["SS402: a row cannot be read"]
