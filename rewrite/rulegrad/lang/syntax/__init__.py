"""The syntax tree of rule files: plain data, made by the parser, read by the checker and the compiler."""

from rulegrad.lang.syntax.declarations import *  # noqa: F403
from rulegrad.lang.syntax.expressions import *  # noqa: F403
