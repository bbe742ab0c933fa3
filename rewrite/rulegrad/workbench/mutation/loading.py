"""Programs of mutants: what all have in common is compiled once, and only what a mutant changes is compiled for it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rulegrad._core import Program
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler, in_order
from rulegrad.lang.compiler.scope import Declared
from rulegrad.workbench.mutation.affected import Uses
from rulegrad.workbench.rule_tests import Case, RuleTests


@dataclass(slots=True)
class Loader:
    """Compiles for one target ("" for none): the functions of all files, and of their rules only those asked for."""

    tests: RuleTests
    target: str
    uses: Uses
    _compiler: ProgramCompiler = field(init=False)
    _common: bytes = b""  # what was compiled of the functions

    def __post_init__(self) -> None:
        self._compiler = self.tests.compiler(self.target)
        passes, self._compiler.passes = self._compiler.passes, []
        self._compiler.compile()
        self._compiler.passes = passes
        self._common = pickle.dumps(self._compiler.assembler)

    def compiler(self, changed: syntax.Declaration | None = None) -> ProgramCompiler:
        """A compiler that has the functions, with a function or a definition in the place of that of its name."""
        made = copy.copy(self._compiler)
        made.assembler = pickle.loads(self._common)  # made above
        made.library = replace(made.library)
        rules = made.rules
        made.rules = replace(rules, library=made.library, assembler=made.assembler, _numbers={}, _compiled={})
        if isinstance(changed, syntax.Function):
            made.library.functions = Declared({**made.library.functions, changed.name: changed})
            _compile_again(made, changed)
        elif isinstance(changed, syntax.Definition):
            made.library.definitions = Declared({**made.library.definitions, changed.name: changed})
            users = self.uses.users(changed.name)
            for function in made.library.functions.values():
                if function.name in users:
                    _compile_again(made, function)
        return made

    def load(self, compiler: ProgramCompiler, cases: Iterable[Case]) -> Program:
        """The program of what was compiled, with both sides of some test lines."""
        return self.tests.loaded(compiler, cases)


def _compile_again(compiler: ProgramCompiler, function: syntax.Function) -> None:
    compiled = next(one for one in compiler.assembler.functions if one.name == function.name)
    rules = in_order([(function.name, rule) for rule in function.rules])
    compiled.alternatives = [
        alternative
        for owner, rule in rules
        for alternative in compiler.rules.compile(owner, rule, function.parameters[1:])
    ]
