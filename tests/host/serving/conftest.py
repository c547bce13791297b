"""An in-memory twin of an engine and its model, behind the same protocols, and a live server in front of it."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from sealhost.host.engine.request import (
    EngineStats,
    ErrorEvent,
    Event,
    FinishEvent,
    GenerationRequest,
    TokenEvent,
    TokenLogprobs,
)
from sealhost.host.serving.app import data_plane
from sealhost.host.serving.bodies import Bodies
from sealhost.host.serving.renderer import Renderer
from sealhost.host.serving.served import Registry, ServedModel
from sealhost.host.serving.server import Server, bind
from sealhost.host.serving.service import Service
from sealhost.host.serving.template import ChatTemplate
from sealhost.host.serving.unread import UnreadEvents
from sealhost.host.serving.workers import Workers
from sealhost.sandbox import OperatorLimits, SamplerPlugin

BOS, EOS, IM_START, IM_END = 300, 301, 302, 303
SPECIALS = {"<s>": BOS, "</s>": EOS, "<|im_start|>": IM_START, "<|im_end|>": IM_END}
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PATIENCE_S = 120.0
PLAIN_HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Of no certificates: nothing here speaks TLS, and reading the system's takes each client 45 ms."""


class ByteTokenizer:
    """Ids 0 to 255 are the bytes; the four specials are parsed when asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.error: Exception | None = None
        self.gate: threading.Event | None = None

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:  # noqa: ARG002 — as the protocol has it
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.calls.append((text, parse_special))
        parts = re.split("(" + "|".join(map(re.escape, SPECIALS)) + ")", text) if parse_special else [text]
        return [
            i for part in parts for i in ([SPECIALS[part]] if parse_special and part in SPECIALS else part.encode())
        ]


@dataclass
class _Running:
    request: GenerationRequest
    sink: Callable[[Event], None]
    script: list[int]
    stream: Any
    made: int = 0


@dataclass
class ScriptEngine:
    """Answers every request with the ids of `script`, one a turn, on its own thread.

    `pause_at`: ids after which a request waits until `resume()`. `refuse`: raised by submit. `fail_at`: ids after
    which a request ends with `failure`.
    """

    script: Callable[[GenerationRequest], list[int]]
    visible: Sequence[bytes]
    pause_at: int | None = None
    refuse: Exception | None = None
    failure: Exception | None = None
    fail_at: int = 0
    cancelled: list[str] = field(default_factory=list)
    submitted: list[GenerationRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[_Running] = []
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="script-engine", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest, sink: Callable[[Event], None]) -> None:
        from sealhost.host.engine.detokenizer import TextStream

        if self.refuse is not None:
            raise self.refuse
        stream = TextStream(_Table(self.visible), request.stop)
        with self._changed:
            self.submitted.append(request)
            self._running.append(_Running(request, sink, self.script(request), stream))
            self._changed.notify_all()

    def cancel(self, request_id: str) -> None:
        with self._changed:
            self.cancelled.append(request_id)
            self._running = [one for one in self._running if one.request.id != request_id]
            self._changed.notify_all()

    @property
    def is_open(self) -> bool:
        return not self._closed

    def stats(self) -> EngineStats:
        return EngineStats(running=len(self._running))

    def resume(self) -> None:
        with self._changed:
            self.pause_at = None
            self._changed.notify_all()

    def wait_for(self, predicate: Callable[[ScriptEngine], bool]) -> None:
        """Blocks until the predicate holds, and fails after a generous time."""
        with self._changed:
            assert self._changed.wait_for(lambda: predicate(self), PATIENCE_S)

    @property
    def idle(self) -> bool:
        return not self._running

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(PATIENCE_S)

    def _ready(self) -> list[_Running]:
        return [one for one in self._running if self.pause_at is None or one.made < self.pause_at]

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._ready())
                if self._closed:
                    return
                for one in self._ready():
                    if self._step(one):
                        self._running.remove(one)
                self._changed.notify_all()

    def _step(self, one: _Running) -> bool:
        request = one.request
        if self.failure is not None and one.made >= self.fail_at:
            one.sink(ErrorEvent(request.id, self.failure))
            return True
        token = one.script[one.made] if one.made < len(one.script) else EOS
        one.made += 1
        if token in request.stop_ids:
            return self._finish(one, "stop")
        pushed = one.stream.push(token)
        logprobs = None
        if request.logprobs is not None:
            others = [t for t in range(65, 65 + 21) if t != token][: max(0, request.logprobs - 1)]
            top = ((token, -0.25), *((t, -1.0 - t / 100) for t in others))[: request.logprobs]
            logprobs = TokenLogprobs(token, -0.25, top)
        one.sink(TokenEvent(request.id, token, pushed.text, logprobs))
        if pushed.stopped:
            return self._finish(one, "stop", flush=False)
        return one.made >= request.max_tokens and self._finish(one, "length")

    @staticmethod
    def _finish(one: _Running, reason: Any, *, flush: bool = True) -> bool:
        tail = one.stream.finish() if flush else ""
        one.sink(FinishEvent(one.request.id, reason, tail, len(one.request.prompt_ids), one.made))
        return True


class _Table:
    def __init__(self, spelled: Sequence[bytes]) -> None:
        self.spelled = spelled


@dataclass
class Plane:
    """A served twin."""

    engine: ScriptEngine
    tokenizer: ByteTokenizer
    model: ServedModel
    service: Service
    registry: Registry


OTHER_SCHEMA = {
    "type": "object",
    "properties": {"tau": {"type": "number", "minimum": 0}, "words": {"type": "array", "items": {"type": "string"}}},
    "additionalProperties": False,
}


def sampler(name: str, schema: dict[str, Any] | None = None) -> SamplerPlugin:
    """The real proxy over no guest at all: what it checks of a request, it checks before it starts one."""
    layout: Any = SimpleNamespace(
        vocab_capacity=1 << 20, config_capacity=200, max_rows=8, max_backtrack=0, check_tier=lambda _: None
    )
    program: Any = SimpleNamespace(limits=None, engine=SimpleNamespace(allowed=OperatorLimits(), clock=time.monotonic))
    plugin: Any = SimpleNamespace(name=name, sha256="", tier="full", config_schema=schema)
    return SamplerPlugin(plugin, program, layout, vocab_size=300, takes_vocabulary=False)


def build_plane(answer: str | list[int] = "Hello, world", **changes: Any) -> Plane:
    texts = {i: bytes([i]) if i < 256 else b"" for i in range(320)} | {i: t.encode() for t, i in SPECIALS.items()}
    token_bytes = [texts[i] for i in range(320)]
    visible = [b"" if i >= 256 else texts[i] for i in range(320)]
    ids = list(answer.encode()) if isinstance(answer, str) else answer
    engine = ScriptEngine(changes.pop("script", lambda _request: ids), visible)
    template = changes.pop("template", TEMPLATE)
    tokenizer = changes.pop("tokenizer", None) or ByteTokenizer()
    bodies, unread = changes.pop("bodies", None) or Bodies(), changes.pop("unread", None) or UnreadEvents()
    fields: dict[str, Any] = {
        "name": "tiny",
        "digest": "ab" * 32,
        "created": 1_700_000_000,
        "context": 256,
        "bos": BOS,
        "eos": EOS,
        "add_bos": False,
        "room": 288,
        "add_space_prefix": False,
        "samplers": {"standard": sampler("standard"), "other": sampler("other", OTHER_SCHEMA)},
    } | changes
    model = ServedModel(
        tokenizer=tokenizer,
        token_bytes=token_bytes,
        visible_bytes=visible,
        control_texts=tuple(SPECIALS),
        stop_ids=frozenset({EOS, IM_END}),
        template=ChatTemplate(Renderer(template), bos="<s>", eos="</s>") if template else None,
        engine=engine,
        **fields,
    )
    registry = Registry()
    registry.publish([model])
    return Plane(
        engine, tokenizer, model, Service(registry, Workers(threads=2, limit=4), bodies=bodies, unread=unread), registry
    )


@pytest.fixture
def make_plane() -> Iterator[Callable[..., Plane]]:
    planes: list[Plane] = []

    def make(*args: Any, **changes: Any) -> Plane:
        planes.append(build_plane(*args, **changes))
        return planes[-1]

    yield make
    for plane in planes:
        plane.engine.close()
        plane.service.workers.close()


class Live:
    """A real server on a free port, on a thread of its own."""

    def __init__(self, plane: Plane, *, grace: float = 5.0, connections: int = 1000, **access: Any) -> None:
        self.plane = plane
        listener = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.port = listener.getsockname()[1]
        self._server = Server(data_plane(plane.service, **access), plane.service, grace=grace, connections=connections)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="live-server")
        self._thread.start()
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN_HTTP)

    def stop(self) -> None:
        self._server.should_exit = True

    def join(self) -> float:
        began = time.monotonic()
        self._thread.join(PATIENCE_S * 2)
        assert not self._thread.is_alive()
        return time.monotonic() - began

    def close(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._server.force_exit = True
        self.join()


@pytest.fixture
def serve_plane(make_plane: Callable[..., Plane]) -> Iterator[Callable[..., Live]]:
    running: list[Live] = []

    def serve(plane: Plane | None = None, **options: Any) -> Live:
        running.append(Live(plane or make_plane(), **options))
        return running[-1]

    yield serve
    for one in running:
        one.plane.engine.resume()
        one.close()


@pytest.fixture(scope="session")
def live_with() -> Iterator[Callable[..., Live]]:
    """Servers for tests that only ask, one for each set of options; the answer is "Hello, world"."""
    running: dict[str, Live] = {}

    def live_with(**options: Any) -> Live:
        key = repr(options)
        if key not in running:
            running[key] = Live(build_plane(), **options)
        return running[key]

    yield live_with
    for one in running.values():
        one.close()
        one.plane.engine.close()
        one.plane.service.workers.close()


@pytest.fixture(scope="session")
def live(live_with: Callable[..., Live]) -> Live:
    return live_with()
