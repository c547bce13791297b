"""The time by which the tests' guests keep their deadlines: it passes only while this process works."""

from __future__ import annotations

import time

import pytest
from working_time import PATIENCE, PatientTicker, WorkingTime

from sealhost.sandbox import Sandbox


@pytest.mark.parametrize(
    ("passed", "worked", "counted"),
    [(60.0, 0.0, 0.0), (60.0, 0.25, 0.25), (0.5, 8.0, 0.5), (0.0005, 0.0005, 0.0)],
    ids=["the machine stands still", "others have the processors", "on sixteen processors", "less than a grain"],
)
def test_it_is_what_has_passed_or_what_was_worked_whichever_is_less(passed, worked, counted) -> None:
    times = [10.0, 3.0]
    clock = WorkingTime(lambda: times[0], lambda: times[1])
    times[:] = 10.0 + passed, 3.0 + worked
    assert clock() == pytest.approx(counted)


def test_the_guests_of_the_tests_go_by_it_unless_a_test_wants_the_clock(sandbox) -> None:
    ticker = sandbox._engine.ticker
    assert isinstance(ticker, PatientTicker)
    assert isinstance(ticker.clock, WorkingTime)
    assert ticker._interval == pytest.approx(PATIENCE * sandbox.limits.tick_ms / 1000)


def test_who_wants_the_clock_gets_it(wall_deadlines, sandbox_cache) -> None:
    with Sandbox(cache_directory=sandbox_cache) as made:
        assert made._engine.ticker.clock is time.monotonic
