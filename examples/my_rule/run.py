"""A user's own rules, loaded with one call, change the kernels that are made.

    python examples/my_rule/run.py

Prints the OpenCL source of `exp(a) * exp(b)` without and with examples/my_rule/exponentials.rules. For a program
that does not load the file itself, RULEGRAD_RULES=examples/my_rule/exponentials.rules does; `python -m rulegrad bisect
PROGRAM` then tells whether a rule of it makes a result wrong.
"""

from __future__ import annotations

from pathlib import Path

from rulegrad import UOp, load_rules
from rulegrad.compile import compile_graph

RULES = Path(__file__).with_name("exponentials.rules")


def source() -> str:
    """The source of the kernel for exp(a) * exp(b), a and b of shape (1024,)."""
    a = UOp("BUFFER", (), "float32", id=1, shape=(1024,))
    b = UOp("BUFFER", (), "float32", id=2, shape=(1024,))
    (kernel,) = compile_graph([UOp("MUL", (UOp("EXP", (a,)), UOp("EXP", (b,))))])
    return kernel.source


def main() -> None:
    print("without the rules:\n" + source())
    with load_rules(RULES):
        print("with the rules:\n" + source())
    print("and without them again:\n" + source())


if __name__ == "__main__":
    main()
