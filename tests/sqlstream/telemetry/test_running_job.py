"""A job on Spark is scraped while it runs, and after it has ended."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import sqlstream
from sqlstream.jobs import Job

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE clicks (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'json', 'source.monitor-interval' = '100 ms');
CREATE TABLE totals (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'json');
SET 'metrics.prometheus.port' = '0';
SET 'lineage.openlineage.file' = '{folder}/lineage.jsonl';
SET 'pipeline.name' = 'count clicks';
INSERT INTO totals SELECT k, COUNT(*) FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)
"""


def scraped(url: str) -> dict[str, float]:
    """The samples of the job, by name and the labels that are not the job's."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    samples = [sample for family in families for sample in family.samples]
    return {
        " ".join([s.name, *(v for label, v in s.labels.items() if label != "sqlstream_job_name")]): s.value
        for s in samples
        if s.labels.get("sqlstream_job_name", "count clicks") == "count clicks"
    }


def test_a_running_job_is_scraped(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()

    def write(name, *seconds):
        rows = [json.dumps({"k": "a", "ts": f"2026-01-01 00:00:{second:02}"}) + "\n" for second in seconds]
        (tmp_path / name).write_text("".join(rows))
        (tmp_path / name).rename(folder / name)

    write("1.json", 1, 2, 31)
    with sqlstream.connect(spark) as session:
        job = session.sql(TABLES.format(folder=tmp_path))
        assert isinstance(job, Job)
        url = session.open_metrics()
        assert url is not None
        job.checkpoint()
        write("2.json", 3, 32)
        job.checkpoint()
        while (shown := scraped(url)).get("sqlstream_source_rows_total clicks", 0) < 5:
            time.sleep(0.1)  # figures are at most a second old
        assert shown["sqlstream_source_io_bytes_total clicks"] == sum(f.stat().st_size for f in folder.iterdir())
        assert shown["sqlstream_operator_late_rows_total 0: WindowAggregate"] == 1
        assert shown["sqlstream_job_watermark_time_seconds"] >= 1767225631
        assert shown["sqlstream_job_watermark_lag_seconds"] > 0
        assert shown["sqlstream_epoch_duration_seconds_count"] >= 2
        assert shown["sqlstream_epoch_part_duration_seconds_total execution"] > 0
        assert shown["sqlstream_operator_time_seconds_total 0: WindowAggregate commit"] > 0
        assert shown["sqlstream_state_size_bytes 0: WindowAggregate"] > 0
        assert shown["sqlstream_job_state_entries"] >= shown["sqlstream_state_entries 0: WindowAggregate"] > 0
        assert shown["sqlstream_job_status RUNNING"] == 1
        assert shown["process_memory_usage_bytes jvm"] > 0
        job.stop()
        kinds = [json.loads(line)["eventType"] for line in (tmp_path / "lineage.jsonl").read_text().splitlines()]
        assert kinds == ["START", "ABORT"]
        ended = scraped(url)
        assert (ended["sqlstream_job_status STOPPED"], ended["sqlstream_job_status RUNNING"]) == (1, 0)
        assert ended["sqlstream_sink_rows_total totals"] >= 1
        stored = sum(file.stat().st_size for file in (tmp_path / "out").glob("*.json"))
        assert ended["sqlstream_sink_io_bytes_total totals"] == stored > 0
        with urllib.request.urlopen(f"{url}/health") as answer:
            assert json.loads(answer.read())["jobs"][0]["state"] == "STOPPED"
