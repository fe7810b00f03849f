"""The examples of docs/testing.md run and give what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sqlstream.testing.cases import run_cases
from sqlstream.testing.golden import run_block
from sqlstream.testing.golden_format import parse_golden
from sqlstream.testing.report import Verdict
from sqlstream.testing.spark import LocalSession

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")


def example(language: str, containing: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (only,) = (block for block in blocks if containing in block)
    return str(only)


@pytest.mark.spark
def test_the_examples_in_python_pass(spark):
    names: dict = {}
    for containing in ("import StreamTest", "ENRICHED"):
        exec(example("python", containing), names)
    names["test_revenue_per_shop_and_minute"]()
    names["test_a_customer_is_asked_for_again_when_the_service_fails"]()


@pytest.mark.spark
def test_the_golden_example_matches():
    blocks = parse_golden(example("text", "stream\n"))
    checked = [i for i, block in enumerate(blocks) if block.expected is not None]
    assert [run_block(blocks, i).matches for i in checked] == [True, True]


@pytest.mark.spark
def test_the_example_case_passes(tmp_path):
    path = tmp_path / "case.json"
    path.write_text(example("json", "shops/revenue"))
    assert json.loads(path.read_text())["id"] == "shops/revenue"
    summary = run_cases([path], LocalSession, tmp_path, on_result=lambda result: None)
    assert [result.verdict for result in summary.results] == [Verdict.PASS], summary.results
