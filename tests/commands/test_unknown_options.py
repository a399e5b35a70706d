"""Options that a command does not have, or no longer: one sentence, and exit code 2."""

import warm
from text_tables import cases, each

from webcrawl.configuration.old_names import _REMOVED


@cases(
    "line sentence",
    """
    frontier --exprt x         | no option --exprt; the most similar is --export
    frontier --check-hosts     | --check-hosts any more: a crawl checks HOSTS_POLICY_FILE
    report --jsn=1             | no option --jsn; the most similar is --json
    crawl web --putput x       | no option --putput; the most similar is --output
    dataset --out x            | no option --out; the most similar is --output
    hive --drnes 2 web         | no option --drnes; the most similar is --drones
    fetch --no-redirects x     | no option --no-redirects; the most similar is --no-redirect
    why crawls/none -- --x     | There is no crawl in
    control psause             | there is no command psause; the most similar is pause
    """,
)
def test_an_unknown_option_is_named(tmp_path, line, sentence):
    done = warm.scrapy(*line.split(), env={"SCRAPY_SETTINGS_MODULE": "webcrawl.settings"})
    assert sentence in done.stderr
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@each("name", *(name for name in _REMOVED if " " in name))
def test_what_was_removed_from_a_command_is_answered_with_what_to_use_instead(name):
    done = warm.scrapy(*name.split(), env={"SCRAPY_SETTINGS_MODULE": "webcrawl.settings"})
    word = name.split()[1]
    kind = "option" if word.startswith("-") else "command"
    assert done.returncode == 2
    assert f"there is no {kind} {word} any more: {_REMOVED[name]}" in done.stderr
