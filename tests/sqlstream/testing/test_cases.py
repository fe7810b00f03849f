"""Case files: a verdict for each, whatever is in it."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from sqlstream.testing.case_format import CaseFormatError, CaseRows, Changes, State, load_case
from sqlstream.testing.cases import main, run_cases
from sqlstream.testing.report import Verdict
from sqlstream.testing.spark import LocalSession

EVENTS = "CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');"
COUNTS = EVENTS + " SELECT k, COUNT(*) AS n, window_end FROM events GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);"
STEPS = [
    {"rows": "events", "values": [["a", 1, 10], ["b", 1, 20], ["a", 1, 999]]},
    {"watermark": "events", "ms": 999},
    {"checkpoint": True},
    {"restart": True},
    {"rows": "events", "values": [["a", 1, 500]]},
    {"finish": True},
]
AFTER_1: dict[str, Any] = {"after": 1, "rows": [["+I", "a", 2, 1000], ["+I", "b", 1, 1000]], "order": "exact"}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "README.md").write_text("cases")
    (tmp_path / "suite").mkdir()

    def run_one(engine="auto", **fields):
        case = {"id": "suite/case", "level": "sql", "script": COUNTS, "steps": STEPS} | fields
        path = tmp_path / "suite" / "case.json"
        path.write_text(json.dumps(case))
        sessions = partial(LocalSession, {"sqlstream.engine": engine})
        return run_cases([path], sessions, tmp_path, on_result=lambda result: None).results[0]

    return run_one


# --- without Spark --------------------------------------------------------------------------------------------


def test_what_is_not_executed_is_refused_with_its_code(run):
    script = EVENTS + "SELECT k FROM events TABLESAMPLE (10 ROWS)"
    result = run(script=script)
    assert (result.verdict, result.code) == (Verdict.REFUSED, "SS332")
    assert result.line() == "REFUSED suite/case SS332 TABLESAMPLE clauses of this form are not executed yet"


MALFORMED = {
    "list": (b"[1, 2]", "a case is a JSON object, not [1, 2]"),
    "null": (b"null", "a case is a JSON object, not null"),
    "bytes": (b"\xff\xfe", "UnicodeDecodeError"),
    "cut": (b'{"id": "a", "scr', "JSONDecodeError"),
    "deep": (b"[" * 100_000, "RecursionError"),
    "nameless": (b"{}", 'the field "id" is missing'),
    "id": (b'{"id": 7}', 'the field "id" is 7, which is no text'),
    "steps": (b'{"id": "a", "steps": {}}', 'the field "steps" is {}, which is no list'),
    "step": (b'{"id": "a", "steps": [3]}', "unknown step 3"),
    "after": (b'{"id": "a", "steps": [], "expect": [{"after": 1, "rows": []}]}', '"after" is 1, which is no number'),
    "rows": (b'{"id": "a", "steps": [{"finish": true}], "expect": [3]}', "TypeError"),
}


def test_malformed_files_fail_with_their_reason_and_the_others_run(tmp_path, capsys):
    (tmp_path / "README.md").write_text("cases")
    (tmp_path / "suite").mkdir()
    for name, (content, _) in MALFORMED.items():
        (tmp_path / "suite" / f"{name}.json").write_bytes(content)
    limited = EVENTS + "SELECT k FROM events TABLESAMPLE (10 ROWS)"
    (tmp_path / "suite" / "well.json").write_text(json.dumps({"id": "suite/well", "script": limited}))
    assert main(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    for name, (_, reason) in MALFORMED.items():
        assert [line for line in lines if line.startswith(f"FAIL suite/{name} no case file: ") and reason in line], name
    assert "REFUSED suite/well SS332 TABLESAMPLE clauses of this form are not executed yet" in lines
    assert lines[-1].split()[:4] == ["total", "0", "1", str(len(MALFORMED))]


def test_kernel_cases_are_refused(run):
    assert (run(level="kernel").verdict, run(level="kernel").code) == (Verdict.REFUSED, "SS396")


def test_functions_that_are_not_beside_the_cases_are_refused(run):
    result = run(script="CREATE FUNCTION f AS 'peer_functions:f' LANGUAGE PYTHON;" + COUNTS)
    assert (result.verdict, result.code) == (Verdict.REFUSED, "SS397")


def test_an_expected_error_passes(run):
    result = run(script=COUNTS.replace("INTERVAL '1'", "INTERVAL '0'"), error="size must be positive")
    assert (result.verdict, result.note) == (Verdict.PASS, "refused: SS211 size of TUMBLE must be positive, not 0 ms")


def test_an_expected_error_that_does_not_come_fails(run):
    result = run(error="something", steps=[])
    assert result.line() == "FAIL suite/case accepted, and should be refused: something"


def test_a_wrong_script_fails_with_its_error(run):
    result = run(script=COUNTS.replace("k, COUNT", "kk, COUNT"))
    assert (result.verdict, result.code) == (Verdict.FAIL, "SS201")


def test_a_difference_on_purpose_is_no_failure(run):
    result = run(script=COUNTS.replace("k, COUNT", "kk, COUNT"), why="we have no kk")
    assert (result.verdict, result.code, result.note) == (Verdict.DIFFERS, "SS201", "we have no kk")
    assert run(error="something", steps=[], why="we allow it").verdict is Verdict.DIFFERS
    assert run(level="kernel", why="none").verdict is Verdict.REFUSED


def test_an_exception_is_a_failure_with_its_type(run):
    result = run(steps=[{"rows": "nowhere", "values": [[1]]}])
    assert result.line().startswith('FAIL suite/case ValueError: the query reads no table "nowhere"')


@pytest.mark.parametrize(
    "fields", [{"steps": [{"sleep": 1}]}, {"expects": []}, {"steps": [{"rows": "t", "file": "none.jsonl"}]}]
)
def test_what_is_no_case_file_fails(run, fields):
    assert run(**fields).message.startswith("no case file: ")


def test_every_extension_of_the_format_is_read(tmp_path):
    (tmp_path / "rows.jsonl").write_text('["+I", "a", 1]\n["-D", "a", 1]\n')
    case = {
        "id": "s/c",
        "steps": [{"rows": "t", "file": "rows.jsonl", "kinds": True}, {"rows": "t", "kind": "-D", "values": [["b"]]}],
        "expect": [{"after": 0, "table": "late", "columns": ["k"], "rows": [], "order": "any"}],
        "expect_finals": [{"after": 0, "rows": [], "key": "*"}],
        "expect_state": [{"after": 1, "rows": [], "key": ["k"]}],
        "expect_final": {"rows": [], "key": None},
        "lookup_tries_max": 3,
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps(case))
    loaded = load_case(path, tmp_path)
    assert loaded.steps == (
        CaseRows("t", (("+I", ["a", 1]), ("-D", ["a", 1]))),
        CaseRows("t", (("-D", ["b"]),)),
    )
    assert loaded.expected == (
        Changes(0, [], False, "late", ("k",)),
        State(0, [], "*"),
        State(1, [], ("k",)),
        State(1, [], None),
    )
    assert loaded.lookup_tries_max == 3
    path.write_text("[")
    with pytest.raises(CaseFormatError, match="JSONDecodeError"):
        load_case(path, tmp_path)


def test_the_command_prints_a_line_a_case_and_totals(tmp_path, capsys):
    (tmp_path / "README.md").write_text("cases")
    for name, level in (("one", "kernel"), ("two", "sql")):
        case = {"id": f"suite/{name}", "level": level, "script": "SELECT 1 +", "steps": []}
        (tmp_path / f"{name}.json").write_text(json.dumps(case))
    assert main(tmp_path, tmp_path / "report.out") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["REFUSED", "suite/one"], ["FAIL", "suite/two"]]
    assert lines[3].split() == ["PASS", "REFUSED", "FAIL", "DIFFERS"]
    assert [line.split()[:5] for line in lines[4:]] == [["suite", "0", "1", "1", "0"], ["total", "0", "1", "1", "0"]]
    report = json.loads((tmp_path / "report.out").read_text())
    assert report["totals"] == {"suite": {"PASS": 0, "REFUSED": 1, "FAIL": 1, "DIFFERS": 0}}
    assert [r["verdict"] for r in report["results"]] == ["REFUSED", "FAIL"]
    assert main(tmp_path, select="one") == 0


def test_settings_hold_for_all_cases(tmp_path, capsys):
    (tmp_path / "README.md").write_text("cases")
    script = """CREATE TABLE t (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
        SELECT COUNT(*) AS n FROM t GROUP BY COUNT WINDOW (2 ROWS)"""
    case = {"id": "suite/one", "script": script, "steps": [{"rows": "t", "values": [[1, 1]]}], "error": "no kernels"}
    (tmp_path / "one.json").write_text(json.dumps(case))
    assert main(tmp_path, settings={"sqlstream.engine": "native"}) == 0
    assert capsys.readouterr().out.startswith("REFUSED suite/one SS3")


# --- with Spark -----------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_case_passes_where_all_that_it_expects_comes_out(run):
    final = {"rows": [["a", 2, 1000], ["b", 1, 1000]], "key": ["k", "window_end"]}
    result = run(expect=[AFTER_1, {"after": 5, "rows": []}], expect_final=final, late_dropped=1)
    assert (result.verdict, result.note) == (Verdict.PASS, None), result.message
    assert (
        run(expect=[AFTER_1], lookup_tries_max=1).message == "lookup_tries_max: expected 1 to 1 requests per key, got 0"
    )


@pytest.mark.spark
def test_only_kernels_have_an_order_to_compare(run):
    other = AFTER_1 | {"rows": AFTER_1["rows"][::-1]}
    assert run(expect=[other]).verdict is Verdict.FAIL
    result = run("native", expect=[other])
    assert (result.verdict, result.note) == (
        Verdict.PASS,
        "order within a step not compared in 1 of its expectations",
    )


@pytest.mark.spark
def test_the_first_difference_is_told_with_its_step(run):
    wrong = AFTER_1 | {"rows": [["+I", "a", 3, 1000], ["+I", "b", 1, 1000]]}
    result = run(expect=[wrong])
    assert (
        result.line() == 'FAIL suite/case after step 1: row 0: expected ["+I", "a", 3, 1000], got ["+I", "a", 2, 1000]'
    )


@pytest.mark.spark
def test_late_rows_are_compared(run):
    assert run(late_dropped=2).message == "late_dropped: expected 2, got 1"


@pytest.mark.spark
def test_an_error_while_running_passes_where_it_is_expected(run):
    result = run(steps=[{"rows": "events", "values": [["a", 1, None]]}], error="event time is NULL")
    assert result.verdict is Verdict.PASS
    said = r'refused: SS401 event time "ts" of table "events" is NULL in a row of file ".*parquet": {"k":"a","ts":null}'
    assert re.fullmatch(said, result.note)
