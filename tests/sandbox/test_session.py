"""Sessions with slots: what the guest is told, what the tiers see, what its log says."""

from __future__ import annotations

import logging
import math
import struct

import numpy as np
import pytest
from puppetry import ACCEPT, CLOSE, FORK, GREEDY, NEW, SAMPLE, VOCABULARY, mask, refused, rising

from sealhost.sandbox import Decision, GuestError, SamplingParams, SandboxError
from sealhost.sandbox.abi import Action
from sealhost.sandbox.randomness import draw
from sealhost.sandbox.slot import AHEAD

# ---- slots


def test_slots_are_announced_before_the_first_answer(puppet, puppeteer):
    with puppet().session(GREEDY, [7, 8], choices=(4, 9, 2), config=puppeteer.says(Action.TOKEN, 5)) as session:
        assert session.step((0, 1, 2)) == [Decision((5,))] * 3
        first, second = puppeteer.was_told(session)
    assert [(row["slot"], row["flags"], row["parent"]) for row in first] == [(0, NEW, 0), (1, FORK, 0), (2, FORK, 0)]
    assert [(row["slot"], row["flags"]) for row in second] == [(0, SAMPLE), (1, SAMPLE), (2, SAMPLE)]
    assert [(row["random_0"], row["random_1"]) for row in second] == [draw(0, choice, 2) for choice in (4, 9, 2)]
    assert {(row["prompt_length"], row["history_length"]) for row in first + second} == {(2, 2)}


def test_one_slot_is_announced_by_its_first_question(puppet, puppeteer):
    with puppet().session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 5)) as session:
        session.step()
        ((row,),) = puppeteer.was_told(session)
    assert (row["flags"], row["taken_back"], row["appended"]) == (NEW | SAMPLE, 0, 0)


@pytest.mark.parametrize("choices", [(0,), (0, 1, 2)])
def test_a_status_that_is_no_success_costs_all_choices_of_a_sandbox(choices, sandbox, build_guest):
    text = """(func (export "step") (param i32) (result i32)
        (if (i32.and (i32.load8_u offset=20488 (i32.const 0)) (i32.const 4)) (then (return (i32.const 7))))
        (i32.const 0))"""
    areas = {"max_rows": 4, "rows": 20480, "results": 20992, "history": 21504, "logits": 32768}
    plugin = sandbox.load_sampler(build_guest("sampler", text, **areas), 260)
    with plugin.session(GREEDY, [7], choices=choices) as session:
        with pytest.raises(GuestError, match="expected status 0 or an error from step, got 7"):
            session.step(choices)
        for slot in choices:
            with pytest.raises(SandboxError, match="answered what it may not"):
                session.step((slot,))


def test_slots_have_their_own_logits_and_histories(puppet, puppeteer):
    with puppet().session(GREEDY, [7], choices=(0, 1), config=puppeteer.says(Action.PASS)) as session:
        session.logits(0)[3] = session.logits(1)[4] = 1
        assert session.logits_address(1) - session.logits_address(0) == 4096
        assert session.step((1, 0)) == [Decision((4,)), Decision((3,))]
        session.accept(1, (4,))
        session.accept(0, (3, 3))
        session.step((0, 1))
        assert [row["history_length"] for row in puppeteer.was_told(session)[-1]] == [3, 2]
        history = session._instance.memory.array(21504, 128, np.uint32)
        assert history[:3].tolist() == [7, 3, 3]
        assert history[64:66].tolist() == [7, 4]


def test_row_tells_what_changed_since_the_last_row_of_its_slot(puppet, puppeteer):
    with puppet().session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 5)) as session:
        session.accept(0, (1, 2, 3))
        session.step()
        session.accept(0, (4,), backtrack=2)
        session.accept(0, (5, 6))
        session.accept(0, (), backtrack=1)
        session.step()
        session.step()
        told = [call[0] for call in puppeteer.was_told(session)]
    assert [(row["flags"], row["taken_back"], row["appended"]) for row in told] == [
        (NEW | ACCEPT | SAMPLE, 0, 3), (ACCEPT | SAMPLE, 2, 2), (SAMPLE, 0, 0),
    ]  # fmt: skip
    assert [row["backtrack_room"] for row in told] == [3, 3, 3]
    assert [row["history_length"] for row in told] == [4, 4, 4]


def test_randomness_is_that_of_the_position_wherever_the_history_goes(puppet, puppeteer):
    params = SamplingParams(temperature=0, seed=3)
    positions = []
    with puppet().session(params, [7], choices=(2,), config=puppeteer.says(Action.TOKEN, 5)) as session:
        for grown, backtrack in ((1, 0), (AHEAD - 1, 0), (1, 0), (0, 4), (2 * AHEAD, 0), (0, 1), (1, 0)):
            session.accept(0, (5,) * grown, backtrack)
            session.step()
            positions.append(session._slots[0].length)
        session.reset()
        session.step()
        told = [call[0] for call in puppeteer.was_told(session)]
    assert [row["history_length"] for row in told] == [*positions, 1]
    assert [(row["random_0"], row["random_1"]) for row in told] == [draw(3, 2, at) for at in (*positions, 1)]


def test_closed_slot_is_told_once_and_takes_no_more_part(puppet, puppeteer):
    with puppet().session(GREEDY, [7], choices=(0, 1), config=puppeteer.says(Action.TOKEN, 5)) as session:
        session.step((0, 1))
        session.close_slot(0)
        session.close_slot(0)
        for use in (lambda: session.step((0,)), lambda: session.accept(0, (1,)), lambda: session.logits(0)):
            with pytest.raises(SandboxError, match="which is closed"):
                use()
        session.step((1,))
        session.step((1,))
        told = puppeteer.was_told(session)[2:]
    assert [[(row["slot"], row["flags"]) for row in call] for call in told] == [
        [(1, SAMPLE), (0, CLOSE)],
        [(1, SAMPLE)],
    ]


@pytest.mark.parametrize("slots", [(2,), (-1,), (0, 5)])
def test_slot_that_is_not_there_is_the_callers_mistake(slots, puppet, puppeteer):
    with puppet().session(GREEDY, [7], choices=(0, 1), config=puppeteer.says(Action.TOKEN, 5)) as session:
        uses = (session.step, session.prepare) if slots != (0, 5) else (session.step,)
        for use in uses[:1]:
            with pytest.raises(SandboxError, match="slot below 2"):
                use(slots)
        with pytest.raises(SandboxError, match="slot below 2"):
            session.close_slot(slots[-1])
        assert session.step((0,)) == [Decision((5,))]


def test_slot_twice_in_a_step_is_the_callers_mistake(puppet, puppeteer):
    with (
        puppet().session(GREEDY, [7], choices=(0, 1), config=puppeteer.says(Action.TOKEN, 5)) as session,
        pytest.raises(SandboxError, match="each slot once"),
    ):
        session.step((1, 1))


@pytest.mark.parametrize("choices", [(), (0, 1, 2, 3, 4)])
def test_more_choices_than_slots_are_refused_with_their_number(choices, puppet):
    with pytest.raises(SandboxError, match=f"1 to 4 choices in a session, got {len(choices)}"):
        puppet().session(GREEDY, [7], choices=choices)


@pytest.mark.parametrize("backtrack", [3, -1])
def test_more_than_was_generated_is_not_taken_back(backtrack, puppet):
    with puppet().session(GREEDY, [7]) as session:
        session.accept(0, (1, 2))
        with pytest.raises(SandboxError, match="take back at most 2 ids"):
            session.accept(0, (), backtrack)


def test_id_stands_for_good_once_enough_ids_have_ever_followed_it(puppet, puppeteer):
    with puppet().session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 5)) as session:
        rooms = []
        for tokens, backtrack in (((1,) * 6, 0), ((), 3), ((2, 2), 0), ((2,), 3), ((), 1), ((3,) * 9, 0)):
            session.accept(0, tokens, backtrack)
            session.step()
            rooms.append(puppeteer.was_told(session)[-1][0]["backtrack_room"])
        assert rooms == [4, 1, 3, 1, 0, 4]
        with pytest.raises(SandboxError, match="take back at most 4 ids, got 5"):
            session.accept(0, (), 5)


# ---- the tiers' own ways


@pytest.mark.parametrize("tier", ["topk:4", "mask"])
def test_logits_of_the_other_tiers_are_the_hosts_own(tier, puppet, puppeteer):
    with puppet(tier).session(GREEDY, [7], choices=(0, 1), config=puppeteer.says(Action.PASS)) as session:
        assert session.logits_address(0) % 4096 == session.logits_address(1) % 4096 == 0
        assert session.logits(1).ctypes.data == session.logits_address(1)
        session.logits(0)[3] = session.logits(1)[4] = 1
        session.prepare((0, 1))
        assert session.step((0, 1)) == [Decision((3,)), Decision((4,))]
        memory = session._instance.memory
        assert not memory.address <= session.logits_address(0) < memory.address + memory.size


def test_mask_tier_is_asked_once_before_the_logits_exist(puppet, puppeteer):
    config = puppeteer.says(Action.MASK, answer=mask(3, 9))
    with puppet("mask").session(GREEDY, [7], choices=(0, 1), config=config) as session:
        session.prepare((0, 1))
        session.prepare((1, 0))
        assert len(puppeteer.was_told(session)) == 2
        session.logits(0)[3] = session.logits(1)[9] = 1
        assert session.step((0, 1)) == [Decision((3,)), Decision((9,))]
        assert len(puppeteer.was_told(session)) == 2
        session.accept(0, (3,))
        session.prepare((0,))
        session.accept(0, (4,), backtrack=1)  # the answer was for another history
        session.prepare((0,))
        assert len(puppeteer.was_told(session)) == 4


def test_mask_tier_that_was_not_prepared_is_asked_in_the_step(puppet, puppeteer):
    with puppet("mask").session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 8)) as session:
        assert session.step() == [Decision((8,))]
        assert len(puppeteer.was_told(session)) == 1


def test_other_tiers_prepare_nothing(puppet, puppeteer):
    with puppet("full").session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 8)) as session:
        session.prepare((0,))
        assert puppeteer.was_told(session) == []


def test_guest_that_fails_while_preparing_ends_its_session(puppet, puppeteer):
    with puppet("mask").session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 999)) as session:
        with pytest.raises(GuestError, match="below 260"):
            session.prepare((0,))
        with pytest.raises(SandboxError, match="live instance"):
            session.prepare((0,))


def test_candidates_are_the_best_in_order_and_lower_ids_first(puppet, puppeteer):
    with puppet("topk:4").session(GREEDY, [7], choices=(0, 1), config=puppeteer.says(Action.TOKEN, 8)) as session:
        session.logits(0)[:] = -5
        session.logits(0)[[200, 100, 50]] = (3, math.inf, 3)
        session.logits(1)[:] = math.nan
        session.logits(1)[9] = -1
        session.step((0, 1))
        raw = session._instance.memory.read(53248, 2 * 16 * 8)
        told = puppeteer.was_told(session)[-1]
    assert struct.unpack("<IfIfIfIf", raw[:32]) == (100, math.inf, 50, 3.0, 200, 3.0, 0, -5.0)
    assert struct.unpack("<If", raw[128:136]) == (9, -1.0)
    assert [row["candidate_count"] for row in told] == [4, 1]


EDITING = """(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 20992) (i32.const 16)) (i32.store (i32.const 20996) (i32.const 3)) {} (i32.const 0))"""


def edited(sandbox, build_guest, edit: str, params=GREEDY) -> list[Decision]:
    areas = {
        "rows": 20480, "results": 20992, "history": 21504, "logits": 0, "logits_stride": 0, "candidates": 53248,
        "candidate_capacity": 4,
    }  # fmt: skip
    guest = build_guest("sampler", EDITING.format(edit), tier="topk:4", **areas)
    with sandbox.load_sampler(guest, VOCABULARY).session(params, [7]) as session:
        rising(session)
        return session.step()


def test_edited_candidates_are_what_the_host_draws_from(sandbox, build_guest):
    lowers_the_best = "(f32.store (i32.const 53252) (f32.const -inf))"
    assert edited(sandbox, build_guest, lowers_the_best) == [Decision((258,))]
    names_another = "(i32.store (i32.const 53248) (i32.const 3))"
    assert edited(sandbox, build_guest, names_another) == [Decision((3,))]
    penalised = SamplingParams(temperature=0, logit_bias=((259, -100.0), (3, 1000.0)), presence_penalty=1.0)
    assert edited(sandbox, build_guest, "", penalised) == [Decision((258,))]


@pytest.mark.parametrize(
    ("edit", "kind", "words"),
    [
        ("(i32.store (i32.const 53248) (i32.const 260))", "invalid", "candidates below 260, got 260"),
        ("(i32.store (i32.const 53248) (i32.const 258))", "invalid", "one twice"),
        ("(f32.store (i32.const 53252) (f32.const nan))", "invalid", "NaN"),
        *[
            (
                " ".join(f"(f32.store (i32.const {53252 + 8 * i}) (f32.const -inf))" for i in range(4)),
                "empty",
                "the guest left",
            )
        ],
    ],
)
def test_candidates_edited_to_nonsense_cost_the_session(edit, kind, words, sandbox, build_guest):
    with pytest.raises(GuestError, match=words) as caught:
        edited(sandbox, build_guest, edit)
    assert caught.value.kind == kind


def test_row_without_candidates_leaves_nothing_to_edit(puppet, puppeteer):
    nothing = np.full(VOCABULARY, math.nan, np.float32)
    assert refused(puppet("topk:4"), puppeteer.says(Action.EDITED), logits=nothing).kind == "empty"


def test_long_words_of_a_guest_keep_their_end(sandbox, build_guest):
    text = f"""(data (i32.const 10240) "step: expected {"one of many, " * 15}got seven")
      (func (export "step") (param i32) (result i32) (i32.const -0x40000003))"""
    with (
        sandbox.load_sampler(build_guest("sampler", text, error_capacity=512), VOCABULARY).session(
            GREEDY, []
        ) as session,
        pytest.raises(GuestError, match=r'ERROR_INPUT: "step: expected one of many.*….*one of many, got seven"'),
    ):
        session.step()


# ---- the log


def test_log_is_told_once_and_with_what_was_lost(puppet, puppeteer):
    with puppet().session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 8, log=b"one \x1b[31m line")) as session:
        assert session.log() == ""
        session.step()
        assert session.log() == "one \x1b[31m line"
        assert session.log() == ""
        session._instance.memory.pack(struct.Struct("<I"), 57344, 5000)
        assert session.log().startswith("[890 bytes lost] ")
    with puppet(log=0).session(GREEDY, [7], config=puppeteer.says(Action.TOKEN, 8)) as session:
        session.step()
        assert session.log() == ""


def test_failure_tells_the_end_of_the_log_escaped(puppet, puppeteer):
    error = refused(puppet(), puppeteer.says(Action.TOKEN, 999, log=b"first\nlast \x1b[31m"))
    assert 'its log ends with "first\\nlast \\x1b[31m"' in str(error)
    assert str(error).isprintable()


def test_flood_of_log_lines_is_bounded(puppet, puppeteer, caplog):
    caplog.set_level(logging.DEBUG, "sealhost.sandbox.session")
    flood = puppeteer.says(Action.TOKEN, 8, log=b"tell\x07me\n" * 80)
    with puppet().session(GREEDY, [7], config=flood) as session:
        for _ in range(400):
            session._instance.memory.pack(struct.Struct("<I"), 57344, 0)
            session._log._seen = 0
            session._instance.memory.pack(struct.Struct("<I"), 98304, 0)
            session.step()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "plugin guest: tell\\x07me"
    assert 64_000 < sum(len(line.removeprefix("plugin guest: ")) for line in said) < 100_000
