"""Random lives of requests: whatever happens when, the pool is whole after every turn and what stands equals a simple model."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sealhost.host.engine.request import ChoiceGroup, ErrorEvent, FinishEvent
from sealhost.host.errors import InternalError
from sealhost.sandbox import GuestError

MOVE = st.one_of(
    st.just(("draw",)),
    st.tuples(st.just("forward"), st.integers(1, 20)),
    st.tuples(st.just("back"), st.integers(1, 6), st.integers(0, 5)),
)
LIFE = st.fixed_dictionaries(
    {
        "arrives": st.integers(0, 30),
        "prompt": st.integers(1, 60),
        "tokens": st.integers(1, 40),
        "cancelled_after": st.none() | st.integers(0, 40),
        "guest_fails_at": st.none() | st.integers(0, 10),
        "sink_fails_at": st.none() | st.integers(0, 10),
        "choices": st.sampled_from([1, 1, 2, 3]),
        "moves": st.lists(MOVE, min_size=1, max_size=5) | st.just([("draw",)]),
        "logprobs": st.sampled_from([None, None, 0]),
        "stop_ids": st.sampled_from([frozenset(), frozenset({17, 99, 200})]),
        "stop": st.sampled_from([(), ("e",)]),
    }
)


DISTURBANCES = ("cancelled_after", "guest_fails_at", "sink_fails_at")


class Outcome(NamedTuple):
    """What a choice comes to when nobody interferes: the ids that stand, how it ends, what it counts."""

    ids: list[int]
    reason: str
    completion: int


def forced(ids: list[int], count: int) -> list[int]:
    """Ids that a guest appends by itself, a function of what stands."""
    return [(len(ids) * 7 + sum(ids[-3:]) + index) % 256 for index in range(count)]


def decided(move, step: int, ids: list[int], room: int) -> tuple[int, list[int] | None]:
    """A guest's move: ids to take back, and ids to append (None: the likeliest one)."""
    if move[0] == "draw" or (move[0] == "back" and room == 0):
        return 0, None
    back = min(move[1], room) if move[0] == "back" else 0
    return back, forced([*ids[: len(ids) - back], step], move[-1])


def model(life, prompt: list[int], choice: int, depth: int, context: int, twin) -> Outcome:
    """The same life without an engine."""
    ids, fixed, taken, step = list(prompt), 0, 0, 0
    room = min(life["tokens"], context - len(prompt))
    while True:
        made = len(ids) - len(prompt)
        back, tokens = decided(life["moves"][(step + choice) % len(life["moves"])], step, ids, made - fixed)
        taken, step = taken + back, step + 1
        if taken > 4 * room + 64:
            return Outcome(ids[len(prompt) :], "error", 0)
        del ids[len(ids) - back :]
        for token in [twin.hashed(ids)] if tokens is None else tokens:
            if token in life["stop_ids"]:
                return Outcome(ids[len(prompt) :], "stop", len(ids) - len(prompt) + 1)
            ids.append(token)
            made = len(ids) - len(prompt)
            fixed = max(fixed, made - depth)
            if life["stop"] and token == ord("e"):
                return Outcome(ids[len(prompt) :], "stop", made)
            if made == room:
                return Outcome(ids[len(prompt) :], "length", made)


@settings(max_examples=400, deadline=None)
@given(
    lives=st.lists(LIFE, min_size=1, max_size=8),
    blocks=st.integers(6, 16),
    together=st.integers(1, 5),
    budget=st.tuples(st.sampled_from([5, 16, 64]), st.sampled_from([1, 8])),
    windows=st.tuples(st.sampled_from([0, 0, 1, 5, 17, 40]), st.integers(0, 6)),
    step_fails=st.none() | st.integers(0, 30),
    grace=st.sampled_from([0.0, 0.005]),
    sampler=st.fixed_dictionaries(
        {"tier": st.sampled_from(["full", "mask"]), "max_rows": st.integers(1, 3), "max_backtrack": st.integers(0, 4)}
    ),
)
def test_whatever_happens_when_blocks_and_sandboxes_come_back_and_what_stands_is_right(
    *, lives, blocks, together, budget, windows, step_fails, grace, sampler, twin
):
    window, more_windows = windows
    house = twin.House(blocks=blocks, sampler=twin.Sampler(**sampler), window=window, more_windows=more_windows)
    depth = sampler["max_backtrack"]

    def act(slot):
        life, ids = lives[slot.prompt_ids[0]], [*slot.prompt_ids, *slot.accepted]
        if life["guest_fails_at"] == slot.steps:
            raise GuestError("plugin p", "trap", "expected an answer, got a trap", "use another plugin")
        house.sampler.misused += int(slot.logits.argmax()) != twin.hashed(ids)  # the logits of another place
        slot.fixed = max(getattr(slot, "fixed", 0), len(slot.accepted) - depth)
        move = life["moves"][(slot.steps + slot.choice) % len(life["moves"])]
        back, tokens = decided(move, slot.steps, ids, len(slot.accepted) - slot.fixed)
        return twin.Decision((twin.hashed(ids),) if tokens is None else tuple(tokens), back)

    house.sampler.act = act
    step_tokens, chunk = budget
    core = house.core(
        max_sequences=together, step_tokens=step_tokens, chunk_beside_decode=chunk, sampler_threads=1, grace=grace
    )  # 0: whoever can be late is late
    clients = live(twin, core, lives, lambda turn: setattr(house.model, "fail_next", turn == step_fails))
    assert not core._sequences
    core.close(InternalError("engine", "closing"))  # closes the sandboxes of cancelled requests whose guests were late
    assert core.pool.free == core.pool.total == core.stats.kv_free_blocks
    twin.leaves_nothing(core, house)
    stats = core.stats
    assert stats.finished + stats.failed + stats.cancelled == len(clients)
    for (number, choice), client in clients.items():
        life = lives[number]
        right = model(life, [number] * life["prompt"], choice, depth, core.context, twin)
        compare(client, right, life)
        if step_fails is None and not any(life[what] is not None for what in DISTURBANCES):
            assert isinstance(client.last, ErrorEvent if right.reason == "error" else FinishEvent)
    assert sum(isinstance(one.last, FinishEvent) for one in clients.values() if one.events) == stats.finished
    errors = sum(isinstance(one.last, ErrorEvent) for one in clients.values() if one.events)
    assert stats.failed >= errors >= stats.failed - deaf(lives)


def compare(client, right: Outcome, life) -> None:
    """What a client has is what stands, however it ended: never a wrong id, never one that was taken back."""
    assert client.tokens == right.ids[: len(client.tokens)]
    if not client.events or not isinstance(client.last, FinishEvent):
        return
    assert (client.tokens, client.last.reason, client.last.completion_tokens) == right
    text = bytes(right.ids).decode("utf-8", "replace")
    assert client.text == (text.partition("e")[0] if life["stop"] else text)


def live(twin, core, lives, before_turn):
    """Plays all lives to their end; answers the clients by number and choice."""
    clients, due, cancels = {}, {}, {}
    for number, life in enumerate(lives):
        for choice in range(life["choices"]):
            more = {name: life[name] for name in ("logprobs", "stop_ids", "stop")}
            one = twin.request(
                f"{number}.{choice}", [number] * life["prompt"], life["tokens"], choice=choice,
                group=ChoiceGroup(str(number), life["choices"]) if life["choices"] > 1 else None, **more,
            )  # fmt: skip
            due.setdefault(life["arrives"] + choice * (number % 2), []).append((one, life, (number, choice)))
    for turn in range(20_000):
        for one, life, name in due.pop(turn, ()):
            clients[name] = client = twin.Client()
            core.add(one, breaking(client, life["sink_fails_at"]))
            if life["cancelled_after"] is not None and name[1] != 1:  # the second choice stays
                cancels.setdefault(turn + life["cancelled_after"], []).append(one.id)
        for name in cancels.pop(turn, ()):
            core.cancel(name)
            core.pool.check()
        before_turn(turn)
        twin.turn(core)
        assert core.stats.running + core.stats.waiting == len(core._sequences)
        if not due and not core._sequences:
            return clients
    raise AssertionError(f"still at work: {core.stats}")


def breaking(client, at):
    """A sink that raises instead of taking event number `at`."""
    count = 0

    def sink(event):
        nonlocal count
        count += 1
        if at is not None and count > at and not isinstance(event, FinishEvent | ErrorEvent):
            raise ConnectionError("gone")
        client(event)

    return sink


def deaf(lives) -> int:
    """How many sinks may have been gone before their error came."""
    return sum(life["choices"] for life in lives if life["sink_fails_at"] is not None)
