"""A server of pygls whose answers are those of a ``Planner``.

Documents are checked as one types. What a document defines is known in it; what all documents know, the planner does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urldefrag

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from sqlstream.analysis import Planner, Problem
from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.quoting import quote_name
from sqlstream.planner.completion import SuggestionKind
from sqlstream.version import __version__

SOURCE = "sqlstream"
_KINDS = {
    SuggestionKind.COLUMN: lsp.CompletionItemKind.Field,
    SuggestionKind.TABLE: lsp.CompletionItemKind.Class,
    SuggestionKind.FUNCTION: lsp.CompletionItemKind.Function,
    SuggestionKind.TYPE: lsp.CompletionItemKind.TypeParameter,
    SuggestionKind.OPTION: lsp.CompletionItemKind.Property,
    SuggestionKind.SETTING: lsp.CompletionItemKind.Property,
    SuggestionKind.VALUE: lsp.CompletionItemKind.Value,
    SuggestionKind.KEYWORD: lsp.CompletionItemKind.Keyword,
}


def server_of(planner: Planner) -> LanguageServer:
    """Returns a language server that uses the planner. It begins to communicate when ``start_io`` is called."""
    server = LanguageServer(SOURCE, __version__)
    _diagnostics(server, planner)
    _names(server, planner)
    _texts(server, planner)
    return server


def _diagnostics(server: LanguageServer, planner: Planner) -> None:
    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        problems = [_diagnostic(document, problem) for problem in planner.check(document.source)]
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, version=document.version, diagnostics=problems)
        )

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=urldefrag(params.text_document.uri)[0], diagnostics=[])
        )

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def mended(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = server.workspace.get_text_document(params.text_document.uri)
        asked = Span(document.offset_at_position(params.range.start), document.offset_at_position(params.range.end))
        problems = [p for p in planner.check(document.source) if p.span is not None and _touch(p.span, asked)]
        return [_action(document, problem, number) for problem in problems for number in range(len(problem.fixes))]


def _names(server: LanguageServer, planner: Planner) -> None:
    def at(uri: str, position: lsp.Position) -> tuple[TextDocument, int]:
        document = server.workspace.get_text_document(uri)
        return document, document.offset_at_position(position)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        document, offset = at(params.text_document.uri, params.position)
        hover = planner.knowing(document.source).hover(document.source, offset)
        if hover is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, hover.text), _range(document, hover.span))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "'"]))
    def completed(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document, offset = at(params.text_document.uri, params.position)
        suggestions = planner.knowing(document.source).complete(document.source, offset)
        return [
            lsp.CompletionItem(
                label=one.text,
                kind=_KINDS[one.kind],
                detail=one.detail or None,
                sort_text=f"{number:05}",
                text_edit=lsp.TextEdit(_range(document, Span(one.start, offset)), one.text),
            )
            for number, one in enumerate(suggestions)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        document, offset = at(params.text_document.uri, params.position)
        places = planner.places(document.source, offset)
        return lsp.Location(document.uri, _range(document, places[0])) if places else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def referred(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document, offset = at(params.text_document.uri, params.position)
        return [lsp.Location(document.uri, _range(document, span)) for span in planner.places(document.source, offset)]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        document, offset = at(params.text_document.uri, params.position)
        places = planner.places(document.source, offset)
        new = quote_name(params.new_name.strip("`"))
        return _edit(document, [(span, new) for span in places]) if places else None


def _texts(server: LanguageServer, planner: Planner) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = server.workspace.get_text_document(params.text_document.uri)
        try:
            text = planner.format(document.source)
        except SqlStreamError:
            return []  # its diagnostics are there
        whole = Span(0, len(document.source))
        return [lsp.TextEdit(_range(document, whole), text)] if text != document.source else []


def _range(document: TextDocument, span: Span) -> lsp.Range:
    return lsp.Range(document.client_position_at_offset(span.start), document.client_position_at_offset(span.end))


def _touch(one: Span, other: Span) -> bool:
    return one.start <= other.end and other.start <= one.end


def _diagnostic(document: TextDocument, problem: Problem) -> lsp.Diagnostic:
    span = problem.span or Span(0, 0)
    told = [problem.message, problem.detail or "", f"Hint: {problem.hint}" if problem.hint else ""]
    severity = lsp.DiagnosticSeverity.Warning if problem.warning else lsp.DiagnosticSeverity.Error
    return lsp.Diagnostic(
        range=_range(document, span),
        message="\n".join(filter(None, told)),
        severity=severity,
        code=problem.code,
        source=SOURCE,
    )


def _action(document: TextDocument, problem: Problem, number: int) -> lsp.CodeAction:
    fix = problem.fixes[number]
    return lsp.CodeAction(
        title=fix.title,
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(document, problem)],
        is_preferred=number == 0,
        edit=_edit(document, [(edit.span, edit.text) for edit in fix.edits]),
    )


def _edit(document: TextDocument, edits: Iterable[tuple[Span, str]]) -> lsp.WorkspaceEdit:
    changes: Sequence[lsp.TextEdit] = [lsp.TextEdit(_range(document, span), text) for span, text in edits]
    return lsp.WorkspaceEdit(changes={document.uri: changes})
