"""The language server as an editor meets it: a process that speaks over standard input and output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pygls")

URI = "file:///work/query.sql"
DEFINITIONS = "CREATE TABLE bids (auction BIGINT, price DOUBLE, item STRING) WITH ('connector' = 'test');"


class Editor:
    """Speaks the protocol: a header with a length, and JSON behind it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0
        self._notes: list[dict[str, Any]] = []

    def ask(self, method: str, parameters: dict[str, Any]) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while "id" not in (answer := self._receive()) or "method" in answer:
            self._notes.append(answer)
        assert answer["id"] == self._number
        assert "error" not in answer, answer
        return answer["result"]

    def tell(self, method: str, parameters: dict[str, Any]) -> None:
        self._send({"method": method, "params": parameters})

    def told(self, method: str) -> dict[str, Any]:
        """What the server says of its own accord next."""
        while True:
            note = self._notes.pop(0) if self._notes else self._receive()
            if note.get("method") == method:
                parameters: dict[str, Any] = note["params"]
                return parameters

    def open(self, text: str) -> list[dict[str, Any]]:
        document = {"uri": URI, "languageId": "sql", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics()

    def diagnostics(self) -> list[dict[str, Any]]:
        diagnostics: list[dict[str, Any]] = self.told("textDocument/publishDiagnostics")["diagnostics"]
        return diagnostics

    def at(self, method: str, line: int, character: int, **more: Any) -> Any:
        position = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": URI}, "position": position, **more})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        length = 0
        while (line := stream.readline().strip()) or not length:
            assert line, "the server has ended"
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: dict[str, Any] = json.loads(stream.read(length))
        return message


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "tables.sql").write_text(DEFINITIONS, "utf-8")
    command = [sys.executable, "-m", "sqlstream", "lsp", "tables.sql"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        editor = Editor(process)
        answer = editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        assert {"hoverProvider", "completionProvider", "renameProvider"} <= answer["capabilities"].keys()
        editor.tell("initialized", {})
        yield editor
        editor.ask("shutdown", {})
        editor.tell("exit", {})
        assert process.wait(60) == 0


def test_mistakes_are_told_as_one_types(editor):
    (mistake,) = editor.open("SELECT 'ä𝄞', pricee FROM bids")
    assert (mistake["code"], mistake["severity"]) == ("SS201", 1)
    assert mistake["range"] == {"start": {"line": 0, "character": 14}, "end": {"line": 0, "character": 20}}
    change = {"range": {"start": {"line": 0, "character": 19}, "end": {"line": 0, "character": 20}}, "text": ""}
    editor.tell("textDocument/didChange", {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [change]})
    assert editor.diagnostics() == []


def test_state_without_a_bound_is_a_warning(editor):
    (warning,) = editor.open("SELECT item, COUNT(*) FROM bids GROUP BY item")
    assert (warning["code"], warning["severity"]) == ("SS383", 2)


def test_a_fix_is_an_action(editor):
    editor.open("SELECT price\nFROM bidz")
    here = {"start": {"line": 1, "character": 6}, "end": {"line": 1, "character": 6}}
    asked = {"textDocument": {"uri": URI}, "range": here, "context": {"diagnostics": []}}
    (action,) = editor.ask("textDocument/codeAction", asked)
    (edit,) = action["edit"]["changes"][URI]
    assert (action["title"], edit["newText"], edit["range"]["start"]) == (
        "Write bids", "bids", {"line": 1, "character": 5},
    )  # fmt: skip


def test_hover_and_completion_know_files_and_the_document_itself(editor):
    editor.open("CREATE VIEW dear AS SELECT price FROM bids;\nSELECT price FROM dear")
    assert "`price DOUBLE`" in editor.at("hover", 1, 8)["contents"]["value"]
    assert editor.at("hover", 1, 1) is None
    items = editor.at("completion", 1, 20)
    assert ("dear", "view") in {(item["label"], item["detail"]) for item in items}
    assert items[0]["textEdit"]["range"]["start"] == {"line": 1, "character": 18}


def test_definitions_references_and_renaming(editor):
    editor.open("WITH a AS (SELECT 1 AS x)\nSELECT * FROM a JOIN a AS b ON a.x = b.x")
    assert editor.at("definition", 1, 14)["range"]["start"] == {"line": 0, "character": 5}
    assert len(editor.at("references", 1, 14, context={"includeDeclaration": True})) == 3
    edits = editor.at("rename", 1, 14, newName="one query")["changes"][URI]
    assert {edit["newText"] for edit in edits} == {"`one query`"}
    assert editor.at("definition", 1, 1) is None


def test_formatting_is_that_of_the_command(editor):
    editor.open("select price from bids")
    options = {"tabSize": 2, "insertSpaces": True}
    (edit,) = editor.ask("textDocument/formatting", {"textDocument": {"uri": URI}, "options": options})
    assert edit["newText"] == "SELECT\n  price\nFROM bids;\n"
    editor.open("select from from")
    assert editor.ask("textDocument/formatting", {"textDocument": {"uri": URI}, "options": options}) == []
