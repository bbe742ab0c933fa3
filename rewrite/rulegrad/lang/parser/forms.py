"""The form of a function: what it gives for nodes that none of its rules match, said by one word in its head."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.lexer import Line, Source, Token, tokenize
from rulegrad.lang.parser.cursor import Cursor
from rulegrad.lang.parser.rules import parse_rule

#: The rule that a word stands for. NODE is the first parameter, REST the others, each after a comma, EACH a new name.
FORMS = {
    "any": "{any(FUNCTION(EACH REST) for EACH in srcs(NODE))}",
    "all": "{all(FUNCTION(EACH REST) for EACH in srcs(NODE))}",
    "total": "{total([FUNCTION(EACH REST) for EACH in srcs(NODE)])}",
    "max": "{max(VALUE, [FUNCTION(EACH REST) for EACH in srcs(NODE)])}",
    "min": "{min(VALUE, [FUNCTION(EACH REST) for EACH in srcs(NODE)])}",
    "distinct": "{distinct([FUNCTION(EACH REST) for EACH in srcs(NODE)])}",
    "rebuild": "OPERATION[..NODE]((FUNCTION(EACH REST) for EACH in SOURCES))",
    "else": "VALUE",
}
_WITH_A_VALUE = ("max", "min", "else")
_NAMES = {"EACH": "each", "OPERATION": "operation", "SOURCES": "sources"}


def parse_form(cursor: Cursor) -> tuple[Token, ...]:
    """The words between the parameters and the `:` of a function's head; none where it has no form."""
    if cursor.at(":"):
        return ()
    if not cursor.at(*FORMS):
        words = ", ".join(f"`{word}`" for word in FORMS)
        raise cursor.expected("`:`, or what the function gives for other nodes", f"one of {words}")
    form = [cursor.advance()]
    if form[0].text in _WITH_A_VALUE:
        while not cursor.at_end() and cursor.peek().text:
            form.append(cursor.advance())
        if len(form) == 1:
            raise cursor.expected("a value", f"write `function NAME(n) {form[0].text} VALUE:`")
    return tuple(form)


def rule_of_form(source: Source, name: str, parameters: Sequence[str], form: Sequence[Token]) -> syntax.Rule | None:
    """The last rule of a function, `otherwise`, that its form stands for; it stands where the form does."""
    word, value = form[0], form[1:]
    node, rest = parameters[0], "".join(f", {name}" for name in parameters[1:])
    used = word.text != "else" or any(token.text == node for token in value)
    if word.text == "rebuild":
        pattern, head = f"{node}@OPERATION(SOURCES...)", "otherwise[OPERATION: Op]"
    else:
        pattern, head = f"{node}@_" if used else "_", "otherwise"
    names = {**_new_names(parameters), "FUNCTION": name, "NODE": node}
    text = f"{head}: FUNCTION({pattern}{rest}) -> {FORMS[word.text]}"
    tokens: list[Token] = []
    for token in tokenize(Source(source.path, text))[0].tokens:
        if token.text == "VALUE":
            tokens.extend(value)
        elif token.text == "REST":
            tokens.extend(tokenize(Source(source.path, rest))[0].tokens if rest else ())
        else:
            tokens.append(token._replace(text=names.get(token.text, token.text)))
    placed = [t if t in value else t._replace(line=word.line, column=word.column) for t in tokens]
    fallback = Token(word.kind, "fallback", word.line, word.column)
    rule = parse_rule(source, Line(4, placed), [Line(8, [fallback])])
    return rule and dataclasses.replace(rule, of_form=True)


def _new_names(parameters: Sequence[str]) -> dict[str, str]:
    """Names of the rule's own that are not parameters."""
    return {role: name + "_" * sum(p.startswith(name) for p in parameters) for role, name in _NAMES.items()}
