"""Random lives of requests: whatever happens when, the pool is whole after every turn and empty at the end."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from sealhost.host.engine.request import ErrorEvent, FinishEvent
from sealhost.host.errors import InternalError
from sealhost.sandbox import GuestError

LIFE = st.fixed_dictionaries(
    {
        "arrives": st.integers(0, 30),
        "prompt": st.integers(1, 60),
        "tokens": st.integers(1, 40),
        "cancelled_after": st.none() | st.integers(0, 40),
        "guest_fails_at": st.none() | st.integers(0, 10),
        "sink_fails_at": st.none() | st.integers(0, 10),
        "choices": st.sampled_from([1, 1, 1, 2]),
    }
)


@settings(max_examples=300, deadline=None)
@given(
    lives=st.lists(LIFE, min_size=1, max_size=8),
    blocks=st.integers(6, 16),
    together=st.integers(1, 5),
    budget=st.tuples(st.sampled_from([5, 16, 64]), st.sampled_from([1, 8])),
    step_fails=st.none() | st.integers(0, 30),
    grace=st.sampled_from([0.0, 0.005]),
)
def test_blocks_and_sandboxes_come_back_whatever_happens_when(lives, blocks, together, budget, step_fails, grace, twin):
    house = twin.House(blocks=blocks)
    failing = {}

    def act(session):
        if failing.get(session.prompt_ids[0]) == len(session.accepted):
            raise GuestError("plugin p", "trap", "expected an answer, got a trap", "use another plugin")
        return twin.greedy(session)

    house.sampler.act = act
    step_tokens, chunk = budget
    core = house.core(max_sequences=together, step_tokens=step_tokens, chunk_beside_decode=chunk, sampler_threads=1)
    core._guests.collect = partial(core._guests.collect, grace)  # 0: whoever can be late is late
    failing.update({number: life["guest_fails_at"] for number, life in enumerate(lives)})
    clients = live(twin, core, lives, lambda turn: setattr(house.model, "fail_next", turn == step_fails))
    assert not core._sequences
    core.close(InternalError("engine", "closing"))  # closes the sandboxes of cancelled requests whose guests were late
    assert core.pool.free == core.pool.total == core.stats.kv_free_blocks
    assert (house.sampler.open, house.sampler.misused) == (0, 0)
    stats = core.stats
    assert stats.finished + stats.failed + stats.cancelled == len(clients)
    for name, client in clients.items():
        prompt = [int(name.split(".")[0])] * lives[int(name.split(".")[0])]["prompt"]
        assert client.tokens == twin.answer(prompt, len(client.tokens))  # never a wrong id, however it ended
    assert sum(isinstance(one.last, FinishEvent) for one in clients.values() if one.events) == stats.finished
    assert sum(isinstance(one.last, ErrorEvent) for one in clients.values() if one.events) >= stats.failed - step_sinks(
        lives
    )


def live(twin, core, lives, before_turn):
    """Plays all lives to their end; answers the clients by request."""
    clients, due, cancels = {}, {}, {}
    for number, life in enumerate(lives):
        for choice in range(life["choices"]):
            one = twin.request(f"{number}.{choice}", [number] * life["prompt"], life["tokens"], choice=choice)
            due.setdefault(life["arrives"], []).append((one, life))
    for turn in range(5000):
        for one, life in due.pop(turn, ()):
            clients[one.id] = client = twin.Client()
            core.add(one, breaking(client, life["sink_fails_at"]))
            if life["cancelled_after"] is not None:
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


def step_sinks(lives) -> int:
    """How many sinks may have been gone before their error came."""
    return sum(life["choices"] for life in lives if life["sink_fails_at"] is not None)
