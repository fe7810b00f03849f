"""Every block of SQL, shell and Python of every page: it runs in a test, or is checked as far as no server is needed.

Blocks of SQL are bound and their options validated, each with the tables that its page has made before it, else with
those of ``TABLES``. What else a block needs, or why it is none of its language, stands in the lists here; an entry that
no block needs any more fails.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

import sqlstream
from sqlstream.cli import commands as ours

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")])

TABLES = {
    "docs/from_spark.md:orders": "id BIGINT, item STRING, price DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at",
    "docs/from_spark.md:payments": "order_id BIGINT, amount DOUBLE, paid TIMESTAMP(3), WATERMARK FOR paid AS paid",
    "bids": "auction BIGINT, bidder BIGINT, price DECIMAL(10, 2), at TIMESTAMP(3), WATERMARK FOR at AS at",
    "changes": "id BIGINT, name STRING, level INT, carrier STRING, fleet INT",
    "clicks": "account STRING, page STRING, at TIMESTAMP(3), WATERMARK FOR at AS at",
    "counts": "auction BIGINT, bids BIGINT",
    "dear": "auction BIGINT, price DECIMAL(10, 2)",
    "docs/process_functions.md:orders": "id BIGINT, event STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
    "departures": "origin STRING, carrier STRING, delay INT, at TIMESTAMP(3), WATERMARK FOR at AS at",
    "events": "device STRING, id STRING",
    "failures": "id BIGINT, error STRING",
    "flights": "flight STRING, tailnum STRING, carrier STRING, pt AS PROCTIME()",
    "logins": "ip STRING, pt AS PROCTIME()",
    "orders": (
        "id BIGINT, price DECIMAL(10, 2), amount DECIMAL(10, 2), currency STRING, customer BIGINT, pt AS PROCTIME(), "
        "ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    ),
    "payments": "card STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
    "people": "name STRING",
    "quotes": "item STRING, price DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
    "rates": (
        "currency STRING, rate DECIMAL(10, 4), ts TIMESTAMP(3), WATERMARK FOR ts AS ts, "
        "PRIMARY KEY (currency) NOT ENFORCED"
    ),
    "sales": "shop STRING, amount INT, kind STRING, day DATE",
    "totals": "auction BIGINT, n BIGINT",
    "trades": "id BIGINT, item STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
}
"""Tables that examples read or write without creating them. Where a page makes one of the name for another example, it
is this one all the same."""

LOOKED_UP = {"customers": "id BIGINT, name STRING"}
"""Tables that examples look up without creating them."""

SHAPES = {
    (
        "docs/connectors.md",
        "CREATE TABLE shipments",
    ): "a schema registry, which tests/sqlstream/test_documentation.py has",
    ("examples/brokers/README.md", "CREATE TABLE"): "connectors of packages, which tests/examples has",
    ("docs/lake.md", "CREATE CATALOG"): "catalogs of its reader; tests/sqlstream/catalogs/test_lakes.py has some",
    ("docs/dialect.md", "FROM TUMBLE  (TABLE t"): "the forms of window functions, with optional parts in brackets",
    ("docs/dialect.md", "GROUP BY k, TUMBLE(at, size)"): "the forms of windows as clauses",
    ("docs/dialect.md", "SELECT * FROM f(input"): "the form of a call: f is any process function",
}
"""Blocks of SQL that are no statements or need what only their reader has, by page and beginning, and why."""

VARIABLES = ("METRICS_TOKEN", "OPENLINEAGE_API_KEY")
"""Variables of the environment that settings in examples refer to."""

NOT_RUN = {
    ("docs/lake.md", "pip install"): "an installation of its own; tests/test_packaging.py has the extras",
    ("docs/dbt.md", "dbt run"): "an environment of dbt's; tests/dbt_suite runs these commands",
    ("docs/connectors.md", "from aws_msk_iam_sasl_signer"): "a service of another; tests/udfs/test_kafka_tokens.py",
    ("docs/deploy.md", "sqlstream deploy"): "scripts of its reader; tests/sqlstream/deploy has these commands",
    ("docs/jobs.md", "sqlstream upgrade"): "running jobs of its reader; tests/sqlstream/upgrade has these commands",
    ("docs/metrics.md", "sqlstream run"): "a job of its reader; tests/sqlstream/telemetry has a server that is asked",
    ("docs/metrics.md", "sqlstream metrics"): "files in the folder; tests/sqlstream/telemetry/test_instruments.py",
    ("README.md", "make demo"): "the two commands, which CI runs",
    ("CONTRIBUTING.md", "make setup"): "environments, which CI makes",
    ("CONTRIBUTING.md", "python -m pytest"): "tests, and a golden file of its reader",
    (
        "docs/catalogs.md",
        "sqlstream run daily.sql",
    ): "a script of its reader; tests/sqlstream/test_project.py has profiles",
    ("docs/clusters.md", "sqlstream run job.sql"): "clusters of its reader",
    ("docs/clusters.md", "spark-submit --master spark"): "a cluster",
    ("docs/clusters.md", "python -m venv env"): "YARN",
    ("docs/clusters.md", "pip wheel"): "a cluster",
    ("docs/clusters.md", "import sqlstream"): "an object store",
    ("docs/connectors.md", "sqlstream.connect"): "a jar of Kafka, which Spark downloads",
    ("docs/connectors.md", "curl"): "a job that listens; tests/sqlstream/connectors/test_webhook.py asks one",
    ("examples/brokers/README.md", "pip install"): "a server; tests/examples/test_nats.py has one",
    ("examples/nexmark/README.md", "make nexmark"): "a benchmark; tests/examples/test_nexmark.py has its parts",
    ("examples/nexmark/README.md", "make nexmark-flink"): "fetches Flink; tests/examples/test_nexmark.py has its parts",
    ("examples/nexmark/README.md", "python -m examples.nexmark.files"): "as tests/examples/test_nexmark.py, larger",
    ("docs/planner.md", "pip install"): "a distribution of its own; tests/test_distributions.py installs it",
    ("docs/ibis.md", "pip install"): "an installation of its own; tests/test_packaging.py has the extras",
    ("docs/dbapi.md", "pip install"): "an installation of its own; tests/test_packaging.py has the extras",
    ("docs/from_flink.md", "sqlstream check"): "a script of its reader; tests/sqlstream/statements has its warnings",
    ("docs/jobs.md", "sqlstream jobs list"): "jobs that run; tests/sqlstream/cli/test_jobs.py has these commands",
    ("docs/jobs.md", "from sqlstream.jobs import"): "jobs that run; tests/sqlstream/jobs has these calls",
    ("docs/jobs.md", "path = job.savepoint"): "a job; tests/sqlstream/jobs has these calls",
    ("docs/jobs.md", "sqlstream jobs serve"): "a server; tests/sqlstream/console/test_console.py has one",
    ("docs/airflow.md", "from datetime"): "a scheduler; tests/sqlstream/cli/test_airflow.py has its commands",
    ("docs/python.md", "def shout"): "a session; tests/sqlstream/test_session.py registers functions",
    ("docs/python.md", "class Place"): "a web service",
    ("docs/quickstart.md", "python3 -m venv"): "an installation of its own, which CI makes",
    ("docs/quickstart.md", "pip install dist"): "the same; tests/test_distributions.py has these wheels",
    (
        "docs/shell.md",
        "sqlstream jobs list",
    ): "jobs that were submitted; tests/sqlstream/jobs/records/test_submissions.py",
    ("docs/views.md", "sqlstream serve"): "a server; tests/sqlstream/views/test_serving.py",
    ("README.md", "sqlstream serve"): "a server; tests/sqlstream/views/test_serving.py",
    ("examples/barriers/README.md", "sqlstream run"): "tests/examples/test_barriers.py",
    ("examples/flights/README.md", "make demo"): "CI runs it",
    ("examples/flights/README.md", "python -m"): "tests/examples/test_flights.py",
    ("examples/lake/README.md", "make demo-lake"): "tests/examples/test_lake.py, shorter",
    ("examples/live/README.md", "make demo-live"): "tests/examples/test_live.py, shorter",
    ("examples/lookups/README.md", "make demo-lookups"): "tests/examples/test_lookups.py",
    ("examples/process/README.md", "python -m"): "tests/examples/test_process.py",
    ("examples/statement_sets/README.md", "python -m"): "tests/examples/test_statement_sets.py",
    ("examples/team/README.md", "pip install"): "an installation of its own; tests/test_docs.py makes one",
    ("examples/team/README.md", "sqlstream"): "tests/examples/test_team.py",
    ("examples/views/README.md", "pip install"): "a server; tests/sqlstream/views/test_serving.py checks the script",
    ("examples/views/README.md", "python3 departures"): "psql; tests/sqlstream/views/test_serving.py has a server",
    ("examples/windows/README.md", "python -m"): "tests/examples/test_windows.py",
}
"""Blocks of shell and Python that no test runs as they are: what they need, or which test has them. All are checked."""

RUN = {
    ("README.md", "from sqlstream.planner"): "tests/sqlstream/analysis/test_examples.py",
    ("docs/connectors_of_your_own.md", ""): "tests/sqlstream/connectors/test_connectors_of_your_own.py",
    ("docs/planner.md", "from sqlstream.planner"): "tests/sqlstream/analysis/test_examples.py",
    ("docs/planner.md", "sqlstream explain"): "tests/sqlstream/analysis/test_examples.py",
    ("docs/ibis.md", "import ibis"): "tests/sqlstream/ibis/test_documentation.py",
    ("docs/dbapi.md", "from sqlstream"): "tests/sqlstream/alchemy/test_documentation.py",
    ("docs/dbapi.md", "import pandas"): "tests/sqlstream/alchemy/test_documentation.py",
    ("README.md", "pip install ."): "tests/test_docs.py",
    ("README.md", "import sqlstream"): "tests/test_docs.py",
    ("docs/quickstart.md", "mkdir bids"): "tests/test_docs.py",
    ("docs/quickstart.md", "sed "): "tests/test_docs.py",
    ("docs/quickstart.md", "curl "): "tests/test_docs.py",
    ("docs/quickstart.md", "mkdir old"): "tests/test_docs.py",
    ("docs/quickstart.md", "cat > "): "tests/test_docs.py",
    ("docs/quickstart.md", "sqlstream "): "tests/test_docs.py",
    ("docs/from_spark.md", ""): "tests/test_from_spark_page.py",
    ("docs/python.md", "import sqlstream"): "tests/sqlstream/test_documentation.py",
    ("docs/process_functions.md", "from "): "tests/udfs/process/test_documentation.py",
    ("docs/testing.md", "from datetime"): "tests/sqlstream/testing/test_documentation.py",
    ("docs/testing.md", "ENRICHED"): "tests/sqlstream/testing/test_documentation.py",
}
"""Blocks that a test runs, and which."""


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    line: int
    text: str

    def is_in(self, items: dict[tuple[str, str], str]) -> bool:
        return any(page == self.page and self.text.startswith(start) for page, start in items)


def blocks() -> Iterator[Block]:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for item in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield Block(str(path.relative_to(ROOT)), item[1], text[: item.start()].count("\n") + 1, item[2])


ALL = [*blocks()]


def of(*languages: str) -> list:
    return [pytest.param(b, id=f"{b.page}:{b.line}") for b in ALL if b.language in languages]


# --- SQL ------------------------------------------------------------------------------------------------------

_UNKNOWN = re.compile(r'table (?:or view )?"(\w+)" does not exist')


@dataclass(frozen=True)
class Created:
    """The tables and views that a page has made, by name."""

    name: str = ""
    tables: dict[str, str] = field(default_factory=dict)


def created_before(block: Block) -> Created:
    """Above the block; the last one of a name counts."""
    collected: dict[str, str] = {}
    for other in ALL:
        if other.page == block.page and other.language in ("sql", "sh") and other.line < block.line:
            for statement in other.text.split(";\n"):
                name = re.search(r"^CREATE (?:TABLE|VIEW) (\w+)", statement, re.MULTILINE)
                if name:
                    collected[name[1]] = statement[name.start() :].rstrip().rstrip(";")
    return Created(block.page, collected)


def mistakes(text: str, page: Created) -> list[str]:
    """What ``check`` says of the script, with the tables that it needs put before it."""
    given: list[str] = []
    for _ in range(len(TABLES) + len(page.tables)):
        with sqlstream.connect() as session:
            wrong = session.check(";\n".join([*given, text]))
        unknown = {name[1] for d in wrong if (name := _UNKNOWN.search(d.message))}
        more = [made for name in sorted(unknown) if (made := _table(name, page)) is not None]
        if not more or set(more) <= set(given):
            return [f"{d.code}: {d.message}" for d in wrong]
        given = [*more, *given]
    return ["its tables need each other"]


def _table(name: str, page: Created) -> str | None:
    """The statement that makes it; None where nobody knows it."""
    columns = TABLES.get(f"{page.name}:{name}") or TABLES.get(name)
    if columns is not None:
        return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'memory')"
    if name in LOOKED_UP and name not in page.tables:
        options = f"'connector' = 'duckdb', 'path' = 'shop.duckdb', 'table-name' = '{name}'"
        return f"CREATE TABLE {name} ({LOOKED_UP[name]}) WITH ({options})"
    return page.tables.get(name)


@pytest.fixture
def functions_of_pages(tmp_path, monkeypatch):
    """The module ``my_functions``, which pages speak of: what docs/process_functions.md defines."""
    text = "\n".join(b.text for b in ALL if b.page == "docs/process_functions.md" and b.language == "python")
    (tmp_path / "my_functions.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_functions", None)


@pytest.mark.parametrize("block", of("sql"))
def test_sql_is_right(block, functions_of_pages, monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, "of the reader")
    if not block.is_in(SHAPES):
        assert mistakes(block.text, created_before(block)) == []


# --- shell ----------------------------------------------------------------------------------------------------

_OUTSIDE = {
    "cat", "cd", "cp", "curl", "dbt", "mkdir", "nats", "nats-server", "pip", "psql", "python3", "sed", "source",
    "spark-submit",
}  # fmt: skip
"""Programs that are not ours; ``.`` is ``source``."""


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command, without here-documents, comments, pipes and environments."""
    text = re.sub(r"<<'?(\w+)'?\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE).replace("\\\n", " ")
    text = re.sub(r"(^|\s)#.*$", "", text, flags=re.MULTILINE)
    words = shlex.shlex(text, posix=True, punctuation_chars="|&;\n")
    words.whitespace, words.whitespace_split, words.commenters = " \t", True, ""
    command: list[str] = []
    for word in [*words, "\n"]:
        if set(word) <= set("|&;\n"):
            if command:
                yield command
            command = []
        else:
            command.append(word)


def check_command(words: list[str], page: Path) -> None:
    match words:
        case ["sqlstream", *arguments]:
            check_ours(arguments)
        case ["make", goal]:
            assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), goal
        case ["python", "-m", module, *_]:
            assert module == "venv" or importlib.util.find_spec(module) is not None, module
        case [program, *_]:
            assert (*Path(program).parts, ".")[0] in {*_OUTSIDE, ".", "env", "less", "sort"}, program


def check_ours(arguments: list[str]) -> None:
    """The command and its options are there; files of this repository, too."""
    command: click.Command = ours
    context = click.Context(ours)
    rest = arguments
    while isinstance(command, click.Group):
        name, actual, rest = command.resolve_command(context, rest)
        assert actual is not None, name
        command, context = actual, click.Context(actual, context, info_name=name)
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    for word in rest:
        if word.startswith("-") and word != "-":
            assert word.split("=")[0] in known, word
        if word.startswith("examples/"):
            assert (ROOT / word).exists(), word


@pytest.mark.parametrize("block", of("sh", "bash"))
def test_commands_are_there(block):
    assert block.is_in(RUN) or block.is_in(NOT_RUN)
    collected = [*commands(block.text)]
    assert collected
    for words in collected:
        check_command(words, ROOT / block.page)
    for words in collected:
        if words[:1] == ["sqlstream"] and "-e" in words:
            assert mistakes(words[words.index("-e") + 1], created_before(block)) == []


def test_wrong_commands_are_found():
    """The checks themselves fail where they should."""
    for wrong in ("sqlstream rum x.sql", "sqlstream run --no-such-option", "make no-such-goal",
                  "python -m no_such_module", "sqlstream run examples/none.sql", "no-such-program"):  # fmt: skip
        with pytest.raises((AssertionError, click.UsageError)):
            for words in commands(wrong):
                check_command(words, ROOT / "README.md")
    assert mistakes("SELECT pricee FROM bids", Created()) == ['SS201: column "pricee" does not exist']


# --- Python ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of("python"))
def test_python_is_right(block):
    """It compiles, what it imports of ours is there, and so is all SQL in calls of ``sql``."""
    assert block.is_in(RUN) or block.is_in(NOT_RUN)
    statements: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(block.text)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("sqlstream"):
                imported = importlib.import_module(module)
                assert all(hasattr(imported, n.name) or find_spec(f"{module}.{n.name}") for n in names), module
            case ast.Call(func=ast.Attribute(attr="sql"), args=[ast.Constant(value=str(text))], lineno=line):
                statements.append((line, text))
    script = ";\n".join(text for _, text in sorted(statements))
    wrong = mistakes(script, created_before(block))
    if "register_function" in block.text:  # what it registers is not there
        wrong = [m for m in wrong if "function" not in m.lower()]
    assert wrong == []


# --- the lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [SHAPES, NOT_RUN, RUN], ids=["SHAPES", "NOT_RUN", "RUN"])
def test_lists_hold_only_what_pages_need(listed):
    used = {key for key in listed for block in ALL if block.page == key[0] and block.text.startswith(key[1])}
    assert set(listed) - used == set()


def test_tests_that_run_blocks_are_there():
    for place in RUN.values():
        assert (ROOT / place).is_file(), place
    for reason in NOT_RUN.values():
        for place in re.findall(r"tests/[\w/]+(?:\.py)?", reason):
            assert (ROOT / place).exists(), place


def test_blocks_have_a_language_that_is_checked_or_none():
    """Without one stand help texts, messages and drawings; no command hides among them."""
    for block in ALL:
        assert block.language in {"sql", "sh", "bash", "python", "text", "json", "toml", "yaml", "jinja", "ebnf", ""}, (
            block.page,
            block.line,
        )
        first = block.text.split(maxsplit=1)[0] if block.text.strip() else ""
        generated = block.page in {"docs/cli.md"}
        if block.language == "" and not generated:
            assert first not in {"sqlstream", "make", "pip", "python", "SELECT", "CREATE", "import"}, (
                block.page,
                block.line,
            )
