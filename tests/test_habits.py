"""Three habits that make code hard to read, counted in webcrawl/ and bounded."""

import ast
import re
from pathlib import Path

CODE = Path(__file__).parent.parent / "webcrawl"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# The most in 1,000 statements, or in 1,000 functions. Lower a bound when there are fewer.
UNRELATED_VALUES = 2.0
CHAINED = 0.6
POOR_NAMES = 15.0
# Alone or before a preposition, these say neither what is done nor what is returned.
_STATE = re.compile(
    r"(?!feed|need|seed|speed)([a-z]+ed|alive|best|busy|current|done|due|empty|fresh|gone|held|"
    r"invalid|kept|known|largest|last|latest|live|longest|loose|lost|new|newest|nonempty|only|plain|"
    r"positive|printable|raisable|readable|ready|safe|short|shown|skippable|smallest|unforeseen|"
    r"unknown|unsent|visible|whole|worst|written|(catch|com|find|fold|forgett|merg|replac|rest|wait)"
    r"ing)(_(by|for|from|in|of|now|out|to|with))?"
)
_THIRD_PERSON = re.compile(
    "(accept|admit|await|become|begin|concern|continue|cover|end|except|exclude|fit|gain|goe|hide|"
    "hold|include|keep|know|lead|let|permit|read|refuse|see|select|skip|stop|take|want|withhold)s(_.*)?"
)


def is_unrelated(node):
    """Return whether *node* gives each of several names a value of its own; a swap does not."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            same = {*map(ast.unparse, targets)} == {*map(ast.unparse, values)}
            return len(targets) == len(values) and not same
    return False


def called_names(function):
    """Return the names of *function*, if it is not a property, and of parameters that it calls."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    names = [a.arg for a in arguments if a.annotation and "Callable[" in ast.unparse(a.annotation)]
    if any(ast.unparse(decorator).endswith("property") for decorator in function.decorator_list):
        return names
    return [name.strip("_") for name in (function.name, *names) if not name.startswith("__")]


def test_code_does_not_fall_back_into_three_habits():
    nodes = [node for path in CODE.rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    functions = [node for node in nodes if isinstance(node, DEFINITIONS[:2])]
    code = [n for n in nodes if isinstance(n, ast.stmt) and not isinstance(n, DEFINITIONS)]
    code = [n for n in code if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    names = [name for function in functions for name in called_names(function)]
    poor = [name for name in names if _STATE.fullmatch(name) or _THIRD_PERSON.fullmatch(name)]
    chained = [node for node in code if isinstance(node, ast.Assign) and len(node.targets) > 1]

    assert 1_000 * sum(map(is_unrelated, code)) / len(code) <= UNRELATED_VALUES
    assert 1_000 * len(chained) / len(code) <= CHAINED
    assert 1_000 * len(poor) / len(functions) <= POOR_NAMES, sorted(poor)
