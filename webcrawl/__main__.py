"""The command ``webcrawl``: Scrapy's command line with the settings of this project.

It works in any directory. In a Scrapy project, which has a scrapy.cfg there or in a directory
above, and with SCRAPY_SETTINGS_MODULE, it uses those settings instead, and refuses them if they
lack the scheduler of this project. Processes that it starts inherit its choice.
"""

from __future__ import annotations

import contextlib
import io
import os
import pkgutil
import sys
from importlib.metadata import entry_points

_SETTINGS = "SCRAPY_SETTINGS_MODULE"


def main() -> None:
    """Run the command in ``sys.argv``, and exit with its code."""
    is_module = sys.argv[0].endswith("__main__.py")
    # Before other modules of this project are imported: see wording.py.
    name = os.environ["WEBCRAWL_COMMAND"] = "python -m webcrawl" if is_module else "webcrawl"
    from scrapy.cmdline import execute  # noqa: PLC0415  # after the variable
    from scrapy.utils.conf import closest_scrapy_cfg  # noqa: PLC0415  # after the variable

    if not closest_scrapy_cfg():
        os.environ[_SETTINGS] = os.environ.get(_SETTINGS) or "webcrawl.settings"
        # The user's modules, which Scrapy finds beside the scrapy.cfg of a project.
        sys.path.append(os.getcwd())  # noqa: PTH109  # an entry is text
    if (problem := _problem_with(sys.argv[1:])) is not None:
        sys.stderr.write(f"{name}: {problem}\n")
        sys.exit(2)

    if any(not word.startswith("-") for word in sys.argv[1:]):
        execute()
    # Only then Scrapy lists the commands.
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            execute()
    finally:
        sys.stdout.write(text.getvalue().replace("scrapy <command>", f"{name} <command>"))


def _problem_with(words: list[str]) -> str | None:
    """Return a sentence that says why the command line *words* cannot be run, or None."""
    from scrapy.utils.misc import load_object  # noqa: PLC0415  # as above
    from scrapy.utils.project import get_project_settings  # noqa: PLC0415  # as above

    from webcrawl.configuration.old_names import unknown  # noqa: PLC0415  # as above
    from webcrawl.scheduler import is_mercator  # noqa: PLC0415  # as above

    try:
        settings = get_project_settings()
    except ImportError as error:
        return f"the settings {os.environ[_SETTINGS]} cannot be loaded: {error}."
    if not is_mercator(load_object(settings["SCHEDULER"])):
        return (
            f"the Scrapy project here (settings {os.environ[_SETTINGS]}) does not use webcrawl's "
            "scheduler. Put this line at the top of its settings.py: from webcrawl.settings import "
            "*. Or run the command outside the project."
        )
    modules = ["scrapy.commands", settings["COMMANDS_MODULE"]]
    known = {each.name for each in entry_points(group="scrapy.commands")}
    for module in modules:
        known |= {each.name for each in pkgutil.iter_modules(load_object(f"{module}.__path__"))}
    command = next((word for word in words if not word.startswith("-")), None)
    if command is None or command in known:
        return None
    return f"{unknown('command', command, known)}."


if __name__ == "__main__":
    main()
