"""Completion in the line editor: statements, commands, paths."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from sqlstream.session import Session
from sqlstream.shell.completer import SqlCompleter
from sqlstream.shell.line_editor import line_editor
from sqlstream.vocabulary import SessionVocabulary


@pytest.fixture(scope="module")
def completer():
    session = Session()
    session.sql("CREATE TABLE clicks (user_id BIGINT) WITH ('connector' = 'datagen')")
    return SqlCompleter(SessionVocabulary(session.workspace))


def completed(completer: SqlCompleter, text: str) -> list[str]:
    """The line as each completion makes it."""
    document = Document(text)
    completions = completer.get_completions(document, CompleteEvent(text_inserted=True))
    return [text[: len(text) + c.start_position] + c.text for c in completions]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT * FROM cl", "SELECT * FROM clicks"),
        ("SELECT 1;\n\\wa", "SELECT 1;\n\\watch"),
        ("\\d cl", "\\d clicks"),
        ("SET 'pipeline.na", "SET 'pipeline.name"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'file", "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem"),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'par",
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'parquet",
        ),
    ],
)
def test_what_is_typed_is_completed(completer, text, whole):
    assert whole in completed(completer, text)


@pytest.mark.parametrize("before", ["\\i ", "source ", "CREATE TABLE t (a INT) WITH ('path' = '"])
def test_paths_are_completed(completer, before, tmp_path):
    (tmp_path / "tables.sql").touch()
    assert completed(completer, f"{before}{tmp_path}/tab") == [f"{before}{tmp_path}/tables.sql"]


def test_enter_takes_what_is_chosen_and_then_runs(completer):
    with create_pipe_input() as keys:
        editor = line_editor(None, keys, DummyOutput(), completer)
        keys.send_text("SELECT * FROM cl")
        editor.default_buffer.on_completions_changed += lambda _: keys.send_text("\t\r;\r")
        assert editor.prompt() == "SELECT * FROM clicks;"
