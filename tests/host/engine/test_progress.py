"""Ids that a guest appends several at a time or takes back: exact ends, no trace, bounded work."""

from __future__ import annotations

import pytest

from sealhost.host.engine.request import ErrorEvent, FinishEvent, TokenEvent


def playing(twin, *moves, **more):
    """A sampler that answers with these decisions one after the other, then with the likeliest id."""

    def act(slot):
        return moves[slot.steps] if slot.steps < len(moves) else twin.greedy(slot)

    return twin.Sampler(act, **{"max_backtrack": 4, **more})


def text(twin, letters: str, backtrack: int = 0):
    return twin.Decision(tuple(letters.encode()), backtrack)


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize(
    ("letters", "more", "shown", "tokens", "reason", "completion"),
    [
        ("abcdef", {"max_tokens": 3}, "abc", "abc", "length", 3),
        ("abcdef", {"max_tokens": 6}, "abcdef", "abcdef", "length", 6),
        ("abcdef", {"stop_ids": frozenset(b"d")}, "abc", "abc", "stop", 4),
        ("abcdef", {"stop_ids": frozenset(b"a")}, "", "", "stop", 1),
        ("abcdef", {"stop": ("cd",)}, "ab", "abcd", "stop", 4),
        ("abcdef", {"stop": ("f",)}, "abcde", "abcdef", "stop", 6),
        ("abcdef", {"stop": ("cd",), "max_tokens": 3}, "abc", "abc", "length", 3),
        ("abcdef", {"stop": ("d",), "stop_ids": frozenset(b"c")}, "ab", "ab", "stop", 3),
    ],
)
def test_a_run_of_ids_ends_at_the_very_id_that_completes_the_answer(
    *, twin, letters, more, shown, tokens, reason, completion, depth
):
    house = twin.House(sampler=playing(twin, text(twin, letters), max_backtrack=depth))
    request = twin.request("a", [1], **{"max_tokens": 99, **more})
    for logprobs in (None, 0):
        (client,) = twin.run(house, [twin.request("a", [1], request.max_tokens, stop=request.stop,
                                                  stop_ids=request.stop_ids, logprobs=logprobs)])  # fmt: skip
        assert (client.text, bytes(client.tokens)) == (shown, tokens.encode())
        assert (client.last.reason, client.last.completion_tokens) == (reason, completion)


def test_a_run_of_ids_is_prefilled_in_one_step_and_the_model_goes_on_behind_it(twin):
    house = twin.House(sampler=playing(twin, text(twin, "abcde"), max_backtrack=0))
    (client,) = twin.run(house, [twin.request("a", [1, 2], 8)])
    assert bytes(client.tokens[:5]) == b"abcde"
    assert client.tokens[5:] == twin.answer([1, 2, *b"abcde"], 3)
    assert [step[0][:2] for step in house.model.steps] == [(0, 2), (2, 5), (7, 1), (8, 1)]
    (slot,) = house.sampler.slots
    assert slot.accepted == client.tokens[:7]


def test_a_run_longer_than_a_step_comes_in_chunks_and_takes_blocks_as_it_needs_them(twin):
    house = twin.House(sampler=playing(twin, text(twin, "x" * 40)), blocks=4)
    (client,) = twin.run(house, [twin.request("a", [1], 50)], step_tokens=16, max_sequences=2, chunk_beside_decode=8)
    assert client.tokens == [*b"x" * 40, *twin.answer([1, *b"x" * 40], 10)]
    assert [step[0][:2] for step in house.model.steps][:5] == [(0, 1), (1, 16), (17, 16), (33, 8), (41, 1)]


def test_log_probabilities_of_a_run_are_the_models_own_at_each_place(twin):
    house = twin.House(sampler=playing(twin, text(twin, "ab"), text(twin, "cd", 1)))
    (client,) = twin.run(house, [twin.request("a", [1], 5, logprobs=1)])
    assert bytes(client.tokens[:3]) == b"acd"
    ids = [1]
    for event in client.events[:-1]:
        assert event.logprobs.token == event.token
        assert event.logprobs.top[0][0] == twin.hashed(ids)
        ids.append(event.token)


def test_what_is_taken_back_leaves_no_trace(twin):
    sampler = playing(twin, text(twin, "sto"), text(twin, "ay", 1), twin.Decision((), 2))
    house = twin.House(sampler=sampler)
    (client,) = twin.run(house, [twin.request("a", [1], 5, stop=("stop", "no"))])
    assert client.tokens == [*b"st", *twin.answer([1, *b"st"], 3)]
    assert client.text == "st" + bytes(client.tokens[2:]).decode("utf-8", "replace")
    assert client.last == FinishEvent("a", "length", client.last.text, 1, 5)
    (slot,) = house.sampler.slots
    assert slot.accepted == client.tokens[:4]


@pytest.mark.parametrize("first", [b"\xe2\x82", b"END?", b"x"])
def test_text_goes_on_as_if_what_was_taken_back_had_never_been(twin, first):
    house = twin.House(sampler=playing(twin, twin.Decision(tuple(first)), text(twin, "ENDE", len(first))))
    (client,) = twin.run(house, [twin.request("a", [1], 60, stop=("ENDED", "?"))])
    if first == b"END?":
        assert (client.text, client.last.completion_tokens) == ("END", 4)  # the stop text ended it at once
    else:
        assert client.text.startswith("ENDE")


def test_an_id_is_told_once_it_can_no_longer_be_taken_back(twin):
    house = twin.House(sampler=playing(twin, max_backtrack=3))
    core, client = house.core(), twin.Client()
    core.add(twin.request("a", [1], 7), client)
    seen = []
    for _ in range(7):
        core.turn()
        seen.append(len([one for one in client.events if isinstance(one, TokenEvent)]))
    assert seen == [0, 0, 0, 1, 2, 3, 7]
    assert client.tokens == twin.answer([1], 7)


def test_blocks_of_ids_that_were_taken_back_are_free_at_once(twin):
    house = twin.House(sampler=playing(twin, text(twin, "x" * 40), twin.Decision((), 40), max_backtrack=40), blocks=8)
    core, client, used = house.core(), twin.Client(), []
    core.add(twin.request("a", [1], 60), client)
    for _ in range(4):
        core.turn()
        core.pool.check()
        used.append(core.pool.used)
    assert house.model.steps[1] == [(1, 40, False)]
    assert used == [1, 1, 1, 1]  # taken for the run, given back in the same turn
    twin.drain(core)
    assert client.tokens == twin.answer([1], 60)
    twin.leaves_nothing(core, house)


def test_a_guest_may_take_back_and_stop_in_one_answer(twin):
    house = twin.House(sampler=playing(twin, text(twin, "abc"), twin.Decision((), 2, stop=True)))
    (client,) = twin.run(house, [twin.request("a", [1], 9)])
    assert (client.text, client.last.reason, client.last.completion_tokens) == ("a", "stop", 1)


@pytest.mark.parametrize(
    ("moves", "depth", "words"),
    [
        ([("", 1)], 4, "expected at most 0 ids to take back, which nobody has seen yet, got 1"),
        ([("ab", 0), ("", 3)], 4, "expected at most 2 ids to take back"),
        ([("abcdefgh", 0), ("", 4), ("", 1)], 4, "expected at most 0 ids to take back"),
        ([("ab", 0), ("", 1)], 0, "expected at most 0 ids to take back"),
        ([("ab", 0), ("", -1)], 4, "expected at most 2 ids to take back, which nobody has seen yet, got -1"),
        ([("", 0)], 4, "got an answer of nothing"),
    ],
)
def test_an_answer_that_breaks_the_rules_costs_its_request_an_error(twin, moves, depth, words):
    decisions = [text(twin, letters, back) for letters, back in moves]
    house = twin.House(sampler=playing(twin, *decisions, max_backtrack=depth))
    (client,) = twin.run(house, [twin.request("a", [1], 20)])
    assert isinstance(client.last, ErrorEvent)
    assert client.last.error.code == "E_PLUGIN"
    assert words in str(client.last.error)


def test_a_guest_that_goes_back_and_forth_for_ever_ends(twin):
    house = twin.House(sampler=twin.Sampler(lambda slot: text(twin, "ab", 2 if slot.accepted else 0), max_backtrack=2))
    (client,) = twin.run(house, [twin.request("a", [1], 10)])
    assert "expected at most 104 ids taken back by one choice in all, got 106" in str(client.last.error)
    assert len(house.model.steps) == 54
