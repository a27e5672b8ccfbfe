"""A queue's config as a template: `{{variables}}` bound at submission, `${macros}` filled at the start.

A tree goes one way, once:

    template ── bind ──► bound tree ── fill_known* ──► (preview) ── fill ──► what is submitted
             variables               some macros                 the rest

Only string *values* are touched, never keys. **What was put in is never read again**: not `{{x}}` or
`${x}` inside a value, nor one that comes about where a value meets the text around it. `bind` replaces
in one pass, so `{{x}}` in a value stays. For `${x}` a mark has to travel with the tree, because macros
are filled later and elsewhere; the mark is a doubled dollar:

- `${x}` is a macro, `$${x}` is the text `${x}`, `$$${x}` is a `$` and a macro, and so on: of the dollars
  before `{name}`, each pair is one `$` of text, and an odd one makes the macro.
- Dollars elsewhere mean themselves: `$HOME`, `$$`, `${HOME:-/root}`, `$(VAR)` and `$$(VAR)` stay as they are.
- `bind` and `fill_known` double the dollars of whatever would otherwise read as a macro; `fill`, the last
  step, halves them, once. So its result must not be filled again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from muster.domain.document import walk
from muster.domain.errors import BadTemplate, BadVariable, nearest
from muster.domain.suggest import suggested_type
from muster.domain.variables import Value, Variable, as_text, as_written

Tree: TypeAlias = Any  #: mappings, lists and scalars, as JSON and YAML give them

MAX_DEPTH = 100  #: mappings and lists inside each other

# The quantifiers are possessive and a run of dollars starts at its first one: a value of a million `$`
# or `{` must not cost a million times a million steps.
_VARIABLE = re.compile(r"\{\{\s*+([A-Za-z_][A-Za-z0-9_]*+)\s*+\}\}")
_MACRO = re.compile(r"(?<!\$)(\$++)\{(\w++)\}")
_VARIABLE_OR_MACRO = re.compile(f"{_VARIABLE.pattern}|{_MACRO.pattern}")


def find_variables(tree: Tree) -> tuple[str, ...]:
    """The name of every `{{name}}`, in order of first appearance."""
    names = (match[1] for text in _strings(tree) if "{{" in text for match in _VARIABLE.finditer(text))
    return tuple(dict.fromkeys(names))


def find_macros(tree: Tree) -> tuple[str, ...]:
    """The name of every live `${name}`, in order of first appearance."""
    matches = (match for text in _strings(tree) if "${" in text for match in _MACRO.finditer(text))
    return tuple(dict.fromkeys(match[2] for match in matches if _is_live(match)))


def check_declared(tree: Tree, variables: Iterable[Variable]) -> None:
    """Refuse a queue whose template and variables do not name the same things."""
    declared = _by_name(variables)
    used = find_variables(tree)
    for name in used:
        if name not in declared:
            raise _undeclared(name, declared, tree)
    for name in declared:
        if name not in used:
            raise BadTemplate(
                f'Variable "{name}" is declared, but the template never uses it.',
                hint=f"Write {{{{{name}}}}} where its value belongs, or drop the variable.",
                facts={"name": name},
            )


def bind(
    tree: Tree, variables: Iterable[Variable], values: Mapping[str, object], *, queue: str
) -> tuple[Tree, dict[str, Value]]:
    """Check the values of a launch and put them into a copy of the tree; also return all values used.

    A string that is one `{{name}}` and nothing else becomes the typed value; in a longer string the value
    is text. The tree holds string values marked as text (see above), the returned values are as given.
    """
    declared = _by_name(variables)
    for name in values:
        if name not in declared:
            raise _unknown(name, values[name], declared, queue=queue)
    bound = {name: variable.value_from(values, queue=queue) for name, variable in declared.items()}

    def value_of(name: str) -> Value:
        if name not in bound:
            raise _undeclared(name, declared, tree)
        return bound[name]

    def text_of(token: re.Match[str]) -> str | None:
        return None if token[1] is None else as_text(value_of(token[1]))

    def change(text: str) -> Value:
        if "{{" not in text:
            return text
        if sole := _VARIABLE.fullmatch(text):
            value = value_of(sole[1])
            return as_literal(value) if isinstance(value, str) else value
        return _replace(_VARIABLE_OR_MACRO, text_of, text)

    return _map(tree, change), bound


def fill_known(tree: Tree, macros: Mapping[str, str]) -> Tree:
    """Fill these macros and leave the tree fillable: other macros and every `$${x}` stay.

    `fill(fill_known(tree, some), rest)` is `fill(tree, {**rest, **some})`, whatever the values contain.
    """

    def text_of(token: re.Match[str]) -> str | None:
        if not _is_live(token) or token[2] not in macros:
            return None
        return "$" * (len(token[1]) // 2) + macros[token[2]]

    return _map(tree, lambda text: _replace(_MACRO, text_of, text) if "${" in text else text)


def fill(tree: Tree, macros: Mapping[str, str]) -> Tree:
    """Fill these macros for the last time: `$${x}` becomes the text `${x}`, unknown macros stay.

    The result is what is submitted. It no longer tells a macro from text that looks like one: never fill
    it again.
    """

    def text_of(token: re.Match[str]) -> str:
        dollars = "$" * (len(token[1]) // 2)
        if not _is_live(token):
            return f"{dollars}{{{token[2]}}}"
        return dollars + macros.get(token[2], f"${{{token[2]}}}")

    return _map(tree, lambda text: _MACRO.sub(text_of, text) if "${" in text else text)


def _is_live(macro: re.Match[str]) -> bool:
    return len(macro[1]) % 2 == 1


def _replace(tokens: re.Pattern[str], text_of: Callable[[re.Match[str]], str | None], text: str) -> str:
    """Replace each token by its text, marked as text; a token without one is a macro, and stays."""
    done = ""
    literal = ""  # what has come since the last macro that stays
    end = 0
    for token in tokens.finditer(text):
        literal += text[end : token.start()]
        end = token.end()
        replacement = text_of(token)
        if replacement is None:
            trailing = len(literal) - len(literal.rstrip("$"))  # would count as the macro's own
            done += as_literal(literal) + "$" * trailing + token[0]
            literal = ""
        else:
            literal += replacement
    return done + as_literal(literal + text[end:])


def as_literal(text: str) -> str:
    """The template that stands for exactly this text: what would read as a macro is marked as text."""
    return _MACRO.sub(r"\1\g<0>", text) if "${" in text else text


def as_literal_tree(tree: Tree) -> Tree:
    """The template that stands for exactly this tree."""
    return _map(tree, as_literal)


def sources_in(text: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """The variables and live macros in one text of a template, and whether it has words of its own."""
    variables, macros = find_variables(text), find_macros(text)
    rest = _VARIABLE.sub("", text)
    own = bool(_MACRO.sub(lambda token: token[0][: len(token[1]) - 1] if _is_live(token) else token[0], rest))
    return variables, macros, own


def _map(tree: Tree, change: Callable[[str], Value], depth: int = 0) -> Tree:
    """A copy of the tree with every string value changed."""
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, (dict, Mapping)):  # dict first: asking the abstract class takes far longer
        _check_depth(depth)
        return {key: _map(value, change, depth + 1) for key, value in tree.items()}
    if isinstance(tree, list):
        _check_depth(depth)
        return [_map(value, change, depth + 1) for value in tree]
    return tree


def _strings(tree: Tree, depth: int = 0) -> Iterator[str]:
    """Every string value, in order."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping | list):
        _check_depth(depth)
        for value in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _strings(value, depth + 1)


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise BadTemplate(
            f"The template is nested more than {MAX_DEPTH} levels deep.",
            hint="Look for a YAML anchor that contains itself.",
        )


def _by_name(variables: Iterable[Variable]) -> dict[str, Variable]:
    declared: dict[str, Variable] = {}
    for variable in variables:
        if variable.name in declared:
            raise BadTemplate(f'Variable "{variable.name}" is declared twice.', facts={"name": variable.name})
        declared[variable.name] = variable
    return declared


def _undeclared(name: str, declared: Iterable[str], tree: Tree) -> BadTemplate:
    near = nearest(name, declared)
    paths = [path for path, text in walk(tree) if isinstance(text, str) and name in find_variables(text)]
    declare = f"eclare it: --var {name}:{suggested_type(name, paths)}"
    hint = f"Did you mean {{{{{near}}}}}? If not, d{declare}" if near else f"D{declare}"
    return BadTemplate(
        f"The template uses {{{{{name}}}}}, which is not declared.",
        hint=hint,
        facts={"name": name, "nearest": near},
    )


def _unknown(name: str, given: object, declared: Iterable[str], *, queue: str) -> BadVariable:
    near = nearest(name, declared)
    names = ", ".join(declared)
    known = f"Its variables: {names}." if names else "It has no variables at all."
    return BadVariable(
        f'{name}={as_written(given)}: queue "{queue}" has no variable "{name}".',
        hint=f"Did you mean --set {near}=…?" if near else known,
        facts={"name": name, "rule": "declared", "nearest": near, "queue": queue},
    )
