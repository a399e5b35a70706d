"""Chance of a rehearsal, which follows from its seed, and that nothing else draws any."""

import ast

from text_tables import each, table

from webcrawl import randomness

# The simulated web and its faults are functions of their seeds; simweb is another program.
EXEMPT = {"randomness", "simweb", "sim"}
MODULES = {"secrets", "uuid"}


def draws(node):
    """Whether *node* draws chance from the operating system, or from Python's own generator."""
    match node:
        case ast.Import(names=names):
            return any(name.name in MODULES for name in names)
        case ast.ImportFrom(module=module):
            return module in MODULES
        case ast.Call(func=ast.Attribute(value=ast.Name("random"), attr="Random"), args=arguments):
            return not arguments
        case ast.Attribute(value=ast.Name("random"), attr=attr):
            return attr != "Random"
        case ast.Attribute(value=ast.Name("os"), attr=attr):
            return attr in {"urandom", "getrandom"}
    return False


@each(
    "source drawn",
    *table("""
        import secrets                          | yes
        from uuid import uuid4                  | yes
        f(random.random())                      | yes
        f(random.SystemRandom())                | yes
        f(random.Random())                      | yes
        f(os.urandom(8))                        | yes
        f(random.Random(7))                     |
        def f(rng: random.Random): rng.random() |
        import random                           |
    """),
)
def test_what_counts_as_drawing(source, drawn):
    assert any(map(draws, ast.walk(ast.parse(source)))) == bool(drawn)


def test_a_part_draws_the_same_for_a_seed_whatever_others_draw(monkeypatch):
    monkeypatch.setattr(randomness, "_seed", [])

    def of(seed, *others):
        randomness.draw_from(seed)
        for other in others:
            randomness.generator(other).random()
        return [randomness.generator("a part").random(), randomness.random_hex("a part")]

    assert of(1) == of(1, "another part") != of(2)


def test_without_a_seed_no_two_are_alike():
    assert randomness.random_hex("a part") != randomness.random_hex("a part")
    assert len(randomness.random_hex("a part", 16)) == 32
