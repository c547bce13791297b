"""Several choices of a prompt, and several prompts in a request, as the engine gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_choices_of_one_prompt_belong_together_and_those_of_another_do_not(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    plane = make_plane()
    live = serve_plane(plane)
    assert live.client.post("/v1/completions", json={"prompt": ["a", "b"], "n": 3}).status_code == 200
    told = [(one.group, one.choice) for one in plane.engine.submitted]
    first, second = told[0][0], told[3][0]
    assert told == [(first, 0), (first, 1), (first, 2), (second, 0), (second, 1), (second, 2)]
    assert first != second
    assert (first.size, second.size) == (3, 3)


def test_a_choice_that_is_alone_belongs_to_no_group(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    plane = make_plane()
    live = serve_plane(plane)
    assert live.client.post("/v1/completions", json={"prompt": ["a", "b"]}).status_code == 200
    assert [one.group for one in plane.engine.submitted] == [None, None]
