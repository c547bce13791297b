"""In-memory twins of the model and of sampler guests, behind the engine's own seams."""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.host.config import EngineConfig
from sealhost.host.engine.core import Core
from sealhost.host.engine.request import ChoiceGroup, ErrorEvent, FinishEvent, GenerationRequest, TokenEvent
from sealhost.host.weights.loaded import LoadedModel, LoadReport
from sealhost.host.weights.loader import load
from sealhost.kernels.backend import KV_BLOCK_TOKENS, DecoderSpec, RopeStyle
from sealhost.kernels.cpu.backend import CpuBackend
from sealhost.kernels.kv_type import KvType
from sealhost.sandbox import SamplingParams, Sandbox, Vocabulary
from sealhost.signing import DirectoryTrust, verify
from sealhost.signing.declaration import read_plugin
from sealhost.signing.keys import public_key_of
from sealhost.signing.pack import NO_TEMPLATE, pack
from sealhost.signing.sign import sign_bundle

PATIENCE = 120
"""Seconds after which a test gives up."""
VOCAB = 260
END, SILENT = 256, 257
"""Ids beyond the 256 bytes: an end of generation and another control token."""

SPEC = DecoderSpec(1, 32, 1, 1, 32, 32, VOCAB, 1 << 20, 1e-5, 1e4, 32, RopeStyle.NORM, tied_head=True)


class Decision(NamedTuple):
    tokens: tuple[int, ...] = ()
    backtrack: int = 0
    stop: bool = False


def choice(token: int | None, *, stop: bool = False) -> Decision:
    """One id, or the end."""
    return Decision(() if token is None else (token,), stop=stop)


class FakeModel:
    """Its KV cache holds token ids; the next token is a function of the ids that the block table leads to.

    So a wrong block, position or order changes the answer, as it would with real keys and values. With a window it keeps
    the ids a second time, in the other pool, and fails where a token would not see there what the first pool holds.
    """

    def __init__(
        self, blocks: int, following: Callable[[list[int]], int], gap: float = 1.0, *, window: int = 0, windows: int = 0
    ) -> None:
        self.spec = replace(SPEC, layer_windows=(window,)) if window else SPEC
        self.seen = np.full((windows, KV_BLOCK_TOKENS), -1, np.int32)
        self.memory_bytes: dict[str, int] = {}
        self.cache = np.full((blocks, KV_BLOCK_TOKENS), -1, np.int32)
        self.following = following
        self.gap = gap
        self.steps: list[list[tuple[int, int, bool]]] = []
        self.fail_next = False
        self.closed = False

    def step(self, batch) -> None:
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the device is gone")
        wanted = dict(
            zip(
                batch.logits_tokens[: batch.logits_count].tolist(),
                batch.logits_addresses[: batch.logits_count].tolist(),
                strict=True,
            )
        )
        runs: dict[int, list[int]] = defaultdict(list)
        for index in range(batch.token_count):
            row, position = int(batch.sequences[index]), int(batch.positions[index])
            table = batch.block_tables[row]
            self.cache[table[position // KV_BLOCK_TOKENS], position % KV_BLOCK_TOKENS] = batch.tokens[index]
            runs[row].append(position)
            if index in wanted:
                flat = self.cache[table[: position // KV_BLOCK_TOKENS + 1]].ravel()[: position + 1]
                self.write(wanted[index], self.following(flat.tolist()))
        if self.spec.window:
            self.compare(batch, runs)
        self.steps.append([(positions[0], len(positions), False) for positions in runs.values()])

    def compare(self, batch, runs) -> None:
        """Stores the step's tokens in the pool for windows, then looks at what each of them sees."""
        for index in range(batch.token_count):
            block, place = divmod(int(batch.positions[index]), KV_BLOCK_TOKENS)
            self.seen[batch.window_tables[batch.sequences[index], block], place] = batch.tokens[index]
        for row, positions in runs.items():
            for position in positions:
                at = np.arange(max(0, position + 1 - self.spec.window), position + 1)
                blocks, places = at // KV_BLOCK_TOKENS, at % KV_BLOCK_TOKENS
                whole = self.cache[batch.block_tables[row, blocks], places]
                assert np.array_equal(self.seen[batch.window_tables[row, blocks], places], whole)

    def write(self, address: int, token: int) -> None:
        row = np.ctypeslib.as_array((ctypes.c_float * VOCAB).from_address(address))
        row[:] = 0
        row[token] = self.gap

    def close(self) -> None:
        self.closed = True


class FakeSlot:
    """One choice in a session: what its guest sees."""

    def __init__(self, prompt_ids, choice: int) -> None:
        self.prompt_ids, self.choice = tuple(prompt_ids), choice
        self.logits = np.zeros(VOCAB, np.float32)
        self.accepted: list[int] = []
        self.steps = 0
        self.prepared = False
        self.closed = False


class FakeSession:
    """Greedy; `act` may replace its step. Notices use by two threads, after close, of slots that ended or were not prepared."""

    def __init__(self, owner: FakeSampler, prompt_ids, choices) -> None:
        self.owner = owner
        self.slots = [FakeSlot(prompt_ids, one) for one in choices]
        self.calls: list[tuple[int, ...]] = []
        self.closed = False
        self.using = threading.Lock()

    def logits_address(self, slot: int) -> int:
        assert not self.closed
        assert not self.slots[slot].closed
        return self.slots[slot].logits.ctypes.data

    def logits(self, slot: int) -> np.ndarray:
        return self.slots[slot].logits

    def prepare(self, slots) -> None:
        with self._exclusive():
            for slot in self._open(slots):
                self.owner.misused += slot.prepared
                slot.prepared = True
                self.owner.preparing(slot)

    def step(self, slots) -> list[Decision]:
        with self._exclusive():
            self.calls.append(tuple(slots))
            wanted = self._open(slots)
            self.owner.misused += sum(slot.prepared != (self.owner.tier == "mask") for slot in wanted)
            decisions = [self.owner.act(slot) for slot in wanted]
            for slot in wanted:
                slot.prepared, slot.steps = False, slot.steps + 1
            return decisions

    def accept(self, slot: int, tokens, backtrack: int = 0) -> None:
        with self._exclusive():
            (one,) = self._open((slot,))
            self.owner.accepting(one, tokens)
            if backtrack:
                del one.accepted[-backtrack:]
            one.accepted += tokens

    def close_slot(self, slot: int) -> None:
        with self._exclusive():
            self.slots[slot].closed = True

    def close(self) -> None:
        with self._exclusive():
            self.closed = True
            with self.owner.lock:
                self.owner.open -= 1

    def _open(self, slots) -> list[FakeSlot]:
        found = [self.slots[slot] for slot in slots]
        self.owner.misused += sum(slot.closed for slot in found) + (list(slots) != sorted(set(slots)))
        return found

    def _exclusive(self):
        if self.closed or self.using.locked():
            self.owner.misused += 1
        return self.using


def greedy(slot: FakeSlot) -> Decision:
    return Decision((int(slot.logits.argmax()),))


class FakeSampler:
    def __init__(
        self,
        act: Callable[[FakeSlot], Decision] = greedy,
        *,
        tier: str = "full",
        max_rows: int = 1,
        max_backtrack: int = 0,
    ) -> None:
        self.act = act
        self.tier, self.max_rows, self.max_backtrack = tier, max_rows, max_backtrack
        self.history_capacity = 1 << 20
        self.opening: Callable[[tuple[int, ...]], None] = lambda _: None
        self.preparing: Callable[[FakeSlot], None] = lambda _: None
        self.accepting: Callable[[FakeSlot, tuple[int, ...]], None] = lambda *_: None
        self.lock = threading.Lock()
        self.open = 0
        self.misused = 0
        self.sessions: list[FakeSession] = []
        self.configs: list[bytes] = []

    @property
    def slots(self) -> list[FakeSlot]:
        """All slots that there ever were."""
        return [slot for session in self.sessions for slot in session.slots]

    def session(self, _params, prompt_ids, *, choices=(0,), config=b""):
        assert 1 <= len(choices) <= self.max_rows
        self.configs.append(config)
        self.opening(tuple(prompt_ids))
        session = FakeSession(self, prompt_ids, choices)
        with self.lock:
            self.open += 1
            self.sessions.append(session)
        return session


class Client:
    """A sink that keeps what it gets, and can be waited for."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.ended = threading.Event()
        self.first = threading.Event()

    def __call__(self, event) -> None:
        assert not self.ended.is_set(), "an event after the end"
        self.events.append(event)
        self.first.set()
        if isinstance(event, FinishEvent | ErrorEvent):
            self.ended.set()

    @property
    def tokens(self) -> list[int]:
        return [one.token for one in self.events if isinstance(one, TokenEvent)]

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.events if isinstance(one, TokenEvent | FinishEvent))

    @property
    def last(self):
        return self.events[-1]


def hashed(ids: list[int]) -> int:
    """A next token that depends on every id and its position; never an end."""
    state = 7
    for one in ids:
        state = (state * 31 + one + 1) % 1_000_003
    return state % 256


def scripted(*scripts: bytes | list[int]) -> Callable[[list[int]], int]:
    """The answer to the one-token prompt (n,) is script n, then END for ever."""

    def following(ids: list[int]) -> int:
        script = scripts[ids[0]]
        return script[len(ids) - 1] if len(ids) <= len(script) else END

    return following


class House:
    """A loaded model made of twins."""

    def __init__(
        self,
        following=hashed,
        *,
        blocks: int = 64,
        context: int = 1 << 16,
        sampler: FakeSampler | None = None,
        window: int = 0,
        more_windows: int = 64,
    ) -> None:
        self.sampler = sampler or FakeSampler()
        self.most = min(replace(SPEC, layer_windows=(window,)).window_blocks(self.sampler.max_backtrack), blocks)
        windows = self.most + more_windows if window else 0
        self.model = FakeModel(blocks, following, window=window, windows=windows)
        spellings = (*(bytes((one,)) for one in range(256)), b"<end>", b"<silent>", b"<u>", b"<v>")
        types = np.ones(VOCAB, np.uint8)
        types[[END, SILENT]] = 3
        self.vocabulary = Vocabulary(
            model="gpt2", pre="smollm", texts=spellings, types=types, scores=np.zeros(VOCAB, np.float32), merges=(),
            bos=-1, eos=END, unknown=-1, add_bos=False, add_eos=False, add_space_prefix=False, token_bytes=spellings,
        )  # fmt: skip
        self.loaded = LoadedModel(
            name="twin", digest="", model=self.model, spec=self.model.spec, vocabulary=self.vocabulary, tokenizer=None,
            samplers={"greedy": self.sampler}, template=None, end_ids=frozenset({END}), context=context,
            kv_blocks=blocks, kv_type=KvType.FLOAT16, report=LoadReport(0, 0, 0, 0, 0, {}), window_blocks=windows,
        )  # fmt: skip

    def core(self, *, grace: float = PATIENCE, **settings) -> Core:
        """Its guests are waited for, so that what a turn does is known; those of tests about late ones get a short `grace`."""
        woken = threading.Event()
        core = Core(self.loaded, EngineConfig(**settings), wake=woken.set)
        core._calls.collect = partial(core._calls.collect, grace)
        core.woken = woken
        return core


def request(name: str, prompt, max_tokens: int = 8, **more) -> GenerationRequest:
    more.setdefault("stop_ids", frozenset({END}))
    return GenerationRequest(name, tuple(prompt), max_tokens, SamplingParams(temperature=0), **more)


def group(prompt, max_tokens: int = 8, *, n: int, name: str = "g", **more) -> list[GenerationRequest]:
    """The n choices of one call."""
    of = ChoiceGroup(name, n)
    return [request(f"{name}-{one}", prompt, max_tokens, choice=one, group=of, **more) for one in range(n)]


def answer(ids, count: int, following=hashed) -> list[int]:
    """What a sequence gives alone."""
    ids = list(ids)
    for _ in range(count):
        ids.append(following(ids))
    return ids[len(ids) - count :]


def turn(core: Core) -> None:
    """One turn, then a look at the pool; when there was nothing to do, waits for a guest that is late."""
    worked = core.turn()
    core.pool.check()
    core.windows.pool.check()
    if not worked and core._calls.under_way:
        assert core.woken.wait(PATIENCE)
        core.woken.clear()  # what it announced is there: the next turn takes it


def drain(core: Core, turns: int = 10_000) -> None:
    """Turns until nothing is left, checking the pool after every turn."""
    for _ in range(turns):
        turn(core)
        if not core.stats.running and not core.stats.waiting and not core._calls.under_way:
            return
    raise AssertionError(f"still at work after {turns} turns: {core.stats}")


def run(house: House, requests, **settings) -> list[Client]:
    """Runs requests to their end; answers a client for each, after checking that nothing is left behind."""
    core, clients = house.core(**settings), [Client() for _ in requests]
    for one, client in zip(requests, clients, strict=True):
        core.add(one, client)
    drain(core)
    leaves_nothing(core, house)
    return clients


def leaves_nothing(core: Core, house: House) -> None:
    """Nothing is held, open or ever was misused."""
    assert core.pool.used == core.windows.pool.used == 0
    assert len(core._groups) == 0
    assert not core._groups._shared
    assert house.sampler.open == 0
    assert house.sampler.misused == 0
    assert (core.stats.running, core.stats.waiting, core.stats.kv_free_blocks) == (0, 0, core.pool.total)


@pytest.fixture(scope="session")
def twin():
    """Everything above, under one name."""

    class Twin:
        Client, Decision, House, Model, Sampler = Client, Decision, House, FakeModel, FakeSampler
        END, SILENT, VOCAB = END, SILENT, VOCAB
        answer, choice, drain, greedy, group, hashed, leaves_nothing, request, run, scripted, turn = map(
            staticmethod,
            (answer, choice, drain, greedy, group, hashed, leaves_nothing, request, run, scripted, turn),
        )

    return Twin


@pytest.fixture(scope="session")
def config() -> EngineConfig:
    """Of the demo model."""
    return EngineConfig(context=1024, max_sequences=8)


@pytest.fixture(scope="session")
def loaded(smollm2_gguf, config, tmp_path_factory):
    """The demo model, packed, signed, verified and loaded, with its guests in the sandbox."""
    root = tmp_path_factory.mktemp("bundle")
    key = Ed25519PrivateKey.generate()
    keys = root / "keys"
    keys.mkdir()
    (keys / "publisher.pub").write_bytes(public_key_of(key).to_pem())
    shelf = Path(str(resources.files("sealhost.plugins")))
    plugins = [read_plugin(shelf / one / "plugin.wasm") for one in ("tokenizers/bpe", "samplers/standard")]
    bundle = root / "bundle"
    pack(bundle, name="smollm2", version=1, model=smollm2_gguf, plugins=plugins, template=NO_TEMPLATE)
    sign_bundle(bundle, key)
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(cache_directory=root / "cache"))
        verified = verify(bundle, DirectoryTrust(keys))
        yield stack.enter_context(load(verified, sandbox, CpuBackend(), config))
