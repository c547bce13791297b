"""What `plugin test` tries with a sampler: golden rows, edge rows, reset, replay, slots, random rows, full areas.

* A sampler may have a policy of its own, so what is held against it is the ABI: answers that the host takes (2.11), ids
  that can be drawn (2.6, where it sees all logits), no error but "empty", answers that are a function of what the host
  wrote (1.8), `reset` (2.1).
* Everything random comes from one seed, so a failure can be seen again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...sandbox import Decision, GuestError, SamplingParams
from .plugin_rows import LARGEST_VOCABULARY, VOCABULARY, Answer, Rows, random_logits, shown
from .plugin_slot_trials import slot_trials
from .plugin_trial import SamplerCase, Trial, TrialFailedError, attempt, golden_cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .plugin_rows import Config, Loads, Row

STEPS = 24
"""Answers of a sequence that is replayed."""

MAX_HISTORY = 200
"""Ids of a random prompt; full histories have a trial of their own."""

MAX_LOG_SHOWN = 2_000
"""Characters of a guest's log that are shown: the last ones."""


def sampler_trials(loads: Loads, folder: Path, *, seed: int, rows: int, config: Config) -> Iterator[Trial]:
    """Tries everything.

    Args:
        loads: Loads the sampler.
        folder: Where its golden cases lie.
        seed: Of everything random.
        rows: Random rows to try.
        config: For all trials whose case has none of its own; None: none.

    Raises:
        SealhostError: When the plugin is not admitted, or the golden cases or the configuration do not fit.
    """
    cases = golden_cases(folder, SamplerCase)
    heard: list[str] = []
    tried = Rows.of(loads(VOCABULARY), config, heard)
    if not cases:
        yield Trial("golden", "skipped", "no golden.json in the folder")
    for case in cases:
        yield attempt(f"golden: {case.name}", lambda case=case: _golden(tried, case))  # type: ignore[misc]
    for name, logits in EDGES.items():
        yield attempt(f"edge: {name}", lambda logits=logits: _edge(tried, logits))  # type: ignore[misc]
    yield attempt("reset", lambda: _reset(tried, seed))
    yield attempt("replay", lambda: _replay(tried, seed))
    yield from slot_trials(tried, seed)
    yield attempt("random rows", lambda: _fuzz(tried, seed, rows))
    yield attempt("full areas", lambda: _full_areas(Rows.of(loads(LARGEST_VOCABULARY), config, heard), seed))
    if said := "".join(heard):
        yield Trial("log", "ok", f"the guest says: {said[-MAX_LOG_SHOWN:]}")


def _golden(tried: Rows, case: SamplerCase) -> str:
    if len(case.logits) > tried.size:
        raise TrialFailedError(f"expected at most {tried.size} logits in a case, got {len(case.logits)}")
    if unknown := case.params.keys() - SamplingParams.__dataclass_fields__.keys():
        raise TrialFailedError(f"expected parameters that there are, got {', '.join(sorted(unknown))}")
    params = SamplingParams(**case.params)  # type: ignore[arg-type]  # checked by SamplingParams itself
    rows = tried if case.config is None else Rows.of(tried.sampler, case.config, tried.heard)
    found = rows.ask(rows.full([float(value) for value in case.logits]), params, case.prompt, case.generated)
    if isinstance(case.expect, str):
        expected: Answer = "empty" if case.expect == "empty" else Decision((), stop=True)
    else:
        tokens = (case.expect,) if isinstance(case.expect, int) else tuple(case.expect)
        expected = Decision(tokens, case.backtrack)
    if found != expected:
        raise TrialFailedError(f"expected {shown(expected)}, got {shown(found)}")
    return f"answered {shown(found)}"


_INF, _NAN, _MOST = np.inf, np.nan, float(np.finfo(np.float32).max)

EDGES: dict[str, list[float]] = {
    "one candidate": [-_INF, -_INF, 1.5],
    "one number among NaN": [_NAN, _NAN, -3.0, _NAN],
    "NaN with its sign bit set": [-_NAN, 2.0, -_NAN],
    "all -inf": [-_INF],
    "all NaN": [_NAN] * VOCABULARY,
    "one +inf": [0.0, _MOST, _INF, 7.0],
    "two +inf": [_INF, 1.0, _INF],
    "+inf among NaN": [_NAN, _INF, _NAN],
    "all equal": [0.25] * VOCABULARY,
    "zeros of both signs": [0.0, -0.0, 0.0, -0.0],
    "largest floats": [_MOST, -_MOST, _MOST],
    "smallest floats": [1e-45, -1e-45, 0.0],
    "one far ahead": [-_MOST, 0.0, 80.0],
}
"""Rows of logits at the edge of float32; what is not named is -inf."""


def drawable(logits: Row) -> set[int]:
    """Ids that may be drawn: clause 2.6."""
    with np.errstate(invalid="ignore"):
        likeliest = np.flatnonzero(logits == np.inf)
        return set((likeliest if likeliest.size else np.flatnonzero(logits > -np.inf)).tolist())


def _judge(tried: Rows, logits: Row, found: Answer) -> None:
    """Holds an answer to clause 2.6, where the guest sees all logits; others answer without having seen them.

    Raises:
        TrialFailedError: When it may not.
    """
    if tried.sampler.tier != "full" or isinstance(found, str) or len(found.tokens) != 1:
        return
    allowed = drawable(logits)
    if found.tokens[0] not in allowed:
        known = f"{len(allowed)} ids that can be drawn" if allowed else "empty"
        raise TrialFailedError(f"expected one of {known}, got {shown(found)} (clause 2.6)")


def _edge(tried: Rows, start: Sequence[float]) -> str:
    logits = tried.full(start[: tried.size])
    seen: set[str] = set()
    for params in (SamplingParams(temperature=0), SamplingParams(), SamplingParams(temperature=1e-6, top_p=0.5)):
        found = tried.ask(logits, params)
        _judge(tried, logits, found)
        if tried.ask(logits, params) != found:
            raise TrialFailedError(f"expected {shown(found)} for the same row again, got another answer (clause 1.8)")
        seen.add(shown(found))
    return f"answered {' or '.join(sorted(seen))}"


def _reset(tried: Rows, seed: int) -> str:
    with tried.session(SamplingParams(seed=seed), [0]) as session:
        before = tried.play(session, seed, STEPS)
        session.reset()
        after = tried.play(session, seed, STEPS)
    if before != after:
        first = next(i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
        raise TrialFailedError(f"expected the same answers after reset, got another one at step {first} (clause 2.1)")
    return f"{len(before)} steps alike before and after"


def _replay(tried: Rows, seed: int) -> str:
    for temperature in (0.0, 0.7, 1.5):
        params = SamplingParams(temperature=temperature, top_p=0.95, seed=seed)
        answers = []
        for _ in range(2):
            with tried.session(params, [1, 2, 3]) as session:
                answers.append(tried.play(session, seed, STEPS))
        first, second = answers
        if first != second:
            at = next(i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
            problem = f"expected the same answers from the same randomness, got others at step {at} (clauses 1.8, 2.4)"
            raise TrialFailedError(problem)
    return f"3 sequences of {STEPS} steps, twice alike"


def _random_params(numbers: np.random.Generator, size: int) -> SamplingParams:
    def maybe(value: float, off: float) -> float:
        return float(value) if numbers.random() < 0.5 else off

    biased = numbers.choice(size, size=min(size, int(numbers.integers(0, 5))), replace=False)
    return SamplingParams(
        temperature=maybe(numbers.choice([0.0, 1e-6, 0.3, 2.0, 1e6]), 1.0),
        top_k=int(maybe(int(numbers.integers(1, size + 10)), 0)),
        top_p=maybe(numbers.uniform(1e-6, 1), 1.0),
        min_p=maybe(numbers.uniform(0, 1), 0.0),
        repetition_penalty=maybe(numbers.uniform(0.5, 2), 1.0),
        presence_penalty=maybe(numbers.uniform(-2, 2), 0.0),
        frequency_penalty=maybe(numbers.uniform(-2, 2), 0.0),
        logit_bias=tuple((int(token), float(numbers.choice([-100.0, 5.0]))) for token in biased),
        seed=int(numbers.integers(0, 1 << 63)),
    )


def _random_row(numbers: np.random.Generator, size: int) -> Row:
    logits = random_logits(numbers, size)
    kind = numbers.integers(0, 6)
    if kind == 0:
        logits = numbers.integers(0, 1 << 32, size, dtype=np.uint32).view(np.float32)  # any bits at all
    elif kind == 1:
        logits[numbers.random(size) < 0.5] = numbers.choice([np.nan, -np.inf, np.inf])
    elif kind == 2:
        logits = np.round(logits)  # many ties
    elif kind == 3:
        logits = np.full(size, numbers.choice([np.nan, -np.inf, 0.0]), np.float32)
    return logits


def _fuzz(tried: Rows, seed: int, rows: int) -> str:
    empty = stopped = 0
    history = min(MAX_HISTORY, tried.sampler.history_capacity)
    for index in range(rows):
        numbers = np.random.default_rng((seed, index))
        logits, params = _random_row(numbers, tried.size), _random_params(numbers, tried.size)
        ids = numbers.integers(0, tried.size, int(numbers.integers(0, history))).tolist()
        cut = int(numbers.integers(0, len(ids) + 1))
        try:
            found = tried.ask(logits, params, ids[:cut], ids[cut:])
        except GuestError as error:
            raise TrialFailedError(f"row {index} of seed {seed}: {error.problem}") from None
        try:
            _judge(tried, logits, found)
        except TrialFailedError as error:
            raise TrialFailedError(f"row {index} of seed {seed}: {error}") from None
        empty += found == "empty"
        stopped += found == Decision((), stop=True)
    return f"{rows} rows of seed {seed}: {rows - stopped - empty} drawn, {stopped} stopped, {empty} without a candidate"


def _full_areas(tried: Rows, seed: int) -> str:
    numbers = np.random.default_rng(seed)
    room = min(tried.sampler.history_capacity, 1 << 20) - 1
    prompt = numbers.integers(0, tried.size, room)
    tried.ask(random_logits(numbers, tried.size), SamplingParams(), prompt.tolist())
    return f"{tried.size:,} logits and {room:,} ids of history"
