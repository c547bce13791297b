"""The sampler's proxy: the row that a guest sees, the answers that a host takes."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from sealhost.sandbox import AdmissionError, Decision, GuestError, SamplingParams, SandboxError
from sealhost.sandbox.randomness import draw
from sealhost.sandbox.sampling import sample

VOCABULARY = 260


@pytest.fixture(scope="module")
def argmax_sampler(sandbox, build_guest):
    return sandbox.load_sampler(build_guest("sampler"), VOCABULARY)


def answering(action: int, extra: str = "") -> str:
    return f"""(func (export "step") (param i32) (result i32)
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const {action})) {extra} (i32.const 0))"""


ECHO = {"row": (8192, 96), "history": (8448, 32), "bias": (8704, 16), "config": (9216, 16)}
"""Areas that the host writes: where they lie and how many of their bytes are looked at."""


def echo_guest(area: str) -> str:
    """Answers each byte of an area as a token, one a step: token = byte at the number of steps so far."""
    start, _ = ECHO[area]
    return f"""(global $at (mut i32) (i32.const 0))
    (func (export "step") (param i32) (result i32)
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328) (i32.load8_u offset={start} (global.get $at)))
      (global.set $at (i32.add (global.get $at) (i32.const 1)))
      (i32.const 0))"""


def echoed(sandbox, build_guest, area, params, prompt, **session):
    _, size = ECHO[area]
    guest = build_guest("sampler", echo_guest(area))
    guest = replace(guest, limits=replace(guest.limits, step_ms=10_000))  # a busy machine is no failure of its
    with sandbox.load_sampler(guest, VOCABULARY).session(params, prompt, **session) as s:
        return bytes(s.step()[0].tokens[0] for _ in range(size))


def test_session_takes_the_largest_logit_and_goes_on(argmax_sampler):
    with argmax_sampler.session(SamplingParams(), [1, 2, 3]) as session:
        for token in (7, 0, 259):
            session.logits(0)[:] = -1
            session.logits(0)[token] = 5
            assert session.step() == [Decision((token,))]
            session.accept(0, (token,))


def test_facts_are_those_of_the_plugin(argmax_sampler, build_guest):
    assert argmax_sampler.name == "guest"
    assert argmax_sampler.sha256 == build_guest("sampler").sha256
    assert argmax_sampler.limits.step_ms == 50
    assert argmax_sampler.history_capacity == 64
    assert argmax_sampler.vocab_size == VOCABULARY


def test_logits_address_is_a_page_of_the_guests_own_memory(argmax_sampler):
    with argmax_sampler.session(SamplingParams(), []) as session:
        logits = session.logits(0)
        assert session.logits_address(0) % 4096 == 0
        assert logits.ctypes.data == session.logits_address(0)
        assert logits.shape == (VOCABULARY,)
        assert logits.dtype == np.float32
        assert not logits.flags.owndata


def test_row_carries_every_parameter(sandbox, build_guest):
    params = SamplingParams(0.5, 40, 0.75, 0.125, 1.5, 0.25, -0.5, ((3, -1.0), (4, -math.inf)), seed=2**64 - 1)
    raw = echoed(sandbox, build_guest, "row", params, [9, 8], choices=(3,), config=b"{}")
    fields = struct.unpack("<4I2Q4Ifi5f5I", raw)
    assert fields[0:2] == (96, 0)
    assert fields[3] == VOCABULARY
    assert fields[4:6] == draw(2**64 - 1, 3, 2)
    assert fields[6:10] == (2, 2, 2, 2)
    assert fields[10:] == (0.5, 40, 0.75, 0.125, 1.5, 0.25, -0.5, 0, 0, 0, 0, 0)


def test_history_bias_and_config_lie_where_the_layout_says(sandbox, build_guest):
    params = SamplingParams(logit_bias=((3, -1.0), (4, -math.inf)))
    history = echoed(sandbox, build_guest, "history", params, [9, 8, 259])
    assert np.frombuffer(history, "<u4").tolist() == [9, 8, 259, 0, 0, 0, 0, 0]
    assert echoed(sandbox, build_guest, "bias", params, []) == struct.pack("<IfIf", 3, -1, 4, -math.inf)
    assert echoed(sandbox, build_guest, "config", params, [], config=b'{"a": 1}') == b'{"a": 1}'.ljust(16, b"\0")


def test_flags_say_new_then_accept_then_nothing(sandbox, build_guest):
    text = answering(1, "(i32.store (i32.const 8328) (i32.load (i32.const 8200)))")
    with sandbox.load_sampler(build_guest("sampler", text), VOCABULARY).session(SamplingParams(), [1]) as session:
        assert session.step()[0].tokens[0] == 1 | 4
        session.accept(0, (5,))
        assert session.step()[0].tokens[0] == 2 | 4
        assert session.step()[0].tokens[0] == 4


def test_history_grows_by_what_is_accepted_and_randomness_follows(sandbox, build_guest):
    text = answering(
        1, "(i32.store (i32.const 8328) (i32.load offset=8444 (i32.shl (i32.load (i32.const 8228)) (i32.const 2))))"
    )
    with sandbox.load_sampler(build_guest("sampler", text), VOCABULARY).session(SamplingParams(), [11]) as session:
        for token in (12, 13, 14):
            session.accept(0, (token,))
            assert session.step()[0].tokens[0] == token


def test_a_result_of_a_later_minor_may_be_longer_and_an_id_of_it_is_held_to_the_vocabulary(sandbox, build_guest):
    longer = answering(1, "(i32.store (i32.const 8320) (i32.const 24)) (i32.store (i32.const 8328) (i32.const 259))")
    with sandbox.load_sampler(build_guest("sampler", longer), VOCABULARY).session(SamplingParams(), []) as session:
        assert session.step() == [Decision((259,))]
    past = sandbox.load_sampler(build_guest("sampler", longer), 259)
    with past.session(SamplingParams(), []) as session, pytest.raises(GuestError, match="below 259, got 259"):
        session.step()


def test_stop_ends_the_choice(sandbox, build_guest):
    with sandbox.load_sampler(build_guest("sampler", answering(6)), VOCABULARY).session(
        SamplingParams(), []
    ) as session:
        assert session.step() == [Decision((), stop=True)]


@pytest.mark.parametrize("action", [2, 3])
def test_pass_and_edited_go_through_the_hosts_sampler(action, sandbox, build_guest):
    params = SamplingParams(temperature=0.8, top_p=0.9, presence_penalty=1.0, seed=5)
    edit = "(f32.store (i32.const 4100) (f32.const 3))" if action == 3 else ""
    with sandbox.load_sampler(build_guest("sampler", answering(action, edit)), VOCABULARY).session(
        params, [1, 2], choices=(1,)
    ) as session:
        logits = np.random.default_rng(1).normal(size=VOCABULARY).astype(np.float32)
        history = [1, 2]
        for _ in range(20):
            session.logits(0)[:] = logits
            token = session.step()[0].tokens[0]
            if action == 3:
                logits[1] = 3
            word = draw(5, 1, len(history))[0]
            assert token == sample(logits, params, np.array(history, np.uint32), 2, word)
            session.accept(0, (token,))
            history.append(token)


def test_edited_nan_is_invalid_but_the_models_own_nan_is_skipped(sandbox, build_guest):
    for action in (2, 3):
        sampler = sandbox.load_sampler(build_guest("sampler", answering(action)), VOCABULARY)
        with sampler.session(SamplingParams(temperature=0), []) as session:
            session.logits(0)[:] = math.nan
            session.logits(0)[7] = -3
            if action == 2:
                assert session.step()[0].tokens[0] == 7
            else:
                with pytest.raises(GuestError, match="NaN") as caught:
                    session.step()
                assert caught.value.kind == "invalid"


def test_row_without_a_candidate_is_empty_when_the_host_samples(sandbox, build_guest):
    with sandbox.load_sampler(build_guest("sampler", answering(2)), VOCABULARY).session(
        SamplingParams(), []
    ) as session:
        session.logits(0)[:] = -math.inf
        with pytest.raises(GuestError, match="the logits") as caught:
            session.step()
        assert caught.value.kind == "empty"


def test_guests_own_words_are_shown_escaped(sandbox, build_guest):
    text = """(data (i32.const 10240) "bad \\1b[31m config")
      (func (export "step") (param i32) (result i32) (i32.const -0x40000001))"""
    sampler = sandbox.load_sampler(build_guest("sampler", text), VOCABULARY)
    with sampler.session(SamplingParams(), []) as session, pytest.raises(GuestError) as caught:
        session.step()
    assert caught.value.kind == "config"
    assert caught.value.plugin == "guest"
    assert 'ERROR_CONFIG: "bad \\x1b[31m config"' in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prompt_ids": [VOCABULARY]}, "prompt ids within 0..259"),
        ({"prompt_ids": [-1]}, "prompt ids within 0..259"),
        ({"prompt_ids": [1] * 65}, "at most 64 ids of history, got 65"),
        ({"config": bytes(129)}, "at most 128 bytes of config, got 129"),
        ({"params": SamplingParams(logit_bias=((1, 1.0),) * 9)}, "at most 8 logit_bias entries, got 9"),
        ({"params": SamplingParams(logit_bias=((VOCABULARY, 1.0),))}, "logit_bias ids below 260, got 260"),
    ],
)
def test_request_over_the_guests_capacity_is_refused_with_the_limit(arguments, words, argmax_sampler):
    with pytest.raises(SandboxError, match=words):
        argmax_sampler.session(**({"params": SamplingParams(), "prompt_ids": []} | arguments))


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
def test_token_out_of_range_is_not_accepted(token, argmax_sampler):
    with argmax_sampler.session(SamplingParams(), []) as session, pytest.raises(SandboxError, match="below 260"):
        session.accept(0, (token,))


def test_full_history_takes_no_more(argmax_sampler):
    with argmax_sampler.session(SamplingParams(), [1] * 63) as session:
        session.accept(0, (1,))
        with pytest.raises(SandboxError, match="at most 64 ids of history"):
            session.accept(0, (1,))


def test_vocabulary_larger_than_a_row_is_refused_at_load(sandbox, build_guest):
    sandbox.load_sampler(build_guest("sampler"), 512)
    with pytest.raises(AdmissionError, match="room for 513 logits") as caught:
        sandbox.load_sampler(build_guest("sampler"), 513)
    assert caught.value.clause == "1.15"


def test_tokenizer_cannot_be_loaded_as_a_sampler(sandbox, build_guest):
    with pytest.raises(AdmissionError, match="expected a sampler, got a tokenizer"):
        sandbox.load_sampler(build_guest("tokenizer"), 10)


def test_closed_session_refuses_everything(argmax_sampler):
    session = argmax_sampler.session(SamplingParams(), [])
    session.close()
    session.close()
    uses = (
        session.step, lambda: session.accept(0, (1,)), lambda: session.logits(0), lambda: session.logits_address(0),
        lambda: session.close_slot(0), session.reset,
    )  # fmt: skip
    for use in uses:
        with pytest.raises(SandboxError, match="closed"):
            use()


def test_failed_session_is_dead_and_its_neighbours_are_not(sandbox, build_guest, argmax_sampler):
    text = '(func (export "step") (param i32) (result i32) (unreachable))'
    with (
        argmax_sampler.session(SamplingParams(), []) as neighbour,
        sandbox.load_sampler(build_guest("sampler", text), VOCABULARY).session(SamplingParams(), []) as session,
    ):
        with pytest.raises(GuestError, match="unreachable"):
            session.step()
        with pytest.raises(SandboxError, match="one that trapped"):
            session.step()
        neighbour.logits(0)[3] = 1
        assert neighbour.step()[0].tokens[0] == 3


def test_sessions_do_not_see_each_other(sandbox, build_guest):
    text = """(global $steps (mut i32) (i32.const 0))
    (func (export "step") (param i32) (result i32)
      (global.set $steps (i32.add (global.get $steps) (i32.const 1)))
      (i32.store (i32.const 70000) (i32.add (i32.load (i32.const 70000)) (i32.const 1)))
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328) (i32.mul (global.get $steps) (i32.load (i32.const 70000)))) (i32.const 0))"""
    sampler = sandbox.load_sampler(build_guest("sampler", text), VOCABULARY)
    with sampler.session(SamplingParams(), []) as one, sampler.session(SamplingParams(), []) as two:
        assert [one.step()[0].tokens[0], one.step()[0].tokens[0], two.step()[0].tokens[0], one.step()[0].tokens[0]] == [
            1,
            4,
            1,
            9,
        ]


def test_state_after_init_is_where_sessions_start(sandbox, build_guest):
    text = """(global $n (mut i32) (i32.const 1))
    (func (export "init") (result i32) (global.set $n (i32.const 41)) (i32.store (i32.const 131068) (i32.const 1)) (i32.const 0))
    (func (export "step") (param i32) (result i32)
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328) (i32.add (global.get $n) (i32.load (i32.const 131068)))) (i32.const 0))"""
    with sandbox.load_sampler(build_guest("sampler", text), VOCABULARY).session(SamplingParams(), []) as session:
        assert session.step()[0].tokens[0] == 42


def test_passive_segments_keep_their_numbers_in_the_snapshot(sandbox, build_guest):
    text = """(data (i32.const 200) "active") (data $p "*passive")
    (func (export "step") (param i32) (result i32)
      (memory.init $p (i32.const 300) (i32.const 0) (i32.const 8))
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328) (i32.add (i32.load8_u (i32.const 300)) (i32.load8_u (i32.const 200)))) (i32.const 0))"""
    with sandbox.load_sampler(build_guest("sampler", text), VOCABULARY).session(SamplingParams(), []) as session:
        assert session.step()[0].tokens[0] == ord("*") + ord("a")
