"""The main text of made pages, in which each word knows whether it belongs."""

from contracts.modules import a_page
from layouts import Score, document, kinds, words

from webcrawl.pipelines.main_text import main_text

SEEDS = range(100, 104)
# Resiliparse leaves out the text of buttons, which few questions are.
EXPLAINED = {"questions that open with hashed names"}


def read(page, **options):
    return main_text(a_page(page.html), max_chars=200_000, **options)


def test_no_layout_loses_its_text_or_keeps_its_navigation():
    wrong = {}
    for kind, parts in kinds().items():
        score = Score()
        for seed in SEEDS:
            page = document(kind, parts, seed)
            score.add(page, read(page).text)
        if score.precision < 0.9 or score.recall < 0.95:
            wrong[kind] = score
    assert wrong.keys() == EXPLAINED, wrong


def test_markdown_has_the_words_of_the_text():
    for kind, parts in kinds().items():
        found = read(document(kind, parts, 1), markdown=True)
        assert words(found.markdown) == words(found.text), kind


def test_the_pager_of_a_manual_is_in_neither_text_nor_markdown():
    parts = kinds()["table pager of DocBook"]
    page = document("table pager of DocBook", parts, 1)
    found = read(page, markdown=True)
    for label in ("Prev", "Up", "Next", "Home"):
        assert label in page.html
        assert label not in found.text + found.markdown


def test_links_next_to_each_other_keep_their_space():
    sentence = "It is described at length in the three parts of the manual which are called"
    body = f"<p>{sentence} <a href=/1>one</a> <a href=/2>two</a>\n<a href=/3>three</a> by all.</p>"
    assert "called one two three by" in main_text(a_page(body), max_chars=1000).text


def test_a_menu_that_is_longer_than_the_page_is_left_out():
    menu = "".join(f"<li><a href=/{n}>Feature {n} of the language</a></li>" for n in range(600))
    words = "The tracking issue of this feature says what is left to do before it is stable."
    body = f"<nav><ol>{menu}</ol></nav><main><p>{words}</p></main>"
    text = main_text(a_page(body), max_chars=100_000).text
    assert "tracking issue" in text
    assert "Feature" not in text


def test_an_index_without_text_is_kept():
    items = "".join(f"<li><a href=/{n}>Chapter {n}</a>, page {n}</li>" for n in range(9))
    text = main_text(a_page(f"<h1>Index</h1><ul>{items}</ul>"), max_chars=1000).text
    assert all(f"Chapter {n}" in text for n in range(9))


def test_a_long_title_is_not_the_first_text_of_a_page():
    title = "A title of sixty letters and more, which says what the page is about and whose"
    sentence = "It is described at length in the three parts of the manual which are called so."
    menu = '<div class="c">' + "".join(f"<div><a href=/{n}>Menu {n}</a></div>" for n in range(9))
    body = f"<title>{title}</title>{menu}</div><p>{sentence}</p>"
    found = main_text(a_page(body), max_chars=1000)
    assert (found.title, found.text) == (title, sentence)


def test_zero_bytes_are_not_a_part_of_a_text():
    body = "<p>It is described at length in the parts of the \0 manual which are called so.</p>"
    assert "\0" not in main_text(a_page(body), max_chars=1000).text
