"""kill -9 of jobs that write Kafka exactly once, at random moments: readers see whole micro-batches, each once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sqlstream.testing.kafka_broker import Broker
from tests.faults.processes import kill_all
from tests.sqlstream.connectors.test_kafka_sink import values
from tests.sqlstream.connectors.test_kafka_source import Topics

pytestmark = [pytest.mark.spark, pytest.mark.long]

_MESSAGES, _OF_EPOCH, _KILLS = 6000, 100, 5

_JOB = """
CREATE TABLE numbers (n INT) WITH ('connector' = 'kafka', 'topic' = '{source}', 'format' = 'json',
    'properties.bootstrap.servers' = '{address}', 'scan.startup.mode' = 'earliest-offset',
    'scan.bounded.mode' = 'latest-offset', 'source.max-rows-per-trigger' = '{rows}');
CREATE TABLE copies (n INT) WITH ('connector' = 'kafka', 'topic' = '{target}', 'format' = 'json', 'key.fields' = 'n',
    'properties.bootstrap.servers' = '{address}', 'sink.delivery-guarantee' = 'exactly-once',
    'sink.transactional-id-prefix' = '{target}', 'topic.create' = 'true', 'topic.partitions' = '3');
INSERT INTO copies SELECT n FROM numbers
"""


def test_readers_see_whole_epochs_once_whenever_the_job_is_killed(kafka_broker: Broker, tmp_path: Path):
    topics, target = Topics(kafka_broker), "copies-of-numbers"
    source = topics.create()
    topics.send(source, *(json.dumps({"n": n}).encode() for n in range(_MESSAGES)))
    script = tmp_path / "job.sql"
    script.write_text(_JOB.format(source=source, target=target, address=topics.address, rows=_OF_EPOCH))
    command = [sys.executable, "-m", "sqlstream", "run", str(script), "--master", "local[2]"]
    command += ["--set", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}", "--set", "pipeline.name=copies"]
    chance, counts = random.Random(7), [0]

    def epochs() -> int:
        return len(list((tmp_path / "checkpoints").glob("*/spark/commits/[0-9]*")))

    for _ in range(_KILLS):
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=os.environ)
        before, deadline = epochs(), time.monotonic() + 120
        while epochs() < before + 2:
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.02)
        time.sleep(chance.random())
        kill_all(process.pid)
        process.wait()
        numbers = _numbers(topics, target)
        assert len(numbers) % _OF_EPOCH == 0 and numbers == list(range(len(numbers)))
        counts.append(len(numbers))
    assert counts == sorted(counts) and counts[1] > 0 and counts[-1] < _MESSAGES
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert _numbers(topics, target) == list(range(_MESSAGES))


def _numbers(topics: Topics, topic: str) -> list[int]:
    return sorted(json.loads(value)["n"] for value in values(topics, topic))
