"""``sqlstream.toml``: what it may say, profiles, and what is told of mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlstream
from sqlstream.cli import run
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import Table
from sqlstream.project import find_project, nearest_project, read_project

TEXT = """
catalog = "shop"
[settings]
parallelism.default = 2
"table.dml-sync" = true
"execution.checkpointing.dir" = "checkpoints"
[variables]
data = "/data"
[catalogs.shop]
type = "file"
path = "definitions"
[profiles.prod]
catalog = "default_catalog"
[profiles.prod.settings]
"parallelism.default" = 7
[profiles.prod.variables]
data = "s3a://data"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sqlstream.toml").write_text(TEXT)
    (tmp_path / "a/b").mkdir(parents=True)
    return tmp_path


def test_it_is_found_upwards_and_paths_count_from_it(folder: Path) -> None:
    assert find_project(folder / "a/b") == folder / "sqlstream.toml"
    project = nearest_project(folder / "a/b")
    assert project is not None and project.folder == folder
    assert project.settings == {
        "parallelism.default": "2", "table.dml-sync": "true",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
    }  # fmt: skip
    assert project.variables == {"project": str(folder), "data": "/data"}
    assert project.catalogs == {"shop": {"type": "file", "path": str(folder / "definitions")}}


def test_a_profile_says_what_is_different(folder: Path) -> None:
    project = read_project(folder / "sqlstream.toml", "prod")
    assert project.settings["parallelism.default"] == "7" and project.settings["table.dml-sync"] == "true"
    assert (project.catalog, project.variables["data"]) == ("default_catalog", "s3a://data")


def test_a_session_begins_as_the_project_says(folder: Path) -> None:
    with sqlstream.connect(project=folder / "a") as session:
        assert session.workspace.catalog.current == ("shop", "default")
        assert session.workspace.settings["parallelism.default"] == 2
        session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '${data}/t', 'format' = 'csv')")
        table = session.workspace.catalog.relation("t")
        assert isinstance(table, Table) and table.option("path") == "/data/t"


def test_commands_of_the_folder_agree(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder / "a/b")
    create = "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '${data}/t', 'format' = 'csv')"
    assert run(["run", "-e", create]) == 0
    assert run(["check", "-e", "SELECT a FROM t"]) == 0
    assert run(["explain", "-e", "CREATE VIEW v AS SELECT a FROM t; SELECT a FROM v"]) == 0
    assert [p.name for p in (folder / "definitions/default").iterdir()] == ["t.sql"]  # explain keeps nothing
    assert run(["check", "--profile", "prod", "-e", "SELECT a FROM t"]) == 1  # another current catalog
    assert run(["check", "--profile", "prod", "-e", "SELECT a FROM shop.`default`.t"]) == 0
    capsys.readouterr()
    assert run(["check", "--profile", "nope", "-e", "SELECT 1"]) != 0
    assert 'there is no profile "nope"' in capsys.readouterr().err


def test_variables_of_env_files_are_there(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PROJECT_SECRET", raising=False)
    (folder / "secrets.env").write_text("PROJECT_SECRET=geheim\n")
    (folder / "sqlstream.toml").write_text('env-files = ["secrets.env"]\n' + TEXT)
    text = "SET 'pipeline.name' = '${PROJECT_SECRET}'; SET"
    try:
        assert run(["run", "-e", text]) == 0
    finally:
        monkeypatch.delenv("PROJECT_SECRET", raising=False)
    assert "geheim" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalog = ", "Invalid value"),
        ("colour = 'red'", '"colour" is not known'),
        ("settings = 1", '"settings" is no table'),
        ("[settings]\na = [1]", '"settings.a" is no text, number or boolean'),
        ("profile = 'x'", 'there is no profile "x"'),
        ("[profiles.x]\nprofile = 'y'", ""),
        ("[catalogs]\na = 1", '"catalogs.a" is no table'),
        ("env-files = 'a'", '"env-files" is no list of texts'),
        ("catalog = 1", '"catalog" is no text'),
    ],
)
def test_mistakes_name_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "sqlstream.toml"
    file.write_text(text)
    if not message:
        assert read_project(file) is not None  # a profile that nobody asks for
        return
    with pytest.raises(SqlStreamError) as caught:
        read_project(file)
    assert caught.value.code == "SS535" and str(file) in str(caught.value) and message in str(caught.value)


def test_a_wrong_setting_or_catalog_is_told_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sqlstream.toml"
    for text, code in (
        ("[settings]\nnope = 1", "SS521"),
        ("[catalogs.c]\ntype = 'x'", "SS536"),
        ("catalog = 'x'", "SS225"),
    ):
        file.write_text(text)
        with pytest.raises(SqlStreamError) as caught:
            sqlstream.connect(project=tmp_path)
        assert caught.value.code == code and str(file) in str(caught.value)
