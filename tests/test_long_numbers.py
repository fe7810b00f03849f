"""Numbers of more digits than Python converts, and numbers beyond what the engine keeps, are errors with a place."""

from __future__ import annotations

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import expected_after, format_script
from sqlstream.planner.type_inference import number_type
from sqlstream.statements.checking import check_script
from sqlstream.workspace import Workspace
from tests.planner.plans import created

_WINDOW = "FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end"
_LOOKUP = "SELECT k FROM clicks AS c JOIN lookup FOR SYSTEM_TIME AS OF c.pt AS l {} ON l.id = c.v"

_PLACES = {
    "SELECT v + # FROM plain": "SS105",
    "SELECT v + -# FROM plain": "SS105",
    "SELECT v FROM plain WHERE v IN (1, #)": "SS105",
    "SELECT v FROM plain LIMIT #": "SS105",
    "SELECT CAST(v AS DECIMAL(#, 0)) FROM plain": "SS105",
    f"SELECT COUNT(*) {_WINDOW} TRIGGER EVERY # ROWS": "SS105",
    f"SELECT COUNT(*) {_WINDOW} EMIT EVERY INTERVAL '#' SECOND": "SS212",
    f"SELECT COUNT(*) {_WINDOW} LATE DATA ALLOW INTERVAL '1 #' DAY TO HOUR": "SS212",
    "SELECT COUNT(*) FROM bids GROUP BY n COUNT WINDOW (# ROWS)": "SS105",
    "SELECT COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '# minutes')": "SS212",
    "SELECT COUNT(*) FROM bids GROUP BY #": "SS105",
    "SELECT ts + INTERVAL '#' MILLISECOND FROM bids": "SS212",
    _LOOKUP.format("LOOKUP ASYNC (CAPACITY #)"): "SS105",
    _LOOKUP.format("LOOKUP ASYNC (TIMEOUT INTERVAL '#' SECOND)"): "SS212",
    "SELECT /*+ LOOKUP('table'='l', 'async'='true', 'capacity'='#') */ k FROM clicks AS c "
    "JOIN lookup FOR SYSTEM_TIME AS OF c.pt AS l ON l.id = c.v": None,
    "CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '#' SECOND) WITH ('connector' = 'test')": "SS212",  # noqa: E501
    "CREATE TABLE x (a VARCHAR(#)) WITH ('connector' = 'test')": None,
    "CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '#')": None,
    "CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'fields.a.min' = '#')": None,
    "SET 'parallelism.default' = '#'": None,
    "SET 'table.exec.emit.early-fire.delay' = '# s'": None,
}
"""With the code of the mistake where it is certain which one it is."""


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace(created())


@pytest.mark.parametrize("digits", ["9" * 40, "9" * 5000])
@pytest.mark.parametrize("place", _PLACES)
def test_numbers_too_long(place, digits, workspace):
    text = place.replace("#", digits)
    diagnostics = check_script(text, workspace)
    assert diagnostics
    code = _PLACES[place]
    assert code is None or code in [d.code for d in diagnostics]
    assert all(len(d.message) < 300 for d in diagnostics)


@pytest.mark.parametrize("place", _PLACES)
def test_numbers_too_long_are_printed_or_refused(place):
    text = place.replace("#", "9" * 5000)
    expected_after(text)
    try:
        assert "9" * 5000 in format_script(text)
    except SqlStreamError as error:
        assert error.code == "SS105"


@pytest.mark.parametrize("text", ["9" * 15, "0" * 5000 + "5"])
def test_the_largest_number_of_rows(text, workspace):
    assert check_script(f"SELECT COUNT(*) {_WINDOW} TRIGGER EVERY {text} ROWS", workspace) == ()
    longer = f"SELECT COUNT(*) {_WINDOW} TRIGGER EVERY 1000000000000000 ROWS"
    assert [d.message for d in check_script(longer, workspace)] == ['"1000000000000000" has more than 15 digits']


def test_zeros_before_a_number_do_not_make_it_longer_than_python_reads():
    assert str(number_type("0" * 5000 + "7")) == "INT"
    assert str(number_type("9" * 20)) == "DECIMAL(20, 0)"


def test_zeros_before_a_number_are_no_digits_of_one_that_is_folded(workspace):
    assert check_script(f"SELECT v FROM plain WHERE {'0' * 5000}7 > v + 1", workspace) == ()
    assert check_script(f"SELECT v FROM plain WHERE {'0' * 5000}7 > 6", workspace) == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT k, COUNT(*) AS c FROM plain GROUP BY #1", None),
        ("SELECT k, COUNT(*) AS c FROM plain GROUP BY #", "SS223"),
        ("SELECT v FROM plain ORDER BY #1 LIMIT #5", None),
        ("SELECT #.5 + #1 AS x FROM plain", None),
        ("SELECT LAG(n, #1) OVER (PARTITION BY auction ORDER BY ts) AS x FROM bids", None),
        ("SELECT v FROM plain WHERE v IN (SELECT v FROM clicks LIMIT #1)", None),
    ],
)
def test_thousands_of_leading_zeros_are_no_digits(text, code, workspace):
    written = text.replace("#", "0" * 5000)
    assert [found.code for found in check_script(written, workspace)] == ([code] if code else [])
    assert len(format_script(written)) < 200
