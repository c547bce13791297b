"""What an answer holds until it is sent."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.engine.request import TokenEvent, TokenLogprobs
from sealhost.host.serving.chat import ChatReply
from sealhost.host.serving.completions import CompletionReply
from sealhost.host.serving.options import Options
from sealhost.sandbox import SamplingParams

TOP = tuple((65 + one, -1.0 - one / 7) for one in range(20))


@pytest.mark.parametrize("kind", [ChatReply, lambda *both: CompletionReply(*both, ["x"], echo=False)])
def test_log_probabilities_of_a_token_take_two_kilobytes_until_they_are_sent(
    make_plane: Callable[..., Any], kind: Callable[..., Any]
) -> None:
    options = Options(SamplingParams(), 8, 1, (), frozenset(), 20, None, b"")
    reply = kind(make_plane().model, options)
    tracemalloc.start()
    for _ in range(1000):
        reply.add(0, TokenEvent("", 65, "A", TokenLogprobs(65, -1.0, TOP)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2048 * 1000  # as Python's objects they took ten
