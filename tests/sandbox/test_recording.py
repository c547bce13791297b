"""Recordings: what is written, that it replays anywhere, and that a bent file is a clear error."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import numpy as np
import pytest

from sealhost.sandbox import GuestError, SamplingParams, Sandbox, SandboxError
from sealhost.sandbox.abi import Action
from sealhost.sandbox.recording import MAGIC, Recorder, Recording
from sealhost.sandbox.replay import Difference, replay
from sealhost.signing.errors import Code

HERE = Path(__file__).parent
VOCABULARY = 260


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_recording", HERE / "make_recording.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def standard(maker):
    with Sandbox() as sandbox:
        yield maker.standard(sandbox)


class Kept(io.BytesIO):
    """A file whose bytes outlive it."""

    data = b""

    def close(self) -> None:
        self.data = self.getvalue()
        super().close()


def recorded(sampler, play, most: int | None = None, **session) -> bytes:
    file = Kept()
    sampler.record(Recorder(file) if most is None else Recorder(file, most))
    with sampler.session(SamplingParams(temperature=0), [7, 8], **session) as open_session:
        play(open_session)
    return file.data


def replayed(sampler, data: bytes):
    return replay(sampler, Recording(io.BytesIO(data), "a.rec"))


def test_committed_recording_is_what_its_script_makes(maker, standard):
    file = Kept()
    maker.record(standard, file)
    assert file.data == maker.RECORDING.read_bytes()


def test_committed_recording_replays_to_the_same_tokens(maker, standard):
    with maker.RECORDING.open("rb") as file:
        outcome = replay(standard, Recording(file, "standard.rec"))
    assert (outcome.steps, outcome.decisions, outcome.difference, outcome.is_cut) == (12, 18, None, False)


def everything(session) -> None:
    session.prepare((0, 1))
    session.logits(0)[:] = np.arange(VOCABULARY)
    session.logits(1)[:] = -np.arange(VOCABULARY)
    for slot, decision in enumerate(session.step((0, 1))):
        session.accept(slot, decision.tokens, decision.backtrack)
    session.accept(0, (4,), 1)
    session.close_slot(0)
    session.prepare((1,))
    session.step((1,))
    session.reset()
    session.prepare((0,))
    session.step((0,))


@pytest.mark.parametrize("tier", ["full", "topk:4", "mask"])
def test_every_call_in_every_tier_replays(tier, puppet, puppeteer):
    sampler = puppet(tier)
    data = recorded(sampler, everything, choices=(0, 3), config=puppeteer.says(Action.PASS))
    outcome = replayed(sampler, data)
    assert (outcome.steps, outcome.decisions, outcome.difference) == (3, 4, None)
    head = Recording(io.BytesIO(data), "a.rec").head
    assert (head.plugin, head.sha256, head.tier, head.choices) == ("guest", sampler.sha256, tier, [0, 3])


def test_first_difference_is_told_with_its_place(puppet, puppeteer):
    sampler = puppet()
    data = recorded(sampler, everything, choices=(0, 1), config=puppeteer.says(Action.PASS))
    other = data.replace(b'"decisions":[[[259],0,false],[[0],0,false]]', b'"decisions":[[[259],0,false],[[9],0,false]]')
    assert other != data
    difference = replayed(sampler, other).difference
    assert (difference.step, difference.slot) == (0, 1)
    assert "(9,)" in difference.recorded
    assert "(0,)" in difference.replayed


def failing(session) -> None:
    with pytest.raises(GuestError):
        session.step()


def test_failure_is_recorded_and_compared(puppet, puppeteer):
    sampler = puppet()
    data = recorded(sampler, failing, config=puppeteer.says(Action.TOKEN, 300))
    assert replayed(sampler, data).difference is None
    assert replayed(sampler, data.replace(b'"invalid"', b'"timeout"')).difference == Difference(
        0, None, "timeout", "invalid"
    )
    good = recorded(sampler, lambda session: session.step(), config=puppeteer.says(Action.TOKEN, 5))
    told_to_fail = good.replace(b'"decisions":[[[5],0,false]]', b'"failed":"trap"')
    assert replayed(sampler, told_to_fail).difference == Difference(0, None, "trap", "an answer")
    without = good.replace(b'"decisions":[[[5],0,false]]', b'"decisions":[]')
    assert replayed(sampler, without).difference == Difference(0, None, "0 decisions", "1 decisions")


def test_failure_of_a_preparation_is_recorded(puppet, puppeteer):
    def prepare(session) -> None:
        with pytest.raises(GuestError):
            session.prepare((0,))

    sampler = puppet("mask")
    data = recorded(sampler, prepare, config=puppeteer.says(Action.TOKEN, 300))
    assert replayed(sampler, data).difference is None


def test_recording_ends_at_its_bound_and_says_so(puppet, puppeteer):
    def long(session) -> None:
        for _ in range(20):
            session.step()

    sampler = puppet()
    data = recorded(sampler, long, most=5_000, config=puppeteer.says(Action.TOKEN, 5))
    assert 4_000 < len(data) < 6_000
    outcome = replayed(sampler, data)
    assert (outcome.steps, outcome.is_cut, outcome.difference) == (4, True, None)


def test_only_the_next_session_is_recorded(puppet, puppeteer):
    sampler = puppet()
    recorded(sampler, lambda session: session.step(), config=puppeteer.says(Action.TOKEN, 5))
    with sampler.session(SamplingParams(), [], config=puppeteer.says(Action.TOKEN, 5)) as session:
        session.step()


def test_disk_that_is_full_is_a_clear_error_and_leaves_no_session(puppet, puppeteer):
    class Full(io.BytesIO):
        def write(self, _data) -> int:
            raise OSError(28, "No space left on device")

    sampler = puppet()
    live = sampler.stats().live
    sampler.record(Recorder(Full()))
    with pytest.raises(SandboxError, match="No space left") as caught:
        sampler.session(SamplingParams(), [], config=puppeteer.says(Action.TOKEN, 5))
    assert caught.value.code is Code.IO
    assert sampler.stats().live == live


def test_configuration_that_is_no_text_is_not_recorded(puppet):
    sampler = puppet()
    sampler.record(Recorder(io.BytesIO()))
    with pytest.raises(SandboxError, match="configuration in UTF-8"):
        sampler.session(SamplingParams(), [], config=b"\xff")


@pytest.fixture(scope="module")
def good(maker) -> bytes:
    return maker.RECORDING.read_bytes()


def lines(data: bytes) -> tuple[dict, bytes]:
    _, head, rest = data.split(b"\n", 2)
    return json.loads(head), rest


def with_head(data: bytes, **changes) -> bytes:
    head, rest = lines(data)
    return MAGIC + json.dumps(head | changes).encode() + b"\n" + rest


BENT = {
    "another file": (lambda data: b"{}" + data, "recording of version 1"),
    "nothing after the first line": (lambda _data: MAGIC, "end of the file"),
    "a head that is no JSON": (lambda _data: MAGIC + b"{\n", "expected a head"),
    "a head without line end": (lambda data: data[:60], "whole lines"),
    "a vocabulary of none": (lambda data: with_head(data, vocab_size=0), "expected a head"),
    "a vocabulary beyond bounds": (lambda data: with_head(data, vocab_size=1 << 40), "expected a head"),
    "more choices than slots": (lambda data: with_head(data, choices=[0] * 65), "expected a head"),
    "a negative choice": (lambda data: with_head(data, choices=[-1]), "expected a head"),
    "a prompt id beyond bounds": (lambda data: with_head(data, prompt=[1 << 70]), "expected a head"),
    "a field that there is not": (lambda data: with_head(data, colour="red"), "expected a head"),
    "parameters that there are not": (lambda data: with_head(data, params={"heat": 1}), "parameters that there are"),
    "a list as temperature": (lambda data: with_head(data, params={"temperature": []}), "expected numbers"),
    "half a seed": (lambda data: with_head(data, params={"seed": 0.5}), "expected numbers"),
    "a number as logit_bias": (lambda data: with_head(data, params={"logit_bias": 1}), "expected numbers"),
    "a temperature below 0": (lambda data: with_head(data, params={"temperature": -1}), "temperature"),
    "a cut row": (lambda data: data[:-100], "expected"),
    "a call that there is not": (lambda data: data + b'{"call":"dance"}\n', "expected a call"),
    "a slot beyond bounds": (lambda data: data + b'{"call":"close_slot","slots":[64]}\n', "expected a call"),
    "a slot that is not there": (lambda data: data + b'{"call":"close_slot","slots":[9]}\n', "slot below 2"),
    "an id beyond the vocabulary": (
        lambda data: data + b'{"call":"accept","slots":[1],"tokens":[99]}\n',
        "token below 48",
    ),
    "a line without end": (lambda data: data + b"x" * (5 << 20), "whole lines"),
}


@pytest.mark.parametrize("name", BENT)
def test_bent_file_is_a_clear_error(name, good, standard):
    bend, words = BENT[name]
    with pytest.raises(SandboxError, match=words):
        replayed(standard, bend(good))


def test_any_change_of_a_byte_is_an_error_a_difference_or_no_matter(good, standard):
    numbers = np.random.default_rng(3)
    for _ in range(300):
        data = bytearray(good)
        for at in numbers.integers(0, len(data), numbers.integers(1, 4)):
            data[at] = numbers.integers(0, 256)
        try:
            replayed(standard, bytes(data[: numbers.integers(1, len(data) + 1)]))
        except SandboxError:
            continue
