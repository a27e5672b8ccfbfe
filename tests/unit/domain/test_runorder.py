"""Words for the order of a list."""

from __future__ import annotations

import pytest

from muster.domain.errors import BadInput
from muster.domain.runorder import NEWEST, RunKey, RunOrder


@pytest.mark.parametrize("key", RunKey)
def test_a_word_comes_back_as_it_was(key: RunKey) -> None:
    for word in (key.value, f"-{key}"):
        assert str(RunOrder.parse(word)) == word
    assert str(NEWEST) == "-created"


@pytest.mark.parametrize("word", ["", "-", "--name", "Name", "spec", "name ", "name,state"])
def test_another_word_is_refused_with_those_there_are(word: str) -> None:
    with pytest.raises(BadInput, match="cannot be sorted by") as refused:
        RunOrder.parse(word)
    assert "created, name, state" in (refused.value.hint or "")
