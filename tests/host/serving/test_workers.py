"""Work for the event loop on a bounded number of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sealhost.host.errors import RequestError
from sealhost.host.serving.workers import Workers

PATIENCE_S = 120.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What jobs that overrun wait for; open at the end, so that no thread stays."""
    opened = threading.Event()
    yield opened
    opened.set()


def run(work: Callable[[], Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await work()

    return asyncio.run(limited())


def test_jobs_that_overrun_hold_up_nobody_else(gate: threading.Event) -> None:
    async def scenario() -> None:
        workers = Workers(threads=4)
        stuck = [asyncio.create_task(workers.run(gate.wait, PATIENCE_S)) for _ in range(24)]
        assert await workers.run(lambda: "well-behaved") == "well-behaved"
        assert not gate.is_set()
        assert not any(one.done() for one in stuck)
        gate.set()
        assert all(await asyncio.gather(*stuck))
        workers.close()

    run(scenario)


def test_jobs_that_keep_to_their_time_run_so_many_at_a_time(gate: threading.Event) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def job() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(0.01)
        with lock:
            running -= 1

    async def scenario() -> None:
        workers = Workers(threads=3)
        await asyncio.gather(*(workers.run(job) for _ in range(30)))
        workers.close()

    run(scenario)
    assert 1 <= most <= 3


def test_one_too_many_is_refused_and_room_comes_back(gate: threading.Event) -> None:
    async def scenario() -> None:
        workers = Workers(threads=1, limit=3)
        held = [asyncio.create_task(workers.run(gate.wait, PATIENCE_S)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="fewer than 3") as caught:
            await workers.run(lambda: None)
        assert (caught.value.status, caught.value.reason) == (503, "overloaded")
        gate.set()
        await asyncio.gather(*held)
        assert await workers.run(lambda: 7) == 7
        workers.close()

    run(scenario)


def test_a_job_whose_client_has_gone_is_not_started_and_takes_no_room(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealhost.host.serving.workers.GRACE_SECONDS", PATIENCE_S)
    started: list[str] = []

    async def scenario() -> None:
        workers = Workers(threads=1, limit=2)
        first = asyncio.create_task(workers.run(gate.wait, PATIENCE_S))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(workers.run(started.append, "never"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        second = asyncio.create_task(workers.run(lambda: "second"))
        gate.set()
        assert await second == "second"
        await first
        workers.close()

    run(scenario)
    assert started == []


def test_what_a_job_raises_comes_back_and_gives_its_place_back() -> None:
    async def scenario() -> None:
        workers = Workers(threads=1, limit=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await workers.run(lambda: 1 // 0)
            assert workers._held.total() == 0
        workers.close()

    run(scenario)


def test_a_model_of_several_leaves_room_for_the_others(gate: threading.Event) -> None:
    async def scenario() -> None:
        workers = Workers(threads=1, limit=6)
        stuck = [asyncio.create_task(workers.run_for("slow", gate.wait, PATIENCE_S)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="fewer than 3") as caught:
            await workers.run_for("slow", lambda: None)
        assert caught.value.status == 503
        assert await workers.run_for("other", lambda: "answered") == "answered"
        gate.set()
        assert all(await asyncio.gather(*stuck))
        assert await workers.run_for("slow", lambda: "again") == "again"
        workers.close()

    run(scenario)
