"""Several choices of a prompt, and several prompts in a request, as the engine gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.errors import RequestError, TemplateError
from sealhost.host.serving.prompts import chat_prompt


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


def test_what_an_engine_can_never_hold_is_400_and_what_it_can_is_taken(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane(room=20))
    error = live.client.post("/v1/completions", json={"prompt": ["a"] * 3, "n": 7})
    assert (error.status_code, error.json()["error"]["param"]) == (400, "n")
    assert "at most 20 choices of all prompts together, got 21" in error.json()["error"]["message"]
    assert not live.plane.engine.submitted
    taken = live.client.post("/v1/completions", json={"prompt": ["a"] * 2, "n": 10, "max_tokens": 1})
    assert [choice["index"] for choice in taken.json()["choices"]] == list(range(20))


def test_a_chat_whose_texts_cannot_fit_is_refused_before_it_is_rendered(make_plane: Callable[..., Any]) -> None:
    model = make_plane(template="{{ 1 // 0 }}").model  # whoever renders it fails
    with pytest.raises(RequestError, match="at most 255 tokens") as caught:
        chat_prompt(model, [{"role": "user", "content": "x" * 1600}, {"role": "user", "content": "é" * 800}])
    assert caught.value.reason == "context_length_exceeded"
    with pytest.raises(TemplateError):
        chat_prompt(model, [{"role": "user", "content": "x" * 1600}])
