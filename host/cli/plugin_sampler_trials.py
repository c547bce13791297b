"""What `plugin test` tries with a sampler: golden rows, edge rows, reset, replay, random rows, full areas.

* A sampler may have a policy of its own, so what is held against it is the ABI: ids that can be drawn, and no error but
  "empty" (2.6), answers that are a function of what the host wrote (1.8), `reset` (2.1).
* Everything random comes from one seed, so a failure can be seen again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...sandbox import GuestError, SamplingParams
from .plugin_trial import SamplerCase, Trial, TrialFailedError, attempt, golden_cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ...sandbox import Decision, SamplerPlugin, Sandbox
    from .plugin_folder import AuthoredPlugin

    Row = NDArray[np.float32]
    Answer = int | str

VOCABULARY = 512
"""Logits of a trial's row."""

STEPS = 24
"""Tokens of a sequence that is replayed."""

LARGEST_VOCABULARY = 262_144
"""Logits of the largest model in use."""

MAX_HISTORY = 200
"""Ids of a random prompt; full histories have a trial of their own."""


class Rows(NamedTuple):
    """A sampler, and how many logits its rows have here."""

    sampler: SamplerPlugin
    size: int
    config: bytes

    def ask(
        self, logits: Row, params: SamplingParams, prompt: Sequence[int] = (), generated: Sequence[int] = ()
    ) -> Answer:
        """One step in a fresh instance: the id, "stop", or "empty"."""
        with self.sampler.session(params, prompt, config=self.config) as session:
            session.accept(0, generated)
            session.logits(0)[:] = logits
            try:
                (decision,) = session.step()
            except GuestError as error:
                if error.kind == "empty":
                    return "empty"
                raise
        return "stop" if decision.stop else decision.tokens[0]

    def full(self, logits: Sequence[float]) -> Row:
        """A row that begins with these logits; the others are -inf."""
        row = np.full(self.size, -np.inf, np.float32)
        row[: len(logits)] = logits
        return row


def sampler_trials(
    sandbox: Sandbox, plugin: AuthoredPlugin, folder: Path, *, seed: int, rows: int, config: bytes
) -> Iterator[Trial]:
    """Tries everything.

    Args:
        sandbox: Runs the guest.
        plugin: The sampler.
        folder: Where its golden cases lie.
        seed: Of everything random.
        rows: Random rows to try.
        config: Opaque bytes for the guest, in all trials whose case has none of its own.

    Raises:
        SealhostError: When the plugin is not admitted or the golden cases cannot be read.
    """
    cases = golden_cases(folder, SamplerCase)
    capacity = sandbox.load_sampler(plugin, 1).vocab_capacity
    size = min(VOCABULARY, capacity)
    tried = Rows(sandbox.load_sampler(plugin, size), size, config)
    if not cases:
        yield Trial("golden", "skipped", "no golden.json in the folder")
    for case in cases:
        yield attempt(f"golden: {case.name}", lambda case=case: _golden(tried, case))  # type: ignore[misc]
    for name, logits in EDGES.items():
        yield attempt(f"edge: {name}", lambda logits=logits: _edge(tried, logits))  # type: ignore[misc]
    yield attempt("reset", lambda: _reset(tried, seed))
    yield attempt("replay", lambda: _replay(tried, seed))
    yield attempt("random rows", lambda: _fuzz(tried, seed, rows))
    most = min(capacity, LARGEST_VOCABULARY)
    yield attempt("full areas", lambda: _full_areas(Rows(sandbox.load_sampler(plugin, most), most, config), seed))


def _golden(tried: Rows, case: SamplerCase) -> str:
    if len(case.logits) > tried.size:
        raise TrialFailedError(f"expected at most {tried.size} logits in a case, got {len(case.logits)}")
    if unknown := case.params.keys() - SamplingParams.__dataclass_fields__.keys():
        raise TrialFailedError(f"expected parameters that there are, got {', '.join(sorted(unknown))}")
    params = SamplingParams(**case.params)  # type: ignore[arg-type]  # checked by SamplingParams itself
    rows = tried if case.config is None else tried._replace(config=json.dumps(case.config).encode())
    found = rows.ask(rows.full([float(value) for value in case.logits]), params, case.prompt, case.generated)
    if found != case.expect:
        raise TrialFailedError(f"expected {case.expect}, got {found}")
    return f"answered {found}"


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


def _edge(tried: Rows, start: Sequence[float]) -> str:
    logits = tried.full(start[: tried.size])
    allowed: set[Answer] = {"stop"}
    allowed |= drawable(logits) or {"empty"}
    seen: set[Answer] = set()
    for params in (SamplingParams(temperature=0), SamplingParams(), SamplingParams(temperature=1e-6, top_p=0.5)):
        found = tried.ask(logits, params)
        if found not in allowed:
            raise TrialFailedError(f"expected {_some(allowed)}, got {found} (clause 2.6)")
        if tried.ask(logits, params) != found:
            raise TrialFailedError(f"expected {found} for the same row again, got another answer (clause 1.8)")
        seen.add(found)
    return f"answered {_some(seen)}"


def _some(answers: set[Answer]) -> str:
    named = sorted(map(str, answers))
    return " or ".join(named[:4]) + (f" or {len(named) - 4} others" if len(named) > 4 else "")


def _random_logits(numbers: np.random.Generator, size: int) -> Row:
    return numbers.normal(0, 4, size).astype(np.float32)


def _reset(tried: Rows, seed: int) -> str:
    logits = [_random_logits(np.random.default_rng((seed, step)), tried.size) for step in range(STEPS)]
    with tried.sampler.session(SamplingParams(seed=seed), [0], config=tried.config) as session:

        def play() -> list[Decision]:
            answers = []
            for row in logits:
                session.logits(0)[:] = row
                (found,) = session.step()
                answers.append(found)
                if found.stop:
                    break
                session.accept(0, found.tokens, found.backtrack)
            return answers

        before = play()
        session.reset()
        after = play()
    if before != after:
        first = next(i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
        raise TrialFailedError(f"expected the same answers after reset, got another one at step {first} (clause 2.1)")
    return f"{len(before)} steps alike before and after"


def _sequence(tried: Rows, params: SamplingParams, seed: int) -> list[Answer]:
    """A whole answer in an instance of its own."""
    answers: list[Answer] = []
    with tried.sampler.session(params, [1, 2, 3], config=tried.config) as session:
        for step in range(STEPS):
            session.logits(0)[:] = _random_logits(np.random.default_rng((seed, step)), tried.size)
            (found,) = session.step()
            if found.stop:
                return [*answers, "stop"]
            answers.append(found.tokens[0])
            session.accept(0, found.tokens, found.backtrack)
    return answers


def _replay(tried: Rows, seed: int) -> str:
    for temperature in (0.0, 0.7, 1.5):
        params = SamplingParams(temperature=temperature, top_p=0.95, seed=seed)
        first, second = _sequence(tried, params, seed), _sequence(tried, params, seed)
        if first != second:
            at = next(i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
            problem = f"expected the same tokens from the same randomness, got others at step {at} (clauses 1.8, 2.4)"
            raise TrialFailedError(problem)
    return f"3 answers of {STEPS} tokens, twice alike"


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
    logits = _random_logits(numbers, size)
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
    drawn = empty = stopped = 0
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
        if isinstance(found, int) and not logits[found] > -np.inf:
            problem = f"expected an id that can be drawn, got {found}, whose logit is {logits[found]} (clause 2.6)"
            raise TrialFailedError(f"row {index} of seed {seed}: {problem}")
        drawn += isinstance(found, int)
        empty += found == "empty"
        stopped += found == "stop"
    return f"{rows} rows of seed {seed}: {drawn} drawn, {stopped} stopped, {empty} without a candidate"


def _full_areas(tried: Rows, seed: int) -> str:
    numbers = np.random.default_rng(seed)
    room = min(tried.sampler.history_capacity, 1 << 20) - 1
    prompt = numbers.integers(0, tried.size, room)
    tried.ask(_random_logits(numbers, tried.size), SamplingParams(), prompt.tolist())
    return f"{tried.size:,} logits and {room:,} ids of history"
