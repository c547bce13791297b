"""The way a step is run follows what the machine is doing."""

import pytest

from sealhost.kernels.cpu.pace import COLD_STEPS, PROBE_STEPS, SETTLED_STEPS, TRIAL_STEPS, Mode, Pace, size_class
from sealhost.kernels.cpu.sync import LONG_SPINS, SHORT_SPINS

ALL, POLITE, ALONE = Mode(4, LONG_SPINS), Mode(4, SHORT_SPINS), Mode(1, LONG_SPINS)
CALM = {ALL: 4.0, POLITE: 5.0, ALONE: 9.0}


def drive(pace, seconds, steps):
    """Runs steps that take what `seconds` says for their mode; returns the modes."""
    modes = []
    for _ in range(steps):
        modes.append(pace.choose())
        pace.record(seconds[modes[-1]])
    return modes


def test_a_calm_machine_tries_each_way_once_and_then_hardly_again():
    modes = drive(Pace(4), CALM, 1000)
    assert [mode for mode in modes[:20] if mode != ALL] == [POLITE, ALONE]
    assert modes[20:].count(ALL) >= 975


def test_the_first_steps_find_everything_cold_and_say_nothing():
    pace = Pace(4)
    for _ in range(COLD_STEPS):
        assert pace.choose() == ALL
        pace.record(1000.0)
    assert drive(pace, CALM, 100).count(ALL) >= 98


def test_the_calm_way_is_taken_again_within_two_trials_of_the_calm():
    pace = Pace(4)
    drive(pace, CALM, 20)
    drive(pace, {ALL: 300.0, POLITE: 150.0, ALONE: 9.0}, 20 * PROBE_STEPS)
    drive(pace, CALM, 2 * PROBE_STEPS + 2 * TRIAL_STEPS)
    assert set(drive(pace, CALM, 100)) == {ALL}


def test_a_lucky_step_of_a_way_that_is_slower_does_not_win():
    pace, busy = Pace(4), {ALL: 30.0, POLITE: 15.0, ALONE: 9.0}
    drive(pace, busy, 20 * PROBE_STEPS)
    modes, lucky = [], True
    for _ in range(20 * PROBE_STEPS):
        modes.append(pace.choose())
        pace.record(4.0 if modes[-1] == ALL and lucky else busy[modes[-1]])
        lucky = modes[-1] != ALL or not lucky  # every second step of it is a lucky one
    assert modes.count(ALONE) >= len(modes) * 0.85


@pytest.mark.parametrize("best", [POLITE, ALONE])
def test_a_machine_that_was_busy_from_the_start_is_seen_through(best):
    busy = {ALL: 30.0, POLITE: 15.0, ALONE: 15.0} | {best: 9.0}
    pace = Pace(4)
    drive(pace, busy, COLD_STEPS + 6 * SETTLED_STEPS)
    modes = drive(pace, busy, 200)
    assert modes.count(best) >= 200 * (1 - 1.5 / PROBE_STEPS)


def test_one_slow_step_changes_nothing():
    pace = Pace(4)
    drive(pace, CALM, 20)
    pace.choose()
    pace.record(100.0)
    drive(pace, CALM, 60)
    assert set(drive(pace, CALM, 20)) == {ALL}


@pytest.mark.parametrize("best", [POLITE, ALONE])
def test_beside_a_busy_neighbour_the_fastest_way_is_found_and_mostly_kept(best):
    pace, busy = Pace(4), {ALL: 30.0, POLITE: 15.0, ALONE: 15.0} | {best: 9.0}
    drive(pace, CALM, 20)
    drive(pace, busy, 6 * PROBE_STEPS)
    modes = drive(pace, busy, 20 * PROBE_STEPS)
    assert modes.count(best) >= len(modes) * (1 - 1.5 / PROBE_STEPS)


def test_when_the_neighbour_leaves_all_threads_come_back():
    pace = Pace(4)
    drive(pace, CALM, 20)
    drive(pace, {ALL: 30.0, POLITE: 15.0, ALONE: 9.0}, 20 * PROBE_STEPS)
    drive(pace, CALM, 16 * PROBE_STEPS)
    assert set(drive(pace, CALM, 100)) == {ALL}


def test_steps_that_grow_slowly_longer_are_no_disturbance():
    pace = Pace(2)
    modes = []
    for step in range(4000):
        modes.append(pace.choose())
        pace.record(4.0 + step * 0.004)
    assert modes.count(Mode(2, LONG_SPINS)) >= 3980


def test_where_the_memory_alone_is_slow_other_ways_are_tried_ever_more_rarely():
    pace, slow = Pace(4), {mode: 2 * seconds for mode, seconds in CALM.items()}
    drive(pace, CALM, 20)
    drive(pace, slow, 3 * PROBE_STEPS)  # the old times of the other ways look better for a while
    modes = drive(pace, slow, 15 * PROBE_STEPS)
    assert 1 <= len(modes) - modes.count(ALL) <= 6


def test_a_neighbour_that_comes_while_the_memory_is_slow_is_met_at_once():
    pace, slow = Pace(4), {mode: 2 * seconds for mode, seconds in CALM.items()}
    drive(pace, CALM, 20)
    drive(pace, slow, 120)
    modes = drive(pace, {ALL: 300.0, POLITE: 150.0, ALONE: 18.0}, 2 * PROBE_STEPS + 2 * TRIAL_STEPS)
    assert modes[-1] == ALONE


def test_one_thread_has_no_choice():
    pace = Pace(1)
    for step in range(50):
        assert pace.choose() == ALONE
        pace.record(1.0 + step)


def test_small_steps_have_a_class_each_and_large_ones_share():
    assert [size_class(tokens) for tokens in (1, 2, 7, 8, 9, 16, 17, 512)] == [1, 2, 7, 8, 16, 16, 32, 512]
