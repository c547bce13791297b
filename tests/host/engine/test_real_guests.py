"""Slots, runs of ids, steps back and masks of a real guest in the real sandbox, over a twin of the model."""

from __future__ import annotations

import hashlib
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import wasmtime

from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ErrorEvent, FinishEvent
from sealhost.sandbox import Sandbox
from sealhost.sandbox.abi import Action

GUEST = Path(__file__).parent / "guests" / "scribe.wat"
PATIENCE = 120
ROWS, DEPTH = 4, 4
LOGITS = {"full": (4096, 4096), "mask": (0, 0)}


def wasm_of(tier: str) -> bytes:
    layout = (88, 0, ROWS, 512, *LOGITS[tier], 20480, 20992, 65536, 1024, 22528, 8, 21504, 1024, 22784, 128,
              0, 0, 24576, 4096, 0, DEPTH)  # fmt: skip
    escaped = "".join(f"\\{byte:02x}" for byte in struct.pack("<22I", *layout))
    return bytes(wasmtime.wat2wasm(GUEST.read_text().replace('"LAYOUT"', f'"{escaped}"')))


@pytest.fixture(scope="module")
def plugins(tmp_path_factory, twin):
    limits = SimpleNamespace(memory_bytes=1 << 20, init_ms=500, load_ms=500, step_ms=100, encode_ms=50)

    def plugin(tier):
        wasm = wasm_of(tier)
        facts = {"name": tier, "wasm": wasm, "sha256": hashlib.sha256(wasm).hexdigest(), "tier": tier}
        return SimpleNamespace(role="sampler", abi=1, limits=limits, config_schema=None, **facts)

    with Sandbox(cache_directory=tmp_path_factory.mktemp("cache") / "cache") as sandbox:
        yield {tier: sandbox.load_sampler(plugin(tier), twin.VOCAB) for tier in LOGITS}


@pytest.fixture(params=["full", "mask"])
def plugin(request, plugins):
    return plugins[request.param]


@pytest.fixture
def ask(plugin, twin):
    house = twin.House(blocks=128)
    engine = Engine(replace(house.loaded, samplers={"scribe": plugin}), EngineConfig(max_sequences=4))
    engine.start()

    def ask(requests):
        clients = [twin.Client() for _ in requests]
        for one, client in zip(requests, clients, strict=True):
            engine.submit(one, client)
        assert all(client.ended.wait(PATIENCE) for client in clients)
        return clients

    with closing(engine):
        yield ask
    assert plugin.stats().live == 0


def script(*records: tuple[int, int, int, int]) -> bytes:
    """The guest's configuration."""
    return struct.pack("<I", len(records)) + b"".join(struct.pack("<4I", *record) for record in records)


def forward(count: int, first: int):
    return (Action.FAST_FORWARD, 0, count, first)


def back(off: int, count: int = 0, first: int = 0):
    return (Action.BACKTRACK, off, count, first)


PASS = (Action.PASS, 0, 0, 0)


def test_choices_fork_in_one_instance_and_each_has_its_own_way(ask, plugin, twin):
    records = [forward(3, 65), PASS, forward(2, 97), (Action.TOKEN, 7, 0, 0)]
    before = plugin.stats()
    clients = ask(twin.group([5, 6], 9, n=4, sampler_config=script(*records)))
    after = plugin.stats()
    for choice, client in enumerate(clients):
        ids = [5, 6]
        for action, token, count, first in records[choice:]:
            ids += {Action.PASS: [twin.hashed(ids)], Action.TOKEN: [token]}.get(action, range(first, first + count))
        assert client.tokens == (ids[2:] + twin.answer(ids, 9))[:9]
    assert after.sessions - before.sessions == 1
    assert after.calls - before.calls <= 1 + 9  # told of four slots at once, then one call a turn


@pytest.mark.parametrize("logprobs", [None, 2])
def test_ids_come_several_at_a_time_and_go_again(ask, twin, logprobs):
    records = [forward(4, 65), back(2, 3, 97), PASS, back(1), PASS]
    (client,) = ask([twin.request("a", [5], 8, sampler_config=script(*records), logprobs=logprobs)])
    ids = [5, *b"AB", *b"abc"]  # ABCD; two off, abc on; one drawn and taken back; then as the model says
    assert client.tokens == [*ids[1:], *twin.answer(ids, 3)]
    assert client.last.completion_tokens == 8
    if logprobs is not None:
        places = [ids[: n + 1] for n in range(5)]
        assert [event.logprobs.top[0][0] for event in client.events[:5]] == [twin.hashed(place) for place in places]


@pytest.mark.parametrize(
    ("more", "text", "completion"),
    [
        ({"stop": ("DE",)}, "ABC", 5),
        ({"stop_ids": frozenset(b"D")}, "ABC", 4),
        ({"max_tokens": 3}, "ABC", 3),
        ({"stop": ("DZ",), "max_tokens": 7}, "ABCDEFG", 7),
    ],
)
def test_a_run_ends_at_the_exact_id(ask, twin, more, text, completion):
    more = {"max_tokens": 50, **more}
    (client,) = ask([twin.request("a", [5], sampler_config=script(forward(8, 65)), **more)])
    assert (client.text, client.last.completion_tokens) == (text, completion)


def test_a_guest_that_asks_within_its_room_is_never_refused(ask, twin):
    moves = [forward(6, 65), back(4), PASS, back(1, 2, 97), back(2), forward(5, 65), back(4)]
    (client,) = ask([twin.request("a", [5], 12, sampler_config=script(*moves))])
    assert isinstance(client.last, FinishEvent)


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([forward(3, 258)], "invalid"),
        ([back(1)], "invalid"),
        ([forward(3, 65), back(4)], "invalid"),
        ([(Action.FAST_FORWARD, 0, 1_000_000, 65)], "trap"),
        ([(Action.FAST_FORWARD, 0, 0, 65)], "invalid"),
        ([forward(6, 65), back(4), back(4)], "invalid"),
    ],
)
def test_a_run_or_a_step_back_that_is_not_allowed_costs_all_choices_of_its_sandbox_an_error(ask, twin, records, kind):
    wrong = twin.group([5], 20, n=2, sampler_config=script(*records, *records))
    clients = ask([*wrong, twin.request("good", [9], 4)])
    assert all(isinstance(client.last, ErrorEvent) for client in clients[:2])
    assert {client.last.error.kind for client in clients[:2]} == {kind}
    assert clients[2].tokens == twin.answer([9], 4)


def test_a_guest_that_goes_back_and_forth_for_ever_ends(ask, twin):
    records = [forward(4, 65), *[back(4, 4, 65)] * 25]
    (client,) = ask([twin.request("a", [5], 5, sampler_config=script(*records))])
    assert client.tokens == []
    assert "expected at most 84 ids taken back by one choice in all, got 88" in str(client.last.error)


def test_a_mask_holds_for_the_hosts_draw(ask, twin):
    records = [(Action.MASK, 2, 0, 1 << 5), (Action.MASK, 3, 0, 1 << 1 | 1 << 31)]
    (client,) = ask([twin.request("a", [5], 4, sampler_config=script(*records))])
    assert client.tokens[0] == 2 * 32 + 5
    assert client.tokens[1] in {3 * 32 + 1, 3 * 32 + 31}
    ids = [5, *client.tokens[:2]]
    assert client.tokens[2:] == twin.answer(ids, 2)
