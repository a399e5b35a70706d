"""Lines of code by package, without blank lines, comments and docstrings: ``make loc``.

Of templates, deploy/ and shell scripts all lines count, under their folders.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FOLDERS = ("webcrawl", "tests", "benchmarks")
RAW = ("deploy/", ".ci/", "*.sh", "*.tmpl", "*.html", "*.css", "*.js")


def code_lines(source):
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or 0) + 1))
    return len(lines)


def tracked(*patterns):
    command = ["git", "ls-files", "--", *patterns]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [path for path in map(Path, done.stdout.splitlines()) if path.is_file()]


def main():
    found: Counter[str] = Counter()
    for path in tracked(*(f"{folder}/*.py" for folder in FOLDERS)):
        lines = code_lines(path.read_text(encoding="utf-8"))
        found["/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]] += lines
        found[f"{path.parts[0]} in all"] += lines
    for path in tracked(*RAW):
        found[f"{path.parent}, all lines"] += path.read_bytes().count(b"\n")
    for name, lines in sorted(found.items()):
        sys.stdout.write(f"{lines:7,}  {name}\n")


if __name__ == "__main__":
    main()
