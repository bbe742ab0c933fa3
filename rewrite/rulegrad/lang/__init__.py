"""The rule language: lexer, parser, checker, compiler to bytecode, diagnostics."""
