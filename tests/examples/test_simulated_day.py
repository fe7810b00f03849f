"""A simulated day: the times of its events, what is read of the endpoint of metrics, and what counts as flat."""

from __future__ import annotations

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from examples.throughput import simulated_day
from examples.throughput.simulated_day import (
    BEGIN_S,
    MOST_GROWTH,
    Scrape,
    figures,
    growth,
    scraped,
    verdict,
    write_second,
)
from sqlstream.cli import run

EXPOSED = """# TYPE sqlstream_source_rows counter
sqlstream_source_rows_total{sqlstream_job_name="a",sqlstream_table="t"} 500
sqlstream_source_rows_total{sqlstream_job_name="a",sqlstream_table="u"} 100
# TYPE process_memory_usage_bytes gauge
process_memory_usage_bytes{sqlstream_process="jvm"} 1048576
process_memory_usage_bytes{sqlstream_process="driver"} 2097152
"""


def test_times_run_as_many_times_as_fast_as_the_clock(tmp_path):
    write_second(tmp_path, 3, 1_000, 100)
    (file,) = tmp_path.iterdir()
    times = pc.divide(pq.read_table(file)["ts"].cast("int64"), 1000).to_numpy() - BEGIN_S
    in_time = times[times > 0]  # the others are two hours late
    assert len(in_time) >= 990
    assert in_time.min() >= 270 and in_time.max() <= 400


def test_the_script_is_right(tmp_path):
    (tmp_path / "day.sql").write_text(simulated_day._SCRIPT.format(folder=tmp_path))
    assert run(["check", str(tmp_path / "day.sql")]) == 0


def test_figures_are_those_of_the_endpoint(tmp_path):
    (tmp_path / "metrics").write_text(EXPOSED)
    scrape = scraped((tmp_path / "metrics").as_uri(), 200.0)
    line = {name: value([scrape], 300) for name, value in figures(100).items()}
    assert (line["rows"], line["java MB"], line["python MB"]) == (600, 1.0, 2.0)
    assert line["behind s"] == 1.0, "of three seconds, the first of which was there before, two are read"


@pytest.mark.parametrize(
    ("values", "of_mean", "grown"), [([5, 5, 5], True, 0.0), ([9, 10, 11], True, 0.2), ([1, 2, 3], False, 2.0)]
)
def test_growth_is_the_rise_of_the_line_through_the_hours(values, of_mean, grown):
    assert growth(values, of_mean=of_mean) == pytest.approx(grown)


def test_a_day_is_flat_unless_a_figure_grows_after_its_first_quarter(capsys):
    flat = dict.fromkeys(MOST_GROWTH, 100.0)
    assert verdict([dict.fromkeys(MOST_GROWTH, 1.0), flat, flat, flat])
    assert not verdict([flat, flat, flat, {**flat, "state MB": 150.0}])
    assert "GROWS" in capsys.readouterr().out


def test_an_hour_without_epochs_has_no_duration():
    assert figures(100)["epoch s"]([Scrape(0, 0.0), Scrape(1, 0.0)], 1) == 0.0
