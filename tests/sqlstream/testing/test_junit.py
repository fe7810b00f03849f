"""JUnit XML: a suite for each file, failures with what is different."""

from __future__ import annotations

from xml.etree import ElementTree

from sqlstream.testing.report import Result, Verdict, write_junit

RESULTS = [
    Result("tests/a.golden::3-stream", Verdict.PASS, title="adds up", seconds=0.5),
    Result("tests/a.golden::9-stream", Verdict.FAIL, "after step 2", detail="expected <a>\x1b", seconds=0.25),
    Result("cases/one", Verdict.REFUSED, "triggers are not executed", "SS310"),
]


def test_results_are_written(tmp_path):
    path = tmp_path / "junit.xml"
    write_junit(path, RESULTS)
    root = ElementTree.parse(path).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("3", "1", "1")
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["tests/a.golden", "cases"]
    first, second = suites["tests/a.golden"]
    assert (first.get("name"), first.get("time"), len(first)) == ("3-stream adds up", "0.500", 0)
    assert second[0].tag == "failure"
    assert second[0].get("message") == "after step 2"
    assert second[0].text == "expected <a>�"
    assert suites["cases"][0][0].get("message") == "SS310 triggers are not executed"
