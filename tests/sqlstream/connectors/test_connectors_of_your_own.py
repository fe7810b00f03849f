"""The package of docs/connectors_of_your_own.md, built from the page, installed apart and used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.depth import usually

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "connectors_of_your_own.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    """The first block of a language on the page."""
    text, *_ = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed, for PYTHONPATH: its wheel unpacked, as pip does it."""
    base = tmp_path_factory.mktemp("own")
    source, target = base / "sqlstream-logfmt", base / "site-packages"
    source.mkdir()
    (source / "pyproject.toml").write_text(_block("toml"), encoding="utf-8")
    (source / "sqlstream_logfmt.py").write_text(_block("python"), encoding="utf-8")
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(base)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, text=True)
    (wheel,) = base.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(target)
    return target


def _environment(installed: Path, **variables: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]), **variables}


def _run(command: list[str], installed: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = _environment(installed, **variables)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _python(script: str, installed: Path, folder: Path) -> Any:
    """What the script prints as JSON, run in an interpreter of its own."""
    ran = _run([sys.executable, "-P", "-c", script], installed, folder)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


TABLE = "CREATE TABLE log (level STRING, ms BIGINT{columns}) WITH ('connector' = 'logfmt', {options})"
MISTAKES = {
    "unknown": (TABLE.format(columns="", options="'path' = 'log', 'seperator' = ';'"), "SS502"),
    "wrong": (TABLE.format(columns="", options="'path' = 'log', 'watch' = 'yes'"), "SS504"),
    "missing": (TABLE.format(columns="", options="'watch' = 'true'"), "SS503"),
    "own check": (TABLE.format(columns=", tags ARRAY<STRING>", options="'path' = 'log'"), "SS505"),
    "variable": (TABLE.format(columns="", options="'path' = 'log', 'separator' = '${S}'"), "SS587"),
}
HINTS = {
    "unknown": 'Did you mean "separator"?',
    "wrong": "Accepted: 'true' or 'false'.",
    "missing": "Add 'path' = '…' to WITH: The directory of the files.",
    "own check": "Declare it STRING.",
    "variable": "Options that take one: path, signing-secret.",
}

CHECKS = f"""
import json, sys
import sqlstream
from sqlstream.connectors import connector, names
from sqlstream.planner import Planner
from sqlstream.planner.completion import complete
from sqlstream.vocabulary import SessionVocabulary

mistakes = {MISTAKES!r}
start = "CREATE TABLE t (a INT) WITH ('connector' = 'logfmt', "
with sqlstream.connect() as session:
    vocabulary = SessionVocabulary(session.workspace)
    result = {{
        "names": list(names()),
        "mistakes": {{key: [(d.code, d.hint) for d in session.check(sql)] for key, (sql, _) in mistakes.items()}},
        "loaded": "sqlstream_logfmt" in sys.modules,
        "connectors": [s.text for s in complete("CREATE TABLE t (a INT) WITH ('connector' = 'log", 46, vocabulary)],
        "keys": [s.text for s in complete(start + "'", len(start) + 1, vocabulary)],
        "words": [s.text for s in complete(start + "'watch' = '", len(start) + 11, vocabulary)],
    }}
    session.sql({TABLE.format(columns="", options="'path' = 'a', 'separator' = ';', 'signing-secret' = 'hunter2'")!r})
    result["shown"] = str(session.sql("SHOW CREATE TABLE log").fetchall())
    result["listed"] = [tuple(row) for row in session.sql("SHOW CONNECTORS").fetchall() if row[0] == "logfmt"]
    result["pyspark"] = "pyspark" in sys.modules
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def checked(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    result: Mapping[str, Any] = _python(CHECKS, installed, tmp_path_factory.mktemp("checks"))
    return result


def test_the_connector_has_sixty_lines() -> None:
    assert len(_block("python").strip().splitlines()) <= 66


@pytest.mark.parametrize("key", MISTAKES)
def test_a_wrong_option_is_an_error_with_a_hint(checked: Mapping[str, Any], key: str) -> None:
    ((code, hint),) = checked["mistakes"][key]
    assert code == MISTAKES[key][1]
    assert HINTS[key] in hint


def test_statements_are_checked_without_spark(checked: Mapping[str, Any]) -> None:
    assert checked["loaded"] and not checked["pyspark"]


def test_completion_offers_the_connector_its_options_and_their_words(checked: Mapping[str, Any]) -> None:
    assert "logfmt" in checked["names"] and "logfmt" in checked["connectors"]
    assert {"path", "separator", "signing-secret", "watch", "on-error", "sink.parallelism"} <= {*checked["keys"]}
    assert checked["words"] == ["true", "false"]


def test_statements_show_the_connector_and_hide_its_secret(checked: Mapping[str, Any]) -> None:
    ((name, source, sink, lookup, doc),) = checked["listed"]
    assert (name, source, sink, lookup) == ("logfmt", "yes", "yes", "no")
    assert doc.startswith("Directories of files")
    assert "hunter2" not in checked["shown"] and "'signing-secret' = '******'" in checked["shown"]
    assert "'separator' = ';'" in checked["shown"]


def test_the_package_brings_its_documentation(installed: Path, tmp_path: Path) -> None:
    ran = _run([sys.executable, "-P", "-m", "sqlstream.connectors", "logfmt"], installed, tmp_path)
    assert ran.stdout.startswith("## logfmt\n\nDirectories of files")
    assert "| `path` | source, sink | a path or a URI" in ran.stdout and "| **required** |" in ran.stdout
    ran = _run([sys.executable, "-P", "-m", "sqlstream.connectors", "logfm"], installed, tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert 'Did you mean "logfmt"?' in ran.stderr


BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence."),
    "is no connector": ("class Logfmt: ...", "sqlstream_logfmt:Logfmt is no sqlstream.connectors.Connector."),
    "has another name": (
        "from sqlstream.connectors import Connector\nclass Logfmt(Connector): name = 'log'",
        'its entry point is called "logfmt", and its class "log".',
    ),
}


@pytest.mark.parametrize("key", usually(BROKEN, "raises"))
def test_a_package_that_cannot_be_loaded_harms_nobody_else(installed: Path, tmp_path: Path, key: str) -> None:
    module, reason = BROKEN[key]
    (tmp_path / "sqlstream_logfmt.py").write_text(module)
    for metadata in installed.glob("*.dist-info"):
        shutil.copytree(metadata, tmp_path / metadata.name)
    script = f"""
import json, sqlstream
with sqlstream.connect() as session:
    (wrong,) = session.check({TABLE.format(columns="", options="'path' = 'log'")!r})
    listed = [row[0] for row in session.sql("SHOW CONNECTORS").fetchall()]
print(json.dumps([wrong.code, wrong.message, wrong.detail, wrong.span is not None, listed]))
"""
    code, message, detail, has_span, listed = _python(script, tmp_path, tmp_path)
    assert (code, detail, has_span) == ("SS501", reason, True)
    assert message == 'connector "logfmt" of package "sqlstream-logfmt" cannot be loaded'
    assert "filesystem" in listed and "logfmt" not in listed


@pytest.mark.spark
@pytest.mark.long
def test_the_script_of_the_page_writes_and_reads_signed_lines(installed: Path, tmp_path: Path) -> None:
    (text,) = re.findall(r"^cat > levels\.sql <<'SQL'\n(.*?)^SQL$", _block("sh"), re.DOTALL | re.MULTILINE)
    (tmp_path / "levels.sql").write_text(text)
    command = [sys.executable, "-P", "-m", "sqlstream", "run"]
    first = _run([*command, "levels.sql"], installed, tmp_path, LOGFMT_SECRET="hunter2")
    assert first.returncode == 0, first.stderr
    assert re.findall(r"(error|info)\W+(\d+)\W+(\d+)", first.stdout) == [("info", "6", "210"), ("error", "3", "240")]
    lines = [line for file in (tmp_path / "log").rglob("part-*") for line in file.read_text().splitlines()]
    assert len(lines) == 9 and all(re.fullmatch(r"[0-9a-f]{64}\|level=(info|error);ms=\d+", line) for line in lines)

    (tmp_path / "log" / "forged.txt").write_text("level=error;ms=1\n" + "0" * 64 + "|level=error;ms=1\n")
    create, _, query = text.partition("INSERT INTO")
    (tmp_path / "again.sql").write_text(create + query[query.index("SELECT level") :])
    second = _run([*command, "again.sql"], installed, tmp_path, LOGFMT_SECRET="hunter2")
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout
    missing = _run([*command, "again.sql"], installed, tmp_path)
    assert missing.returncode != 0
    assert 'SS190: parameter "LOGFMT_SECRET" has no value' in missing.stderr
