"""What the benchmark over Kafka asks of Flink, and makes of its answer."""

from __future__ import annotations

import pytest

from examples.nexmark.flink import OnFlink
from examples.throughput.formats import QUERIES
from examples.throughput.kafka_flink import rows_per_second, script


def test_flink_reads_what_is_there_into_blackhole():
    text = script("host:1", "json", QUERIES["TUMBLE"][1])
    assert "'topic' = 'json'" in text and "'scan.bounded.mode' = 'latest-offset'" in text
    assert "`at` TIMESTAMP(3)" in text and "TUMBLE(`at`, INTERVAL" in text  # AT is a word of its grammar
    assert "json.timestamp-format" not in script("host:1", "csv", "SELECT 1")


def test_messages_per_second_are_of_the_whole_statement(capsys: pytest.CaptureFixture[str]):
    assert rows_per_second(3000, OnFlink(2.0, 3.0, 100)) == 1500
    assert rows_per_second(3000, "no such topic") is None
    assert capsys.readouterr().err == "Flink: no such topic\n"
