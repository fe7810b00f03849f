"""The cases of other engines' test suites, where they are at hand. They judge what our queries mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from sqlstream.paths import importable
from sqlstream.testing.case_format import case_files, load_case
from sqlstream.testing.cases import run_cases
from sqlstream.testing.report import Result, Summary, Verdict
from sqlstream.testing.spark import LocalSession
from tests.depth import ALL
from tests.peers import DUE, MISSING, PEERS, due_files, files_to_run
from tests.peers.argued import ARGUED, FUNCTIONS
from tests.peers.below_sql import run_kernel_case

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not PEERS.is_dir(), reason=MISSING)]

_WINDOWS = re.compile(r"\b(TUMBLE|HOP|CUMULATE|SESSION|(COUNT|GLOBAL)\s+WINDOW)\b", re.IGNORECASE)
_MORE_THAN_WINDOWS = re.compile(
    r"\b(JOIN|OVER|BARRIERS?|IN\s*\(\s*SELECT|EXISTS|CREATE\s+FUNCTION)\b|'changelog-mode'", re.IGNORECASE
)
# Parts of the kernels that cases below SQL are about, by suite.
_LOOKUPS = {"flink-async": 10, "flink-lookup-join": 29}
_DRIVEN = {
    "flink-async": 7, "flink-barrier-aligned": 8, "flink-barrier-buffer": 9, "flink-barrier-tracker": 10,
    "flink-merging-window-set": 5, "flink-timers": 7, "flink-trigger": 12,
}  # fmt: skip
_ORDINARY = (
    "arroyo", "beam", "duckdb-asof", "feldera-nexmark", "flink-programs", "flink-sql-itcase", "flink-sql-ordinary",
    "flink-temporal-join", "risingwave-nexmark", "risingwave-over", "risingwave-slt",
)  # fmt: skip
_FORMATS = {"flink-cdc-json", "risingwave-cdc-json"}
_BARRIERS = {"flink-barrier-aligned": 6, "flink-barrier-buffer": 7}


def needs_windows_only(case: dict) -> bool:
    """Is it a query in windows, with any trigger, evictor and late data, over rows that are only added?"""
    script = case.get("script", "")
    only_adds = all(step.get("kind", "+I") == "+I" for step in case.get("steps", ()))
    return bool(_WINDOWS.search(script)) and not _MORE_THAN_WINDOWS.search(script) and only_adds


@pytest.fixture(scope="module")
def summary(spark) -> Summary:
    def ignored(result: Result) -> None:
        return

    with importable(FUNCTIONS):
        return run_cases(
            files_to_run(), LocalSession, PEERS, None, ignored, run_kernel_case, ARGUED, streaming=ALL
        )  # the sample as bounded jobs, because streaming queries take minutes


def _told(results: list[Result]) -> str:
    return "\n".join(result.line() for result in results)


def test_no_case_fails(summary):
    assert not summary.failed, _told(list(summary.failed))


def test_windows_give_what_the_peers_give(summary):
    cases = {item["id"] for item in map(_read, due_files()) if needs_windows_only(item)}
    assert len(cases) > 130
    due = [result for result in summary.results if result.id in cases]
    assert len(due) > 40
    open_cases = [result for result in due if result.verdict not in (Verdict.PASS, Verdict.DIFFERS)]
    assert not open_cases, _told(open_cases)


def test_lookups_give_what_those_of_the_peers_give(summary):
    due = [result for result in summary.results if result.directory in _LOOKUPS and not result.below_sql]
    assert Counter(result.directory for result in due) == _LOOKUPS
    assert _told([result for result in due if result.verdict is not Verdict.PASS]) == ""


def test_parts_of_the_kernels_do_what_those_of_the_peers_do(summary):
    below = [result for result in summary.results if result.below_sql and result.directory in _DRIVEN]
    assert Counter(result.directory for result in below) == _DRIVEN
    missing = [result for result in below if result.verdict is not Verdict.PASS]
    assert {result.verdict for result in missing} == {Verdict.DIFFERS}, _told(missing)
    assert {result.code for result in missing} == {"SS396"}


def test_cases_that_are_argued_differ(summary):
    """One that passes is to be taken out of the table."""
    argued = [result for result in summary.results if result.id in ARGUED]
    assert argued
    assert _told([result for result in argued if result.verdict is not Verdict.DIFFERS]) == ""


def test_cases_that_are_argued_are_there():
    assert ARGUED.keys() <= {load_case(path, PEERS).id for path in due_files()}


@pytest.mark.parametrize("suite", sorted(_ORDINARY))
def test_ordinary_sql_gives_what_the_peers_give(summary, suite):
    """All but one case in twenty pass, or differ for a reason; windows over updating inputs (SS325) are to come."""
    due = [result for result in summary.results if result.directory == suite and result.code != "SS325"]
    missing = [result for result in due if result.verdict not in (Verdict.PASS, Verdict.DIFFERS)]
    assert due
    assert len(missing) <= len(due) // 20, _told(missing)


def test_barriers_are_aligned_as_those_of_the_peers(summary):
    due = [result for result in summary.results if result.directory in _BARRIERS and not result.below_sql]
    assert Counter(result.directory for result in due) == _BARRIERS
    assert _told([result for result in due if result.verdict is not Verdict.PASS]) == ""
    decided = [result for result in summary.results if result.directory.startswith("_differs/flink-barrier")]
    assert [result.verdict for result in decided] == [Verdict.DIFFERS] * 4


def test_mechanisms_that_are_not_there_are_refused_below_sql(summary):
    refused = [r for r in summary.results if r.below_sql and r.directory not in _DRIVEN.keys() | _FORMATS]
    assert {(r.verdict, r.code) for r in refused} == {(Verdict.REFUSED, "SS396")}
    assert all(r.note for r in refused)


def test_formats_of_changes_are_read_and_written(summary):
    results = [r for r in summary.results if r.directory in _FORMATS]
    assert _told([r for r in results if r.verdict is not Verdict.PASS and r.id not in ARGUED]) == ""
    assert len(results) > len(_FORMATS)


def test_a_refusal_has_a_code_of_what_is_not_executed(summary):
    refused = [result for result in summary.results if result.verdict is Verdict.REFUSED]
    assert [r for r in refused if not re.fullmatch(r"SS3\d\d", r.code or "")] == []


def _read(path: Path) -> dict:
    document: dict = json.loads(path.read_text(encoding="utf-8"))
    return document


def test_every_suite_that_is_due_is_there():
    assert {path.relative_to(PEERS).parts[0] for path in files_to_run()} == DUE


def test_every_file_is_a_case():
    paths = case_files(PEERS)
    assert len({load_case(path, PEERS).id for path in paths}) == len(paths)
