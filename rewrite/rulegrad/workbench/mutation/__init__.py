"""Mutation of rules: one token of a rule is changed, and its test lines are to notice."""
