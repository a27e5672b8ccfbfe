"""Texts that must not become a queue's config, whichever door they come through."""

from __future__ import annotations

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)
HUGE = "env:\n  A: " + "x" * 5_000_000 + "\n"

#: text, what is said of it, line, column
BAD: tuple[tuple[str, str, int, int], ...] = (
    ("env: {A: 1\n", "expected ',' or '}'", 2, 1),
    ("env:\n  A: b: c\n", "mapping values are not allowed here", 2, 7),
    ("env: {}\nenv: {}\n", "the key 'env' is there twice", 2, 1),
    ('{"env": {"A": "1",\n "A": "2"}}', "the key 'A' is there twice", 2, 2),
    ("env:\n  2: x\n", "the key '2' is not text", 2, 3),
    ("env:\n  true: x\n", "the key 'true' is not text", 2, 3),
    ("env:\n  ? [a]\n  : 1\n", "a key is not text", 2, 5),
    ("env:\n\tA: b\n", "found character '\\t'", 2, 1),
    ("env:\n  A: x\0y\n", "the character U+0000 is not allowed", 2, 7),
    ("env:\n  A: x\x1by\n", "the character U+001B is not allowed", 2, 7),
    ('env:\n  A: "x\\0y"\n', "the character U+0000 is not allowed", 2, 6),
    ('env:\n  "A\\b": x\n', "the character U+0008 is not allowed", 2, 3),
    ("env: &x\n  A: *x\n", "this contains itself", 1, 6),
    ("env: *nobody\n", "found undefined alias 'nobody'", 1, 6),
    ("env: &e {A: b}\nmore:\n  <<: *e\n", "merge keys are not read", 3, 3),
    ("env: {A: 2024-01-01}\n", "a value of type date is not allowed", 1, 10),
    ("env: {A: !!python/name:os.system x}\n", "a value of type python/name:os.system is not allowed", 1, 10),
    ("env: !!set {A}\n", "the type set is not allowed", 1, 6),
    ("env: {A: .nan}\n", "JSON cannot write the number nan", 1, 10),
    ("env: {A: " + "9" * 5000 + "}\n", "this number is too long", 1, 10),
    ("env: {}\n---\nenv: {}\n", "a second document begins here", 3, 1),
    ("- env\n", "this is a list, not a mapping", 1, 1),
    ("just words\n", "this is a single value, not a mapping", 1, 1),
    ("", "there is nothing here", 1, 1),
    ("a: " + "[" * 500 + "]" * 500, "this is nested more than 100 levels deep", 1, 104),
    (BOMB, "the aliases stand for too much", 5, 4),
)
NAMES = [problem for _, problem, _, _ in BAD]
