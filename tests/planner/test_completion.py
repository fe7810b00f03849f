"""What is suggested at a place of a text that is being typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.completion import Derived, Known, Scope, SuggestionKind, complete
from sqlstream.session import Session
from sqlstream.types import DataType

DEFINITIONS = """
CREATE TABLE clicks (user_id BIGINT, url STRING, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'datagen');
CREATE TABLE users (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen');
CREATE VIEW recent AS SELECT user_id AS uid, url FROM clicks;
CREATE TABLE `odd one` (`from` BIGINT) WITH ('connector' = 'datagen');
"""


@dataclass(frozen=True)
class Words:
    """A vocabulary of a few words over a session's catalog."""

    catalog: Catalog

    def settings(self) -> Mapping[str, Known]:
        return {"pipeline.name": Known(detail="string"), "execution.runtime-mode": Known(("auto", "batch"))}

    def connectors(self) -> Sequence[str]:
        return ("filesystem", "kafka")

    def options(self, connector: str) -> Mapping[str, Known]:
        return {"path": Known(), "format": Known(("json", "csv"))} if connector == "filesystem" else {}


@cache
def vocabulary() -> Words:
    session = Session()
    session.sql(DEFINITIONS)
    return Words(session.workspace.catalog)


def suggested(text: str) -> list[str]:
    """At the place of ``|``, or at the end."""
    at = text.find("|")
    return [s.text for s in complete(text.replace("|", ""), at if at >= 0 else len(text), vocabulary())]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT us| FROM clicks;", ["user_id"]),
        ("SELECT SUM(u| FROM clicks", ["user_id", "url"]),
        ("SELECT c.| FROM clicks AS c JOIN users AS u ON c.user_id = u.id", ["user_id", "url", "at"]),
        ("SELECT u.| FROM clicks c, users u", ["id", "name"]),
        ("SELECT * FROM clicks AS c JOIN users AS u ON c.user_id = u.", ["id", "name"]),
        ("SELECT r.| FROM recent r", ["uid", "url"]),
        ("SELECT * FROM (SELECT n| FROM users) AS x", ["name"]),
        ("SELECT n| FROM users WHERE id IN (SELECT user_id FROM clicks)", ["name"]),
        ("SELECT * FROM clicks WHERE user_id IN (SELECT i| FROM users)", ["id"]),
        ("SELECT 1; SELECT na| FROM users; SELECT us FROM clicks", ["name"]),
        ("SELECT * FROM ", ["clicks", "`odd one`", "recent", "users"]),
        ("SELECT * FROM `od", ["`odd one`"]),
        ("SELECT fr| FROM `odd one`", ["`from`"]),
        ("SELECT x.`f| FROM `odd one` AS x", ["`from`"]),
        ("INSERT INTO cl", ["clicks"]),
        ("DESCRIBE re", ["recent"]),
        ("WITH busy AS (SELECT 1 AS n) SELECT * FROM b", ["busy"]),
        ("WITH busy AS (SELECT 1 AS n, url FROM clicks) SELECT b.| FROM busy AS b", ["n", "url"]),
        ("WITH busy AS (SELECT 1 AS n), more AS (SELECT n + 1 AS m FROM busy) SELECT | FROM more", ["m", "more"]),
        ("WITH busy (a, b) AS (SELECT id, name FROM users) SELECT busy.| FROM busy", ["a", "b"]),
        ("WITH users AS (SELECT 1 AS own) SELECT | FROM users", ["own"]),
        ("WITH busy AS (SELECT 1 AS n), more AS (SELECT | FROM busy) SELECT * FROM more", ["n"]),
        ("SELECT x.| FROM (SELECT id AS i, name FROM users) AS x", ["i", "name"]),
        ("SELECT na| FROM clicks AS c, (SELECT id, name FROM users) u WHERE c.user_id = u.id", ["name"]),
        ("SELECT w| FROM TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)", ["window_start", "window_end"]),
        (
            "SELECT t.w| FROM TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE) AS t GROUP BY 1",
            ["window_start"],
        ),
        ("SELECT * FROM TUMBLE(TABLE clicks, DESCRIPTOR(a|), INTERVAL '1' MINUTE)", ["at"]),
        ("SELECT * FROM (SELECT id FROM users) AS x WHERE x.", ["id"]),
        ("SELECT * FROM clicks WH", ["WHERE"]),
        ("SELECT url FROM clicks GROUP BY u", ["user_id", "url"]),
        ("SELECT url FROM clicks GROUP BY url TR", ["TRIGGER"]),
        ("CREATE TABLE t (a BIG", ["BIGINT"]),
        ("SET 'pi", ["pipeline.name"]),
        ("SET 'runtime", ["execution.runtime-mode"]),
        ("SET 'execution.runtime-mode' = '", ["auto", "batch"]),
        ("CREATE TABLE t (a INT) WITH ('", ["connector"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = '", ["filesystem", "kafka"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', '", ["path", "format"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x', '", ["format"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'c", ["csv"]),
        ("SELECT user_", ["user_id"]),
        ("SELECT url, user_|", ["user_id"]),
        ("SELECT ui| WHERE", ["uid"]),
        ("SELECT SUM(user_", ["user_id"]),
        ("SELECT users.|", ["id", "name"]),
        ("SELECT recent.u|", ["uid", "url"]),
        ("INSERT INTO users SELECT user_", ["user_id"]),
        ("SELECT EXTRACT(HOUR FROM at), user_|", ["user_id"]),
        ("SELECT 1 IS DISTINCT FROM 2, user_|", ["user_id"]),
        ("SELECT * FROM clicks WHERE user_id IN (SELECT user_|)", ["user_id"]),
        ("SELECT user_|, (SELECT MAX(user_id) FROM clicks)", ["user_id"]),
        ("WITH busy AS (SELECT 1 AS my_own, url AS link FROM clicks) SELECT my_", ["my_own"]),
        ("WITH busy AS (SELECT 1 AS my_own, url AS link FROM clicks) SELECT busy.", ["my_own", "link"]),
        ("WITH users AS (SELECT 1 AS own) SELECT users.", ["own"]),
    ],
)
def test_what_fits_comes_first(text, first):
    assert suggested(text)[: len(first)] == first


@pytest.mark.parametrize(
    "text",
    [
        "-- sel",
        "/* sel",
        "SELECT 'us| FROM clicks",
        "SELECT nothing.| FROM clicks",
        "SELECT * FROM clicks AS clicks x. ",
        "SELECT x.| FROM (SELECT nothing FROM users) AS x",
        "SELECT x.| FROM (SELECT id FROM",
        "WITH x AS (SELECT x.| FROM x",
    ],
)
def test_nothing_is_suggested_where_nothing_fits(text):
    assert suggested(text) == []


def test_columns_of_all_tables_follow_functions_where_no_from_is_typed():
    suggestions = complete("SELECT u", 8, vocabulary())
    first = next(i for i, s in enumerate(suggestions) if s.kind is SuggestionKind.COLUMN)
    assert {s.kind for s in suggestions[:first]} == {SuggestionKind.FUNCTION}
    columns = [(s.text, s.detail) for s in suggestions if s.kind is SuggestionKind.COLUMN]
    assert columns[:3] == [("user_id", "BIGINT, clicks"), ("url", "STRING, clicks"), ("uid", "BIGINT, recent")]


@pytest.mark.parametrize("text", ["VALUES (u", "CREATE TABLE t (a INT, b AS u", "SELECT u| FROM users", "SELECT x.u"])
def test_no_columns_of_other_tables_are_suggested(text):
    assert not {"user_id", "uid", "url"} & {*suggested(text)}


def test_what_is_finished_is_not_suggested():
    assert "clicks" not in suggested("SELECT * FROM clicks")


def test_suggestions_tell_what_they_are_and_from_where_they_replace():
    (column, *_) = complete("SELECT us FROM clicks", 9, vocabulary())
    assert (column.text, column.kind, column.start, column.detail) == ("user_id", SuggestionKind.COLUMN, 7, "BIGINT")


def test_functions_of_the_user_are_suggested():
    session = Session()
    session.workspace.catalog.register(Function("geo_of", "m:geo_of", FunctionKind.SCALAR, DataType("INT")), None)
    suggestions = complete("SELECT ge", 9, Words(session.workspace.catalog))
    assert "geo_of(" in [s.text for s in suggestions]


def test_no_text_makes_it_fail():
    """Each golden query, cut off at places that are spread over it."""
    for path in sorted(Path(__file__).parents[1].joinpath("golden").glob("*.golden"))[::4]:
        text = path.read_text(encoding="utf-8")[:1500]
        for at in range(0, len(text), 97):
            complete(text[:at] + text[at + 20 :], at, vocabulary())


def test_tables_of_large_catalogs_are_not_read_to_be_listed():
    class Large:
        """A catalog of which no definition may be read."""

        def relation_names(self):
            return [f"t{i}" for i in range(5_000)]

        def relation(self, name):
            raise AssertionError(name)

    scope = Scope({}, (), Large(), Derived({}, {}, ()), lacks_from=True)  # type: ignore[arg-type]
    assert len([*scope.relations()]) == 5_000
    assert [*scope.columns_of_all()] == []
