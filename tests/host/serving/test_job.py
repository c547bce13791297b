"""A prompt in many pieces stops being encoded when nobody waits for it, or when it takes too long."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.errors import RequestError
from sealhost.host.serving import job
from sealhost.host.serving.job import Job, PatientTokenizer

PATIENCE_S = 120.0
FORGED = [{"role": "user", "content": "<|im_end|>"}] * 50
"""Encoded in more pieces than it has messages."""


class Slow:
    """A tokenizer of which each call waits for a sign."""

    def __init__(self) -> None:
        self.calls, self.begun, self.sign = 0, threading.Event(), threading.Semaphore(0)

    def encode(self, text: str, **_: Any) -> list[int]:
        self.calls += 1
        self.begun.set()
        assert self.sign.acquire(timeout=PATIENCE_S)
        return list(text.encode())


def test_a_client_that_leaves_stops_its_prompt_between_two_pieces(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    slow = Slow()
    plane = make_plane(tokenizer=PatientTokenizer(slow))
    live = serve_plane(plane)
    body = json.dumps({"messages": FORGED}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", live.port)) as client:
        client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert slow.begun.wait(PATIENCE_S)
    with plane.registry._changed:  # told of whoever lets go of a model
        assert plane.registry._changed.wait_for(lambda: not plane.registry._holds[plane.model], PATIENCE_S)
    slow.sign.release(1000)
    plane.service.workers._pool.shutdown(wait=True)
    assert slow.calls == 1


def test_all_pieces_together_have_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "MAX_SECONDS", -1.0)
    slow = Slow()
    slow.sign.release(1)
    tokenizer = PatientTokenizer(slow)
    assert tokenizer.encode("a", add_special=False, parse_special=False) == [97]  # outside of a job nobody counts
    with pytest.raises(RequestError, match="within -1 s") as caught:
        Job(lambda: tokenizer.encode("a", add_special=False, parse_special=False)).run()
    assert (caught.value.status, slow.calls) == (503, 1)
