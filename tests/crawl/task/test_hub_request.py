"""Requests to hubs, as a process sends and ends them."""

import pytest
from lease_rig import page
from text_tables import each

FORM = b"hub.mode=subscribe&hub.topic=http%3A%2F%2Fa.test%2Ffeed"
HUB = "http://hub.test/"


def asking(desk):
    """Ask a hub for the subscription "name", which has a form, at *desk*."""
    requests = desk.process.parts.leases.hub_requests
    requests.form_of = lambda name: FORM if name == "name" else b""
    requests.on_redirect = desk.process.intake.ask_hub
    return lambda url=HUB, name="name": desk.process.intake.ask_hub(url, name)


@pytest.fixture
def ask(obedient):
    return asking(obedient)


def test_it_waits_for_robots_txt_in_the_hubs_own_turn(obedient, ask):
    ask()
    obedient.urls(1)
    robots = {obedient.next().url, obedient.next().url}
    assert robots == {f"{HUB}robots.txt", "http://a.test/robots.txt"}
    assert obedient.next() is None


@each("status", 202, 404, 500)
def test_it_has_the_form_and_no_cookies_or_credentials(obedient, ask, status):
    ask()
    obedient.rules(b"")
    assert obedient.next() is None  # the hub has its pause
    obedient.wait(3)
    request = obedient.answer(page(status))
    assert (request.method, request.url, request.body) == ("POST", HUB, FORM)
    assert request.headers[b"Content-Type"] == b"application/x-www-form-urlencoded"
    assert request.meta["dont_merge_cookies"]
    assert not request.meta["fetch"].has_credentials
    assert obedient.is_empty
    assert obedient.outcomes == {}
    assert obedient.counts("websub/outcome/") == {f"http_{status}": 1}


def test_robots_txt_of_the_hub_is_obeyed(obedient, ask):
    ask()
    obedient.rules(b"Disallow: /")
    obedient.wait(3)
    assert obedient.next() is None
    assert obedient.counts("websub/outcome/") == {"robots_denied": 1}
    assert obedient.is_empty


def test_a_hub_at_a_forbidden_address_is_not_asked(resolving, names):
    names.found["hub.test"] = []  # the guard has refused all
    asking(resolving)()
    assert resolving.next() is None
    assert resolving.counts("websub/outcome/") == {"address_forbidden": 1}
    assert resolving.is_empty


@each("port", 25, 6379, 2375)
def test_a_hub_at_the_port_of_another_service_is_not_asked(desk, port):
    asking(desk)(f"http://hub.test:{port}/")
    assert desk.next() is None
    assert desk.counts("websub/outcome/") == {"bad_url": 1}
    assert desk.is_empty


def test_nothing_is_sent_for_a_subscription_that_has_ended(desk):
    asking(desk)(name="another")
    assert desk.next() is None
    assert desk.is_empty
    assert desk.counts("websub/outcome/") == {}


def test_three_redirects_are_followed_and_not_a_fourth(desk):
    asking(desk)()
    asked = []
    while (request := desk.next()) is not None:
        asked.append(request.url)
        place = f"http://hub{len(asked)}.test/"
        desk.end(request, page(307 if len(asked) % 2 else 308, Location=place))
    assert asked == [HUB, "http://hub1.test/", "http://hub2.test/", "http://hub3.test/"]
    assert desk.is_empty


def test_a_redirect_to_nowhere_ends_it(desk):
    asking(desk)()
    desk.end(desk.next(), page(301, Location="http://hub1.test/"))
    assert desk.next() is None
    assert desk.is_empty


def test_it_survives_a_crash_and_is_no_page_without_the_extension(desk):
    asking(desk)()
    desk.crash()
    desk.wait(200)
    assert desk.next() is None
    assert desk.is_empty
    asking(desk)()
    desk.crash()
    asking(desk)
    desk.wait(200)
    assert desk.next().method == "POST"


def test_a_site_that_is_named_as_a_hub_of_many_feeds_is_fetched_all_the_same(desk):
    requests = desk.process.parts.leases.hub_requests
    requests.form_of = lambda _: FORM
    desk.urls(60)
    for number in range(60):
        desk.process.intake.ask_hub("http://a.test/", f"name{number}")
    methods = []
    for _ in range(40):
        methods.append(desk.answer(page()).method)
        desk.wait(3)
    assert 0 < methods.count("POST") <= 40 / 4 + 4
