"""Tools for people who work on rules: tests, proofs, analysis, formatter, language server, traces, explanations, tools.

Nothing else in the package needs it: a program that computes loads none of it.
"""
