"""The command line without Spark: help, errors, exit codes, check, explain, format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.cli import run
from sqlstream.cli.commands import COMMANDS

ROOT = Path(__file__).parents[3]
TABLE = """CREATE TABLE bids (auction BIGINT, price DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'datagen');
"""


@pytest.fixture
def bids(tmp_path):
    path = tmp_path / "bids.sql"
    path.write_text(TABLE)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    assert run([command, "--help"]) == 0
    assert "Usage: sqlstream" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["--version"], ["run", "--help"], ["shell", "--help"]])
def test_help_and_version_load_neither_spark_nor_pandas(arguments):
    heavy = {"pyspark", "pandas", "sqlglot", "lark", "prompt_toolkit"}
    report = f"print({heavy} & {{*sys.modules}}, file=sys.stderr)"
    script = f"import sys; from sqlstream.cli import run; run(sys.argv[1:]); {report}"
    process = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert process.stdout
    assert process.stderr == "set()\n"


WITHOUT_EXTRAS = """
import importlib, pkgutil, sys
for name in ("psycopg", "pgserver", "redis", "duckdb", "pygls", "lsprotocol", "aiohttp", "sqlalchemy", "IPython"):
    sys.modules[name] = None
import sqlstream.cli, sqlstream.shell, sqlstream.statements
for package in (sqlstream.cli, sqlstream.shell, sqlstream.statements):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
"""


def test_commands_statements_and_shell_load_without_the_packages_of_extras():
    subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], check=True)


def test_the_version_is_an_option_too(capsys):
    assert run(["version"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("sqlstream ")
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == shown


def test_module_is_the_command():
    process = subprocess.run(
        [sys.executable, "-m", "sqlstream", "--help"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert process.stdout.startswith("Usage: sqlstream")


@pytest.mark.parametrize(
    "arguments",
    [
        ["unknown"],
        ["run"],
        ["run", "none.sql"],
        ["run", "-e", "SELECT 1", "--output", "xml"],
        ["run", "-e", "SHOW TABLES", "--param", "a=1"],
        ["run", "-e", "SHOW TABLES", "--set", "no.such.key=1"],
        ["run", "-e", "SHOW TABLES", "--set", "parallelism.default=many"],
        ["explain", "-e", "SHOW TABLES"],
        ["format", "--check", "--write", "-e", "SELECT 1"],
    ],
)
def test_wrong_commands_exit_with_2(arguments, capsys):
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Error: " in printed.err


def test_wrong_sql_is_shown_with_carets_and_exits_with_1(bids, capsys):
    assert run(["run", bids, "-e", "SELECT pricee FROM bids"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(
        '-e: SS201: column "pricee" does not exist\nLINE 1: SELECT pricee FROM bids\n               ^^^^^^\n'
    )
    assert "Traceback" not in printed.err


def test_parameters_are_put_in_before_anything_else(capsys):
    assert run(["run", "-e", "SELECT * FROM ${t}"]) == 1
    assert capsys.readouterr().err.startswith('SS190: parameter "t" has no value')


def test_check_lists_all_mistakes_with_their_files(bids, tmp_path, capsys):
    wrong = tmp_path / "wrong.sql"
    wrong.write_text("SELECT pricee FROM bids;\n\nSELEC 1;\nSELECT nope(price) FROM bids")
    assert run(["check", bids, str(wrong)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert [line for line in lines if line.startswith(str(wrong))] == [
        f'{wrong}: SS201: column "pricee" does not exist',
        f'{wrong}: SS103: unknown statement "SELEC"',
        f'{wrong}: SS203: function "nope" does not exist',
    ]
    assert [line for line in lines if line.startswith("LINE")] == [
        "LINE 1: SELECT pricee FROM bids;",
        "LINE 3: SELEC 1;",
        "LINE 4: SELECT nope(price) FROM bids",
    ]
    assert lines[-1] == "3 mistakes"


def test_check_accepts_what_is_right(bids, capsys):
    assert run(["check", bids, "-e", "SELECT price FROM bids"]) == 0
    assert capsys.readouterr().out == "no mistakes\n"


def test_check_shows_warnings_with_their_places_and_counts_them(bids, tmp_path, capsys):
    hasty = tmp_path / "hasty.sql"
    hasty.write_text("SELECT price\nFROM bids WHERE CAST(price AS STRING) RLIKE '\\b1'")
    assert run(["check", bids, str(hasty)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "no mistakes, 1 warning\n"
    assert printed.err == (
        f'{hasty}: WARNING SS236: the pattern holds a backspace, which is what "\\b" means in a text\n'
        "LINE 2: FROM bids WHERE CAST(price AS STRING) RLIKE '\\b1'\n"
        "                                                    ^^^^^\n"
        "HINT: Write r'\\b1' for the edge of a word.\n\n"
    )


def test_modules_beside_a_script_hold_its_functions(tmp_path, capsys):
    (tmp_path / "beside_the_script.py").write_text("def plus(x: int) -> int:\n    return x + 1\n")
    script = tmp_path / "a.sql"
    script.write_text("CREATE FUNCTION plus AS 'beside_the_script:plus' LANGUAGE PYTHON")
    before = list(sys.path)
    assert run(["check", str(script)]) == 0, capsys.readouterr().err
    assert sys.path == before


def test_check_reads_standard_input():
    process = subprocess.run(
        [sys.executable, "-m", "sqlstream", "check", "-"], cwd=ROOT, input=TABLE + "SELECT x FROM bids",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr.startswith('<stdin>: SS201: column "x" does not exist\nLINE 3: SELECT x FROM bids')


def test_explain_prints_the_plan_as_text(bids, capsys):
    assert run(["explain", bids, "-e", "SELECT price * 2 AS twice FROM bids"]) == 0
    assert capsys.readouterr().out.startswith("Output(twice)")


def test_explain_knows_the_table_of_a_query_behind_it(bids, capsys):
    kept = "CREATE TABLE kept WITH ('connector' = 'memory') AS SELECT price FROM bids; SELECT price FROM kept"
    assert run(["explain", bids, "-e", kept]) == 0
    assert "Scan(kept: price)" in capsys.readouterr().out


def test_explain_prints_the_plan_as_json(bids, capsys):
    assert run(["explain", bids, "-e", "SELECT price FROM bids", "--format", "json"]) == 0
    assert "version" in json.loads(capsys.readouterr().out)


def test_explain_prints_the_plan_as_mermaid(bids, capsys):
    assert run(["explain", bids, "-e", "SELECT price FROM bids", "--format", "mermaid"]) == 0
    assert capsys.readouterr().out.startswith(("flowchart", "graph"))


def test_definitions_and_listings_need_no_spark(bids, capsys):
    assert run(["run", bids, "-e", "SHOW TABLES; SHOW CREATE TABLE bids"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(" table name\n------------\n bids\n(1 row)\nCREATE TABLE ")
    assert printed.err == ""


def test_listings_come_as_json_lines(bids, capsys):
    assert run(["run", bids, "-e", "SHOW TABLES", "--output", "jsonl"]) == 0
    assert capsys.readouterr().out == '{"table name": "bids"}\n'


def test_format_prints_the_standard_layout(capsys):
    assert run(["format", "-e", "select a,b from t where a>1"]) == 0
    formatted = capsys.readouterr().out
    assert run(["format", "-e", formatted]) == 0
    assert capsys.readouterr().out == formatted


def test_format_leaves_parameters_as_they_are(capsys):
    assert run(["format", "-e", "select a from t where a > ${least}"]) == 0
    assert "a > ${least}" in capsys.readouterr().out


def test_format_rewrites_and_checks_files(tmp_path, capsys):
    path = tmp_path / "q.sql"
    path.write_text("select a,b from t")
    assert run(["format", "--check", str(path)]) == 1
    assert run(["format", "--write", str(path)]) == 0
    assert run(["format", "--check", str(path)]) == 0
    assert capsys.readouterr().err == f"would change {path}\nchanged {path}\n"


def test_format_keeps_permissions_and_links(tmp_path):
    path, link = tmp_path / "q.sql", tmp_path / "link.sql"
    path.write_text("select 1", encoding="utf-8")
    path.chmod(0o640)
    link.symlink_to(path)
    assert run(["format", "--write", str(link)]) == 0
    assert link.is_symlink() and path.read_text(encoding="utf-8") == "SELECT\n  1;\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_format_replaces_a_file_whole_or_not_at_all(tmp_path, monkeypatch, capsys):
    path = tmp_path / "q.sql"
    path.write_text("select 1", encoding="utf-8")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    assert run(["format", "--write", str(path)]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "select 1"
    assert list(tmp_path.iterdir()) == [path]


def test_format_leaves_all_files_where_one_cannot_be_formatted(tmp_path, monkeypatch, capsys):
    one, two = tmp_path / "one.sql", tmp_path / "two.sql"
    one.write_text("select 1", encoding="utf-8")
    two.write_text("select 2 -- c", encoding="utf-8")
    monkeypatch.setattr("sqlstream.grammar.formatting.woven", lambda printed, *_: printed)
    assert run(["format", "--write", str(one), str(two)]) == 1
    assert "SS108" in capsys.readouterr().err
    assert (one.read_text(encoding="utf-8"), two.read_text(encoding="utf-8")) == ("select 1", "select 2 -- c")


@pytest.mark.parametrize(("arguments", "shown"), [(["version"], False), (["--debug", "version"], True)])
def test_logs_of_libraries_are_for_debugging(arguments, shown):
    code = f"import logging, sqlstream.cli; sqlstream.cli.run({arguments}); logging.error('KeyboardInterrupt')"
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ("KeyboardInterrupt" in process.stderr) == shown


def test_internal_mistakes_are_named_without_a_traceback(monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise AssertionError("impossible")

    monkeypatch.setattr("sqlstream.session.Session.check", fail)
    assert run(["check", "-e", "SHOW TABLES"]) == 70
    assert capsys.readouterr().err.startswith("internal error: AssertionError: impossible\n")
    with pytest.raises(AssertionError):
        run(["--debug", "check", "-e", "SHOW TABLES"])


@pytest.mark.parametrize("command", [["check"], ["run"], ["explain"], ["--debug", "check"]])
def test_a_module_that_exits_is_a_mistake(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    create = "CREATE FUNCTION f AS 'exits:f' LANGUAGE PYTHON"
    assert run([*command, "-e", create]) == 1
    assert "SS552: importing module" in capsys.readouterr().err


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_nothing_that_is_raised_exits_with_0(debug, monkeypatch, capsys):
    monkeypatch.setattr("sqlstream.cli.check.check_scripts", lambda *_: sys.exit(0))
    assert run([*debug, "check", "-e", "SHOW TABLES"]) == 70
    assert "internal error: SystemExit: 0" in capsys.readouterr().err
