"""axe-core, which judges in a browser whether everyone can use a page (`make test-long`)."""

from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / ".npm-axe/package/axe.min.js"
_RUN = """async () => (await axe.run()).violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => [one.id, one.help, ...one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])"""


@cache
def _script():
    assert SCRIPT.is_file(), "make test-long makes .npm-axe"
    return SCRIPT.read_text("utf-8")


def serious_findings(tab):
    """The findings about the page in *tab* that keep somebody from using it."""
    tab.page.evaluate(_script())  # not as an element, which the page's policy would refuse
    return tab.page.evaluate(_RUN)
