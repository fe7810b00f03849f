"""The registry of metrics, and what is made of it: exposition, dashboard, alerts."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sqlstream.cli import run
from sqlstream.jobs.reports.progress import Progress
from sqlstream.telemetry.alerts import ALERTS, alert_rules, alerts_text, series
from sqlstream.telemetry.dashboard import dashboard
from sqlstream.telemetry.epochs import EpochTotals
from sqlstream.telemetry.exposition import Exposition, JobCollector
from sqlstream.telemetry.instruments import ALL, JOB_INSTRUMENTS, Distribution, Kind, label
from sqlstream.telemetry.processes import ProcessFigures, process_figures
from sqlstream.yaml_text import yaml_text
from tests.sqlstream.telemetry.figures import NOW, figures, with_pending_rows

PROCESSES = ProcessFigures({"driver": 10, "jvm": 20}, {"driver": 1.5})


def exposed(*jobs, accept=""):
    collector = JobCollector(lambda: jobs, now=lambda: NOW, processes=lambda: PROCESSES)
    body, _ = Exposition(collector).text(accept)
    return body.decode()


def samples(*jobs):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposed(*jobs))
        for sample in family.samples
    }


def value(name, /, job="totals", **labels):
    own = {} if name.startswith("process_") else {"sqlstream_job_name": job}
    return samples(figures())[name, tuple(sorted({**own, **labels}.items()))]


# --- the registry ---------------------------------------------------------------------------------------------


def test_names_follow_opentelemetrys_rules():
    names = [instrument.name for instrument in ALL]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+(_[a-z]+)*)+", name) for name in names)
    assert not [name for name in names if any(other.startswith(f"{name}.") for other in names)], (
        "a name is no namespace"
    )
    assert all(re.fullmatch(r"s|By|\{[a-z]+\}", instrument.unit) for instrument in ALL)


def test_series_of_prometheus_are_unique_and_end_with_their_unit():
    shown = [instrument.series for instrument in ALL]
    assert len(set(shown)) == len(shown)
    assert series("sqlstream.source.io") == "sqlstream_source_io_bytes_total"
    assert series("sqlstream.job.watermark.lag") == "sqlstream_job_watermark_lag_seconds"


@pytest.mark.parametrize("instrument", JOB_INSTRUMENTS, ids=lambda instrument: instrument.name)
def test_each_sample_has_a_value_for_each_attribute(instrument):
    read = list(instrument.read(with_pending_rows(), NOW))
    assert read
    assert all(len(sample.attributes) == len(instrument.attributes) for sample in read)
    assert all(isinstance(sample.value, Distribution) == (instrument.kind is Kind.HISTOGRAM) for sample in read)


def test_a_job_that_has_just_started_has_no_values_that_are_not_known():
    fresh = figures(progress=Progress(), epochs=EpochTotals())
    names = {name for name, _ in samples(fresh)}
    assert "sqlstream_job_watermark_lag_seconds" not in names
    assert "sqlstream_epoch_last" not in names
    assert "sqlstream_job_uptime_seconds" in names


def test_a_job_that_has_ended_has_totals_and_no_lags():
    names = {name for name, _ in samples(figures(state="FINISHED"))}
    assert "sqlstream_source_rows_total" in names
    assert not {"sqlstream_job_watermark_lag_seconds", "sqlstream_job_uptime_seconds"} & names


# --- exposition -----------------------------------------------------------------------------------------------


def test_values_are_those_of_the_job():
    assert value("sqlstream_source_rows_total", sqlstream_table="bids") == 30
    assert value("sqlstream_source_io_bytes_total", sqlstream_table="bids") == 120
    assert value("sqlstream_sink_rows_total", sqlstream_table="totals") == 4
    assert value("sqlstream_sink_rows_total", sqlstream_table="other") == 6
    assert value("sqlstream_sink_io_bytes_total", sqlstream_table="totals") == 64
    assert value("sqlstream_sink_io_bytes_total", sqlstream_table="topic") == 8
    partition = {"messaging_destination_name": "t", "messaging_destination_partition_id": "0"}
    assert value("sqlstream_source_partition_rows_total", **partition) == 10
    assert value("sqlstream_source_partition_offset", **partition) == 10
    assert value("sqlstream_source_partition_io_bytes_total", **partition) == 30
    assert value("sqlstream_source_io_bytes_total", sqlstream_table="clicks") == 32
    assert value("sqlstream_operator_late_rows_total", sqlstream_operator="0: WindowAggregate") == 3
    assert value("sqlstream_job_watermark_lag_seconds") == 60
    assert value("sqlstream_job_status", sqlstream_job_state="RUNNING") == 1
    assert value("sqlstream_job_status", sqlstream_job_state="FAILED") == 0
    assert value("process_memory_usage_bytes", sqlstream_process="jvm") == 20
    assert value("sqlstream_operator_time_seconds_total", sqlstream_operator="0: WindowAggregate",
                 sqlstream_operator_phase="update") == pytest.approx(0.18)  # fmt: skip


def test_state_is_that_of_each_operator_whoever_runs_it():
    job = figures(epochs=replace(figures().epochs, native_state={"0: dedupe": (5, 17)}))
    read = {
        i.name: {s.attributes[0]: s.value for s in i.read(job, NOW)}
        for i in JOB_INSTRUMENTS
        if ".state." in i.name[:16]
    }
    assert read == {
        "sqlstream.state.entries": {"0: WindowAggregate": 7, "0: dedupe": 5},
        "sqlstream.state.size": {"0: WindowAggregate": 4096, "0: dedupe": 17},
    }


def test_durations_are_a_histogram_of_seconds():
    assert value("sqlstream_epoch_duration_seconds_bucket", le="0.5") == 1
    assert value("sqlstream_epoch_duration_seconds_bucket", le="10") == 2
    assert value("sqlstream_epoch_duration_seconds_count") == 2
    assert value("sqlstream_epoch_duration_seconds_sum") == 7.5
    assert value("sqlstream_lookup_duration_seconds_bucket", sqlstream_lookup="0: planes", le="+Inf") == 4


def test_names_of_tables_are_escaped():
    strange = figures('my "job"\n')
    assert 'sqlstream_job_name="my \\"job\\"\\n"' in exposed(strange)
    assert {labels["sqlstream_job_name"] for labels in _labels(strange)} == {'my "job"\n'}


def _labels(job):
    families = text_string_to_metric_families(exposed(job))
    return [s.labels for family in families for s in family.samples if "sqlstream_job_name" in s.labels]


def test_openmetrics_is_written_where_it_is_asked_for():
    assert exposed(figures(), accept="application/openmetrics-text; version=1.0.0").endswith("# EOF\n")


# --- memory ---------------------------------------------------------------------------------------------------


def test_memory_is_that_of_the_process_its_java_and_its_workers(tmp_path):
    def process(pid, name, parent, pages):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", parent, *[0] * 9, 100, 50, *[0] * 8, pages, 0]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")

    for pid, name, parent, pages in [
        (5, "py (x)", 1, 10),
        (6, "java", 5, 20),
        (7, "python", 6, 3),
        (8, "python", 7, 4),
    ]:
        process(pid, name, parent, pages)
    process(9, "java", 1, 1000)
    shown = process_figures(tmp_path, 5)
    page = shown.memory["driver"] // 10
    assert shown.memory == {"driver": 10 * page, "jvm": 20 * page, "workers": 7 * page}
    assert shown.cpu_seconds["workers"] == pytest.approx(2 * shown.cpu_seconds["jvm"])
    for pid in (7, 8):  # both have the memory in which workers keep state
        (tmp_path / str(pid) / "status").write_text(f"Name:\tpython\nRssShmem:\t{2 * page >> 10} kB\n")
    assert process_figures(tmp_path, 5).memory["workers"] == 5 * page


def test_processor_time_of_workers_that_have_ended_still_counts(tmp_path):
    """Else the counter falls when Spark ends idle workers, which Prometheus takes for a restart from nothing."""

    def write(pid, name, parent, own, reaped):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        fields = ["S", parent, *[0] * 9, own, 0, reaped, 0, *[0] * 6, 1, 0]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")

    for process in [(5, "python", 1, 10, 0), (6, "java", 5, 20, 0), (7, "python", 6, 3, 0), (8, "python", 7, 400, 0)]:
        write(*process)
    before = process_figures(tmp_path, 5).cpu_seconds
    (tmp_path / "8" / "stat").unlink()
    (tmp_path / "8").rmdir()
    write(7, "python", 6, 3, 400)
    assert process_figures(tmp_path, 5).cpu_seconds == before
    (tmp_path / "7" / "stat").unlink()
    (tmp_path / "7").rmdir()
    write(6, "java", 5, 20, 403)
    assert process_figures(tmp_path, 5).cpu_seconds == before


def test_memory_is_left_out_where_the_system_does_not_say(tmp_path):
    assert process_figures(tmp_path / "none") == ProcessFigures()


# --- dashboard and alerts -------------------------------------------------------------------------------------


def _names_in(expression):
    return set(re.findall(r"\b(?:sqlstream|process)_\w+(?=[{\[ )]|$)", expression)) - {"sqlstream_job_name"}


def _series_that_exist():
    return {name for name, _ in samples(with_pending_rows())}


def test_the_dashboard_asks_for_series_that_exist_and_has_a_panel_for_each_metric():
    panels = [panel for panel in dashboard()["panels"] if panel["type"] == "timeseries"]
    assert len(panels) == len(ALL)
    names = {n for p in panels for t in p["targets"] for n in _names_in(t["expr"].partition("(le,")[2] or t["expr"])}
    own = {label(a) for i in ALL for a in i.attributes}
    assert names - own <= _series_that_exist()


def test_panels_do_not_lie_on_each_other():
    taken = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in dashboard()["panels"]
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alerts_ask_for_series_that_exist(alert):
    labels = {label(a) for i in ALL for a in i.attributes}
    assert _names_in(alert.condition) - labels <= _series_that_exist()


def test_rules_are_yaml():
    assert yaml.safe_load(alerts_text()) == alert_rules()


def test_commands_print_them(capsys):
    assert run(["metrics", "dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == dashboard()
    assert run(["metrics", "alerts"]) == 0
    assert capsys.readouterr().out == alerts_text()
    assert run(["metrics", "list", "-o", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == [instrument.name for instrument in ALL]


_TEXTS = st.text(" ab:#-?'\"\\\n\t\r\x7f\x85\xa0\u2028\ufeff\U0001123f{}[]&*!|>%@`~0.yn,=", max_size=6)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=3))
def test_yaml_says_what_it_was_given(document):
    assert yaml.safe_load(yaml_text(document)) == document


def test_texts_of_several_lines_are_blocks():
    text = yaml_text({"script": "SET 'a' = 'b';\n\nSELECT 1\n", "words": ["yes", "plain", "0755"]})
    assert text == "script: |\n  SET 'a' = 'b';\n\n  SELECT 1\nwords:\n  - \"yes\"\n  - plain\n  - \"0755\"\n"
