"""What sqlglot reads of other systems, or by forgiving a mistake, is refused and has a place."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import ParseError
from sqlstream.grammar import parse_query, parse_script, to_sql

_NO_SIDE = "PRECEDING or FOLLOWING must stand behind what a frame begins or ends with"
_NO_BETWEEN = "a frame has a start alone, or BETWEEN a start AND an end"
_TIES = "with PERCENT or TIES is not part of the dialect"
_UNPIVOT = "it is written UNPIVOT (v FOR k IN (a, b)), or UNPIVOT ((v, w) FOR k IN ((a, b), (c, d)))"
_IN = "it is written with values or columns behind IN: FOR k IN (1, 2)"
_TINY = "1e-9999999999999999999BD"


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("SELECT v FROM bids GROUP BY k TUMBLE(ts, INTERVAL '1' DAY)", 'a comma must stand before "TUMBLE"', "TUMBLE"),
        ("SELECT 1e-9999999999999999999BD", '"1e-9999999999999999999" is out of the range of a DECIMAL', _TINY),
        ("SELECT SUM(a) OVER (ORDER BY b RANGE) FROM t", "a frame needs a start", ")"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS 1) FROM t", _NO_SIDE, ")"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN CURRENT ROW AND 1) FROM t", _NO_SIDE, ")"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING) FROM t", _NO_BETWEEN, ")"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS 1 PRECEDING AND 2 FOLLOWING) FROM t", _NO_BETWEEN, ")"),
        (
            "SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM t",
            "EXCLUDE in a frame is not part of the dialect",
            ")",
        ),
        ("SELECT SUM(a) OVER FROM t", "OVER needs a window", "OVER"),
        ("SELECT SUM(a) OVER (PARTITION BY) FROM t", 'unexpected ")"', ")"),
        ("SELECT a BETWEEN 1 2 FROM t", 'unexpected "2"', "2"),
        ("SELECT a = ANY () FROM t", 'unexpected ")"', ")"),
        ("SELECT a, ALL FROM t", 'unexpected "ALL"', "ALL"),
        ("SELECT EXTRACT(`a b` FROM c) FROM t", "EXTRACT needs the name of a unit", "`a b`"),
        ("TABLE DESCRIBE", 'unknown statement "TABLE"', "TABLE"),
        ("SELECT a FROM t LIMIT 5 PERCENT", f"LIMIT {_TIES}", "LIMIT"),
        ("SELECT a FROM t FETCH FIRST 5 ROWS WITH TIES", f"FETCH {_TIES}", "FETCH"),
        ("SELECT a FROM t LIMIT 5 BY b", "LIMIT … BY is not part of the dialect", "LIMIT"),
        ("SELECT a FROM t LIMIT 5 ROWS", 'unexpected "ROWS"', "ROWS"),
        ("SELECT a FROM t FETCH 5 ROWS ONLY", 'unexpected "5"', "5"),
        ("SELECT FETCH FIRST 5 ROWS ONLY a FROM t", 'unexpected "FETCH"', "FETCH"),
        ("SELECT AS a FROM t", 'unexpected "AS"', "AS"),
        ("SELECT AS STRUCT a FROM t", 'unexpected "AS"', "AS"),
        ("SELECT a AS, b FROM t", 'unexpected ","', ","),
        ("SELECT (a AS) FROM t", 'unexpected ")"', ")"),
        ("SELECT a FROM t AS WHERE a", 'unexpected "a"', "a"),
        ("SELECT a FROM t ORDER BY a WITH FILL", "ORDER BY … WITH FILL is not part of the dialect", "FILL"),
        (
            "WITH RECURSIVE q AS (SELECT 1 AS a) SEARCH DEPTH FIRST BY a SET b SELECT a FROM q",
            "SEARCH of WITH is not part of the dialect",
            "SEARCH",
        ),
        (
            "WITH RECURSIVE q AS (SELECT 1 AS a) CYCLE a SET b USING c SELECT a FROM q",
            "CYCLE of WITH is not part of the dialect",
            "CYCLE",
        ),
        ("SELECT * FROM a STRAIGHT_JOIN b ON c", 'unexpected "STRAIGHT_JOIN"', "STRAIGHT_JOIN"),
        ("SELECT MAX(a HAVING MAX b) FROM t", "HAVING in a call is not part of the dialect", "HAVING"),
        ("SELECT * FROM t UNPIVOT (v FOR GROUP BY ())", _UNPIVOT, ")"),
        ("SELECT * FROM t UNPIVOT (v, w FOR k IN (a))", _UNPIVOT, ")"),
        ("SELECT * FROM t UNPIVOT (v FOR (k, l) IN (a))", _UNPIVOT, ")"),
        ("SELECT * FROM t PIVOT (SUM(a) FOR k IN (1) l IN (2))", "it is written PIVOT (SUM(a) FOR k IN (1, 2))", ")"),
        ("SELECT CAST(a AS INT ())", 'unexpected ")"', ")"),
        ("SELECT DATE () '2020-01-01'", 'unexpected "2020-01-01"', "'2020-01-01'"),
        ("CREATE TABLE t (c INT (1) ARRAY)", "type INT takes no numbers in parentheses", "INT (1)"),
        ("SELECT a IS NOT NULL [1]", "a condition has no fields", "]"),
        ("SELECT JSON_QUERY(a, '$' RETURNING ARRAY<STRING> ())", 'unexpected ")"', ")"),
        ("SELECT a FROM t JOIN STREAM (UNNEST(b))", 'unexpected ")"', ")"),
        ("SELECT * FROM t TABLESAMPLE (10 ROWS) ()", 'unexpected ")"', ")"),
        ("SELECT * FROM t PIVOT (SUM(a) FOR k IN (1)) p q", "a PIVOT has one alias", "q"),
        ("SELECT * FROM t PIVOT (SUM(a) FOR k IN)", _IN, ")"),
        ("SELECT * FROM t PIVOT (SUM(a) FOR k IN (1 AS b + 1))", _IN, ")"),
        ("SELECT * FROM t UNPIVOT (v FOR k IN (a 1))", _IN, ")"),
        ("SELECT * FROM t PIVOT (SUM(a) FOR k IN (SELECT 1 1))", _IN, ")"),
        ("SELECT * FROM t AS x (a INT)", 'unexpected "INT"', "INT"),
        ("SELECT * FROM t AS x (a WITH ('' = ''))", 'unexpected "WITH"', "WITH"),
        ("SELECT CAST(a AS ARRAY< >)", 'unexpected ">"', ">"),
        ("SET n = 0/**/A", 'unexpected "0"', "0"),
        ("WITH AS q AS (SELECT 1) TABLE q", 'unexpected "AS"', "AS"),
        ("SELECT DISTINCT AS a FROM t", 'unexpected "AS"', "AS"),
        ("SELECT DISTINCT ON b (a) c FROM t", 'unexpected "b"', "b"),
        ("SELECT a FROM t FETCH FIRST n ROWS ONLY", "FETCH needs a number of rows", "FETCH"),
        ("SELECT a FROM t LATERAL VIEW EXPLODE(b) :v AS c", "the alias of a table must be a name", "LATERAL"),
        ("SELECT a FROM t GROUP BY + GROUPING SETS ((a))", 'unexpected "GROUPING SETS"', "GROUPING SETS"),
        ("SELECT EXISTS (+ SELECT 1)", 'unexpected "SELECT"', "SELECT"),
        ("SELECT a FROM t GROUP BY b, LIMIT GROUPING SETS ((b), ())", 'unexpected "LIMIT"', ")"),
        ("SELECT SUM(a) OVER (OVER) FROM t", "OVER needs a window", ")"),
        (
            "SELECT a FROM t PIVOT (SUM(a) FOR q IN (1)) PIVOT UNPIVOT (b FOR n IN (k))",
            'unexpected "PIVOT"',
            "PIVOT",
        ),
        ("SELECT a FROM t TABLESAMPLE (3 ROWS) PIVOT (SUM(a) FOR q IN (1))", 'unexpected "PIVOT"', "PIVOT"),
        ("SELECT CAST(a AS ROW<x INT CONSTRAINT>) FROM t", 'unexpected ">"', ">"),
        ("SELECT a FROM t /*+ OPTIONS('a' = 'b') */ * AS x", 'unexpected "*"', "*"),
        ("SELECT a FROM t[1] AS x", 'unexpected "["', "["),
        ("SELECT a FROM t *", 'unexpected "*"', "*"),
        ("SELECT a FROM t WITH (NOLOCK)", 'unexpected "WITH"', "WITH"),
        ("SELECT a FROM UNNEST WITH (b)", 'unexpected "WITH"', "WITH"),
        ("SELECT * EXCEPT FROM t", 'unexpected "FROM"', "FROM"),
        ("SELECT * REPLACE, a FROM t", 'unexpected ","', ","),
        ("SELECT CAST(a AS STRING COLLATE) FROM t", 'unexpected ")"', ")"),
        ("SELECT CAST(a AS STRING DEFAULT) FROM t", "a CAST is written CAST(a AS type)", "DEFAULT"),
        ("SELECT CAST(a AS STRING, ) FROM t", "a CAST is written CAST(a AS type)", ","),
        ("SELECT CAST(a AS ROW<x INT UNIQUE>) FROM t", "a field has a name, a type, NOT NULL and a comment", "UNIQUE"),
        ("SELECT CAST(a AS INTERVAL DAY(1 2)) FROM t", 'unexpected "1"', "1"),
        ("SELECT CAST(a AS INTERVAL DAY TO (3) TO SECOND) FROM t", "an interval needs a unit behind TO", ")"),
        ("SELECT SUBSTRING(FROM a) FROM t", 'unexpected ")"', ")"),
        ("SELECT SUBSTRING(a FROM FROM 2) FROM t", 'unexpected "FROM"', "FROM"),
        ("SELECT SUBSTRING(a FOR 2 FOR 3) FROM t", 'unexpected "FOR"', "FOR"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t", _NO_BETWEEN, ")"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS 1 PRECEDING AND) FROM t", _NO_BETWEEN, ")"),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS n PRECEDING) FROM t", "a frame begins and ends at constants", ")"),
        ("SELECT a FROM t ORDER BY a ASC DESC", "a key is sorted one way: ASC or DESC", "DESC"),
        ("SELECT a FROM t LIMIT , 1", 'unexpected ","', ","),
        ("SELECT a FROM t LIMIT 1 BY", "LIMIT … BY is not part of the dialect", "LIMIT"),
        ("SELECT a FROM t LIMIT 1 ONLY", 'unexpected "ONLY"', "ONLY"),
        ("SELECT a FROM t LIMIT 2 OFFSET 1 BY b", "OFFSET … BY is not part of the dialect", "b"),
        ("SELECT a FROM t NATURAL UNION SELECT 1", 'unexpected "NATURAL"', "NATURAL"),
        ("SELECT a FROM t GROUP BY WITH ROLLUP (a, b)", 'unexpected ")"', ")"),
        ("SELECT a FROM t GROUP BY a WITH GROUPING SETS ((a))", 'unexpected "GROUPING SETS"', "GROUPING SETS"),
        ("SELECT a FROM t TABLESAMPLE", "TABLESAMPLE needs a size", "TABLESAMPLE"),
        (
            "SELECT * FROM t PIVOT (SUM(a) FOR b IN (1)) TABLESAMPLE (5 ROWS)",
            "PIVOT and TABLESAMPLE stand behind tables of their own",
            ")",
        ),
        ("SELECT * FROM t UNPIVOT (v FOR k IN (VALUES (a, b)))", "IN of PIVOT and UNPIVOT takes no VALUES", ")"),
        ("SELECT * FROM (PIVOT UNNEST(a))", 'unexpected "PIVOT"', "PIVOT"),
        ("SELECT * FROM (FORMAT VALUES (1))", 'unexpected "VALUES"', "VALUES"),
        ("SELECT * FROM t, LATERAL OUTER TABLE(f(a)) AS g(b)", "OUTER belongs to LATERAL VIEW", "LATERAL"),
        ("SELECT * FROM t, LATERAL a.b", "LATERAL needs a call or a query", "LATERAL"),
        ("SELECT * FROM t LATERAL VIEW f", "LATERAL needs a call or a query", "LATERAL"),
        ("CREATE TEMPORARY SYSTEM VIEW v AS SELECT 1", 'unexpected "VIEW"', "VIEW"),
        ("SELECT * FROM COUNT_WINDOW(TABLE t PARTITION BY k, , SIZE => 5 ROWS)", 'unexpected ","', ","),
        ("SELECT * FROM t, LATERAL VALUES (1)", "the query of LATERAL stands in parentheses", "LATERAL"),
        ("SELECT * FROM (TABLE UNNEST(a))", 'unexpected ")"', ")"),
        ("SELECT EXISTS (ALL SELECT 1)", 'unexpected "SELECT"', "SELECT"),
        ("SELECT ARRAY(VALUES 1 AS b)", "a list of values in a call has no name", ")"),
        ("SELECT a IS JSON.b FROM t", "a condition has no fields", "b"),
        ("SELECT a IS JSON KEYS FROM t", "IS JSON has no UNIQUE KEYS", "KEYS"),
        ("SELECT :ARRAY[1]", 'unexpected "["', "["),
        ("SELECT :`x` FROM t", 'unexpected ":"', ":"),
        ("SELECT @x FROM t", 'unexpected "@"', "@"),
        ("SELECT u FROM (SELECT v /*+ L('') */) AS a", "unexpected \"/*+ L('') */\"", "/*+ L('') */"),
        ("SELECT CAST(a AS DECIMAL(20, 0x1F))", '"0x1F" is not a number of the dialect', "0x1F"),
        ("SELECT CAST(a AS DECIMAL(10, 0.5))", '"0.5" is not a whole number', "0.5"),
        ("SELECT CAST(a AS DECIMAL(10, 2, 1))", "type DECIMAL takes 2 numbers in parentheses", "DECIMAL(10, 2, 1)"),
        ("CREATE TABLE t (a VARCHAR(1, 2))", "type VARCHAR takes 1 number in parentheses", "VARCHAR(1, 2)"),
        ("CREATE TABLE t (a STRING(3))", "type TEXT takes no numbers in parentheses", "STRING(3)"),
        ("SELECT CAST(a AS `INT`)", 'unexpected "INT"', "`INT`"),
        ("SELECT 0x1F", '"0x1F" is not a number of the dialect', "0x1F"),
        ("SELECT /*+ ]TATE_TTL('t' = '1d') */ a FROM t", 'unexpected "]"', "]"),
        ("SELECT /*+ STATE_TTL('t = '1d') */ a FROM t", "this string is never closed", "'"),
        ("SELECT /*+ LOOKUP('a' = 'b' */ a FROM t", "unexpected end of the statement", "'"),
        ("SELECT a FROM t /*+ OPTIONS('a' = 'b'), 5 */", 'unexpected "5"', "5"),
        ("SELECT a FROM .. bids", 'unexpected "."', "."),
        ("SELECT a FROM db..bids", 'unexpected "."', "."),
        ("SELECT a FROM db.", "unexpected end of the statement", "."),
        ("SELECT a AS r'\\d' FROM t", 'unexpected "\\d"', "r'\\d'"),
        ("SELECT a AS x'1F' FROM t", 'unexpected "1F"', "x'1F'"),
        ("SELECT a AS 5 FROM t", 'unexpected "5"', "5"),
        ("SELECT 1,.0.BD", "this is not a number of the dialect", "0.BD"),
        ("SELECT 2147483648 .len", "a number has no fields", "2147483648"),
        ("SELECT 'a'.len", "a text has no fields", "'a'"),
        ('SELECT "a"."len"', "a text has no fields", '"a"'),
        ("SELECT o.{x}", 'unexpected "{"', "{"),
        ("SELECT a FROM t FOR SYSTEM_TIME FROM x TO y", "a version of a table needs AS OF and a time", "y"),
        ("SELECT a FROM t VERSION AS OF", "a version of a table needs AS OF and a time", "OF"),
        ("SELECT a FROM t FOR UPDATE", 'unexpected "FOR"', "FOR"),
        ("SELECT a FROM t TABLESAMPLE BERNOULLI (5 PERCENT)", "TABLESAMPLE has no methods", ")"),
        ("SELECT SUM(a) OVER (w) OVER () FROM t", 'unexpected "OVER"', "OVER"),
        ("SELECT c.5 FROM t", 'unexpected "5"', "5"),
        ("SELECT c..5 FROM t", 'unexpected "."', "."),
        ("SELECT c.'x' FROM t", 'unexpected "x"', "'x'"),
        ("SELECT a IN b FROM t", "IN needs a list or a query in parentheses", "IN"),
        ("SELECT a IS b FROM t", "IS needs NULL, TRUE, FALSE, JSON or DISTINCT FROM", "b"),
        ("SELECT a COLLATE 'x' FROM t", "a collation is a name", "'x'"),
        ("SELECT a[1:2] FROM t", "an array has no [from:to]", ":"),
        ("SELECT a GLOB b FROM t", 'unexpected "GLOB"', "GLOB"),
        ("SELECT a <-> b FROM t", 'unexpected "<->"', "<->"),
        ("SELECT a := 1 FROM t", 'unexpected ":="', ":="),
        ("SELECT CAST(a AS INT FORMAT 'x') FROM t", "a CAST is written CAST(a AS type)", "'x'"),
        (f"SELECT {'9' * 42}", f'"{"9" * 42}" has more than the 38 digits of a DECIMAL', "9" * 42),
        ("SELECT CASE WHEN a 1 END FROM t", 'unexpected "1"', "1"),
        ("SELECT CASE a ELSE 1 END FROM t", 'unexpected "ELSE"', "ELSE"),
        ("SELECT CASE WHEN a, b THEN 1 END FROM t", 'unexpected ","', ","),
        (
            "SELECT CASE a WHEN 1, 2 THEN CASE b WHEN 1 THEN 2 END END FROM t",
            "several values behind one WHEN cannot lead to another CASE",
            "WHEN",
        ),
        ("SELECT g(=>=>", '"(" is never closed', "("),
        ("SELECT g(() => 1)", 'unexpected "=>"', "=>"),
        ("SELECT g((a, b) => 1)", 'unexpected "=>"', "=>"),
        ("SELECT g('99' => 1)", 'unexpected "=>"', "=>"),
        ("SELECT CAST(a AS INTERVAL DAY TO)", "an interval needs a unit behind TO", "TO"),
        ("SELECT CAST(a AS INTERVAL DAY(3) TO /* */)", "an interval needs a unit behind TO", "TO"),
        ("SELECT a FROM t UNION SELECT o JOIN s", 'unexpected "JOIN"', "JOIN"),
        ("SELECT 1e400", '"1e400" is out of the range of a DOUBLE', "1e400"),
        ("SELECT * FROM f(TABLE t, +DESCRIPTOR(s))", "DESCRIPTOR is an argument of a table function", "("),
        ("SELECT a QUALIFY b EMIT CHANGES", '"EMIT" needs a FROM', "EMIT CHANGES"),
        ("SELECT a FROM t GROUP BY WITH ROLLUP", 'unexpected "ROLLUP"', "ROLLUP"),
        ("SELECT a FROM t GROUP BY a WITH CUBE WITH ROLLUP", 'unexpected "ROLLUP"', "ROLLUP"),
        ("SELECT ~ * FROM t", 'unexpected "*"', "*"),
        ("INSERT INTO t VALUES (1) x, u y", 'unexpected ","', ","),
    ],
)
def test_it_is_refused(text: str, message: str, marked: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse_script(text)
    (only,) = raised.value.diagnostics
    assert only.message == message
    assert only.span is not None
    assert text[only.span.start : only.span.end] == marked


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("SELECT a FROM t GROUP BY +TUMBLE(a, b)", "SELECT a FROM t GROUP BY (TUMBLE(a, b))"),
        ("SELECT a FROM f(TABLE t PARTITION BY (k), b)", "SELECT a FROM f(TABLE t PARTITION BY (k), b)"),
        ("SELECT a FROM f(TABLE t PARTITION BY (k), b => c)", "SELECT a FROM f(TABLE t PARTITION BY k, b => c)"),
        ("SELECT 0.1BD", "SELECT CAST('0.1' AS DECIMAL(1, 1))"),
        ("SELECT 12.50BD", "SELECT CAST('12.50' AS DECIMAL(4, 2))"),
        ("SELECT 5BD", "SELECT CAST('5' AS DECIMAL(1, 0))"),
        ("SELECT 1e2BD", "SELECT CAST('1e2' AS DECIMAL(3, 0))"),
        ("SELECT a::DECIMAL", "SELECT CAST(a AS DECIMAL)"),
        ("SELECT * FROM (VALUES (1), (2)), t", "SELECT * FROM (VALUES (1), (2)), t"),
        ("SELECT SUM(a) OVER (ROWS 2 PRECEDING)", "SELECT SUM(a) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"),
        ("WITH q AS NOT MATERIALIZED (SELECT 1) TABLE q", "WITH q AS (SELECT 1) SELECT * FROM q"),
        ("SELECT a FROM t TABLESAMPLE (5 PERCENT) SEED (3)", "SELECT a FROM t TABLESAMPLE (5 PERCENT) REPEATABLE (3)"),
        ("SELECT INTERVAL -5 DAYS, INTERVAL - -5 DAYS", "SELECT INTERVAL '-5' DAYS, INTERVAL - -5 DAYS"),
        ("SELECT a = SOME (SELECT b FROM c) - 1", "SELECT a = ANY (SELECT b FROM c) - 1"),
        ("SELECT a. NULL, a. TRUE", "SELECT a.NULL, a.TRUE"),
        ("SELECT CAST(a AS ROW<x INT NULL>)", "SELECT CAST(a AS STRUCT<x: INT>)"),
        ("SELECT a IS NULL IS NULL", "SELECT (a IS NULL) IS NULL"),
        ("SELECT a ISNULL ISNULL", "SELECT (a IS NULL) IS NULL"),
        ("SELECT a AS FROM FROM t AS WHERE", "SELECT a AS `FROM` FROM t AS `WHERE`"),
        ("SELECT LOCALTIMESTAMP", "SELECT LOCALTIMESTAMP()"),
        ("SELECT /*+ A(1), B('x' = 'y') C */ a", "SELECT /*+ A(1), B('x' = 'y'), C */ a"),
    ],
)
def test_it_prints_as_what_it_means(text: str, printed: str) -> None:
    query = parse_query(text)
    assert to_sql(query) == printed
    assert parse_query(printed) == query


@pytest.mark.parametrize("text", ["SELECT m FROM :x /*+ S('') */", "SELECT * FROM E(`` => TABLE t)"])
def test_hints_of_parameters_and_empty_names_are_read_again(text: str) -> None:
    (statement,) = parse_script(text)
    assert parse_script(to_sql(statement)) == (statement,)


@pytest.mark.parametrize("kind", ["INT[3]", "TIMESTAMP[()]", "ARRAY<INT>[3]"])
def test_arrays_of_a_size_are_refused(kind: str) -> None:
    with pytest.raises(ParseError, match="SS101: an array has no size"):
        parse_script(f"CREATE TABLE t (a {kind}) WITH ('connector' = 'test')")


def test_several_values_behind_a_when_are_as_many_branches():
    query = parse_query("SELECT CASE a WHEN 1, 2 THEN /* b */ b WHEN 3 THEN c ELSE d END FROM t")
    assert to_sql(query) == "SELECT CASE a WHEN 1 THEN b WHEN 2 THEN b WHEN 3 THEN c ELSE d END FROM t"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT JSON(d):i, k = ENUM(d):i.x FROM t",
        "SELECT ~ ~a, - -a, ~-a FROM t",
        "SELECT g(`x y` => 1, b => 2)",
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES B.x AS x PATTERN (B) DEFINE B AS TRUE)",
    ],
)
def test_what_is_printed_means_the_same(text):
    assert to_sql(parse_query(text)) == text
    assert to_sql(parse_query(text.replace("BY a", "BY ((a))"))) == text


def test_operations_on_whole_tables_go_from_left_to_right():
    operations = parse_query("TABLE t EXCEPT TABLE u EXCEPT TABLE v")
    assert operations == parse_query("SELECT * FROM t EXCEPT SELECT * FROM u EXCEPT SELECT * FROM v")
    assert isinstance(operations.this, exp.Except)
