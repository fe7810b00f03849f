"""Processes of Spark keep the memory that they have got."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sqlstream.spark.tuning import applied
from sqlstream.spark.tuning.applied import MALLOC, huge_pages, malloc_of_processes, malloc_settings


def test_the_environment_is_as_before_once_processes_have_started(monkeypatch):
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    before = dict(os.environ)
    with malloc_of_processes():
        assert os.environ["MALLOC_TOP_PAD_"] == MALLOC["MALLOC_TOP_PAD_"]
    assert dict(os.environ) == before


def test_what_the_environment_says_holds(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "7")
    assert "spark.executorEnv.MALLOC_TRIM_THRESHOLD_" not in malloc_settings()
    with malloc_of_processes():
        assert os.environ["MALLOC_TRIM_THRESHOLD_"] == "7"
    assert os.environ["MALLOC_TRIM_THRESHOLD_"] == "7"


@pytest.mark.parametrize(
    ("offered", "option"),
    [
        ("always [madvise] never", "-XX:+UseTransparentHugePages"),
        ("[always] madvise never", "-XX:+UseTransparentHugePages"),
        ("always madvise [never]", ""),
        (None, ""),
    ],
)
def test_huge_pages_are_asked_for_where_the_system_has_them(offered, option, tmp_path, monkeypatch):
    file = Path(tmp_path, "enabled")
    if offered is not None:
        file.write_text(offered)
    monkeypatch.setattr(applied, "_OFFERED", file)
    assert huge_pages() == option


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_jvm_and_the_python_of_tasks_start_with_it(spark):
    def environment(frames):
        import pandas as pd

        for frame in frames:
            yield pd.DataFrame({"found": [os.environ.get("MALLOC_TOP_PAD_")] * len(frame)})

    wanted = MALLOC["MALLOC_TOP_PAD_"]
    assert [row.found for row in spark.range(1).mapInPandas(environment, "found STRING").collect()] == [wanted]
    jvm = spark.sparkContext._gateway.proc.pid
    assert f"MALLOC_TOP_PAD_={wanted}".encode() in Path(f"/proc/{jvm}/environ").read_bytes().split(b"\0")
