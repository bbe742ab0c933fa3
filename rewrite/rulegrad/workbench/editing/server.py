"""The language server: what editors ask over the Language Server Protocol, answered by the parser and the checker."""

from __future__ import annotations

import asyncio

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec, TextDocument

from rulegrad import __version__
from rulegrad.errors import RuleError
from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.lang.syntax import Span
from rulegrad.workbench.editing.completions import completions
from rulegrad.workbench.editing.descriptions import describe
from rulegrad.workbench.editing.lookup import Word, meanings, word_at
from rulegrad.workbench.editing.project import Project
from rulegrad.workbench.editing.symbols import Symbol, symbols
from rulegrad.workbench.formatter import format_text

_PAUSE = 0.15  # seconds without a change after which the checker runs
_SYMBOL_KINDS = {
    "dtype": types.SymbolKind.TypeParameter,
    "class": types.SymbolKind.Enum,
    "op": types.SymbolKind.Operator,
    "ruleset": types.SymbolKind.Namespace,
    "pass": types.SymbolKind.Class,
    "function": types.SymbolKind.Function,
    "def": types.SymbolKind.Function,
    "record": types.SymbolKind.Struct,
    "extern": types.SymbolKind.Function,
    "view": types.SymbolKind.Interface,
    "table": types.SymbolKind.Array,
    "target": types.SymbolKind.Object,
    "pipeline": types.SymbolKind.Module,
    "rule": types.SymbolKind.Method,
    "fact": types.SymbolKind.Variable,
    "state": types.SymbolKind.Variable,
}
_COMPLETION_KINDS = {
    "word": types.CompletionItemKind.Keyword,
    "field": types.CompletionItemKind.Field,
    "file": types.CompletionItemKind.File,
    "op": types.CompletionItemKind.Operator,
    "class": types.CompletionItemKind.Enum,
    "dtype": types.CompletionItemKind.TypeParameter,
    "table": types.CompletionItemKind.Struct,
    "record": types.CompletionItemKind.Struct,
    "ruleset": types.CompletionItemKind.Module,
    "pass": types.CompletionItemKind.Module,
    "fact": types.CompletionItemKind.Variable,
    "state": types.CompletionItemKind.Variable,
}  # the others are functions


class RuleServer(LanguageServer):
    """A language server with the rule files that it knows."""

    def __init__(self) -> None:
        super().__init__("rulegrad", __version__)
        self.project = Project()
        self.uris: dict[str, str] = {}  # of open documents, by name

    def document(self, uri: str) -> TextDocument:
        return self.workspace.get_text_document(uri)

    def called(self, uri: str) -> str:
        """How messages call a document."""
        return self.project.name_of(self.document(uri).path)

    # ---- problems ----

    def read(self, uri: str) -> str:
        """Takes over a document's text; its name."""
        name = self.called(uri)
        self.uris[name] = uri
        self.project.open(name, self.document(uri).source)
        return name

    def publish(self, name: str, problems: list[Diagnostic]) -> None:
        """Sends the problems of one document."""
        uri = self.uris[name]
        document = self.document(uri)
        found = [_diagnostic(problem, document) for problem in problems]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, document.version))

    def publish_all(self) -> None:
        """Checks everything, and sends the problems of all open documents."""
        for name, problems in self.project.problems().items():
            self.publish(name, problems)

    # ---- places ----

    def word(self, uri: str, position: types.Position) -> tuple[str, Word | None]:
        """The name of the document, and the word at a place in it."""
        document = self.document(uri)
        at = document.position_codec.position_from_client_units(document.lines, position)
        return self.called(uri), word_at(document.source, at.line + 1, at.character)

    def location(self, symbol: Symbol) -> types.Location:
        """Where a symbol's name stands."""
        path = symbol.file.path
        uri = self.uris.get(path) or from_fs_path(str(self.project.path_of(path))) or path
        return types.Location(uri, _range(symbol.span, symbol.file.text.split("\n"), PositionCodec()))


def make_server() -> RuleServer:
    """The server with all that it answers, not yet started."""
    server = RuleServer()
    _answer_changes(server)
    _answer_about_words(server)
    _answer_about_documents(server)
    return server


def _answer_changes(server: RuleServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(of: RuleServer, given: types.DidOpenTextDocumentParams) -> None:
        of.read(given.text_document.uri)
        of.publish_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(of: RuleServer, given: types.DidChangeTextDocumentParams) -> None:
        uri = given.text_document.uri
        name = of.read(uri)
        problems = of.project.problems_of_text(name)
        if problems:
            of.publish(name, problems)
            return
        await asyncio.sleep(_PAUSE)
        if name in of.project.opened and of.document(uri).version == given.text_document.version:
            of.publish_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(of: RuleServer, given: types.DidCloseTextDocumentParams) -> None:
        name = of.called(given.text_document.uri)
        of.publish(name, [])
        of.project.close(name)
        del of.uris[name]


def _answer_about_words(server: RuleServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(of: RuleServer, given: types.HoverParams) -> types.Hover | None:
        name, word = of.word(given.text_document.uri, given.position)
        text = describe(of.project, name, word) if word is not None else ""
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(of: RuleServer, given: types.DefinitionParams) -> list[types.Location]:
        name, word = of.word(given.text_document.uri, given.position)
        return [of.location(symbol) for symbol in meanings(of.project, name, word)] if word is not None else []

    @server.feature(types.TEXT_DOCUMENT_COMPLETION)
    def complete(of: RuleServer, given: types.CompletionParams) -> list[types.CompletionItem]:
        document = of.document(given.text_document.uri)
        at = document.position_codec.position_from_client_units(document.lines, given.position)
        name = of.called(given.text_document.uri)
        found = completions(of.project, name, document.source, at.line + 1, at.character)
        other = types.CompletionItemKind.Function
        return [types.CompletionItem(c.word, kind=_COMPLETION_KINDS.get(c.kind, other), detail=c.detail) for c in found]


def _answer_about_documents(server: RuleServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(of: RuleServer, given: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        uri = given.text_document.uri
        return [_outline(symbol, of.document(uri)) for symbol in symbols(of.project.file(of.called(uri)))]

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(of: RuleServer, given: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        document = of.document(given.text_document.uri)
        try:
            text = format_text(document.source, of.called(given.text_document.uri))
        except RuleError:
            return None  # the problems are shown already
        whole = types.Range(types.Position(0, 0), types.Position(len(document.lines), 0))
        return [] if text == document.source else [types.TextEdit(whole, text)]


def _outline(symbol: Symbol, document: TextDocument) -> types.DocumentSymbol:
    lines = document.source.split("\n")
    codec = document.position_codec
    return types.DocumentSymbol(
        name=symbol.name,
        kind=_SYMBOL_KINDS[symbol.kind],
        range=_range(symbol.whole, lines, codec),
        selection_range=_range(symbol.span, lines, codec),
        detail=symbol.kind,
        children=[_outline(child, document) for child in symbol.children],
    )


def _diagnostic(problem: Diagnostic, document: TextDocument) -> types.Diagnostic:
    hint = [f"hint: {problem.hint}"] if problem.hint else []
    return types.Diagnostic(
        range=_range(problem.span, document.source.split("\n"), document.position_codec),
        message="\n".join([problem.message, *hint, *(f"note: {note}" for note in problem.notes)]),
        severity=types.DiagnosticSeverity.Error if problem.is_error else types.DiagnosticSeverity.Warning,
        code=problem.code,
        source="rulegrad",
    )


def _range(span: Span, lines: list[str], codec: PositionCodec) -> types.Range:
    start = types.Position(span.line - 1, span.column)
    end = types.Position(span.end_line - 1, span.end_column)
    return codec.range_to_client_units(lines, types.Range(start, end))
