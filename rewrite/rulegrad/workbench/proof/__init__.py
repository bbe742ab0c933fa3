"""Proofs and tests of rules: that what a rule puts in place of a node means the same.

`symbolic` instantiates a rule with symbols and hands the question to z3; `testing` builds instances of its pattern,
has the engine apply the rule and compares both sides by evaluation. `prover` decides which, for each rule.
"""
