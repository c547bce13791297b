"""One small guest for each thing that a sampler can do besides drawing: they build, pass the kit's trials, and do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sealhost.host.cli.main import run
from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.cli.plugin_vocabulary import EOS, trial_vocabulary
from sealhost.sandbox import AdmissionError, Decision, SamplerPlugin, SamplingParams, Sandbox

EXAMPLES = sorted(path.parent for path in Path(__file__).parent.glob("examples/*/plugin.c"))
VOCABULARY = 32
GREEDY = SamplingParams(temperature=0)
SKIPPED = {
    "parity": {"fork", "backtrack"},
    "runner_up": {"fork", "backtrack"},
    "no_doubles": {"fork"},
    "refrain": {"fork", "backtrack"},
    "company": {"backtrack"},
    "digits": {"fork", "backtrack"},
}


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Callable[[str], Path]:
    """An example's folder, built."""
    made: dict[str, Path] = {}

    def build(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("examples") / name
            made[name].mkdir()
            for path in (Path(__file__).parent / "examples" / name).iterdir():
                (made[name] / path.name).write_bytes(path.read_bytes())
            assert run(["plugin", "build", str(made[name])]) == 0
        return made[name]

    return build


@pytest.fixture(scope="module")
def loaded(example):
    """Loads an example."""
    with Sandbox(use_cache=False) as sandbox:

        def load(name: str) -> SamplerPlugin:
            return sandbox.load_sampler(AuthoredPlugin.read(example(name)), VOCABULARY)

        yield load


@pytest.mark.parametrize("name", [path.name for path in EXAMPLES])
def test_an_example_passes_the_kits_trials(name, example, kit_says):
    assert kit_says("check", example(name))["admitted"]
    said = kit_says("test", example(name), "--rounds", 60)
    assert said["passed"], said
    assert {trial["name"] for trial in said["trials"] if trial["verdict"] == "skipped"} == SKIPPED[name]
    said = kit_says("bench", example(name), "--repeats", 3)
    assert said["memory_bytes"] == said["memory_limit"]


def answers(plugin: SamplerPlugin, rows: list[dict[int, float]], params=GREEDY, prompt=(1, 2)) -> list[Decision]:
    """Decisions over rows of logits that are 0 but for these ids, each accepted."""
    found = []
    with plugin.session(params, prompt) as session:
        for row in rows:
            session.prepare((0,))
            session.logits(0)[:] = 0
            for token, logit in row.items():
                session.logits(0)[token] = logit
            found += session.step()
            session.accept(0, found[-1].tokens, found[-1].backtrack)
    return found


def test_a_mask_decides_between_the_ids_that_the_model_likes(loaded):
    found = answers(loaded("parity"), [{5: 9, 6: 8}] * 4)
    assert [decision.tokens for decision in found] == [(6,), (5,), (6,), (5,)]
    hot = answers(loaded("parity"), [{}] * 30, SamplingParams(seed=3))
    assert [decision.tokens[0] % 2 for decision in hot] == [0, 1] * 15


def test_candidates_are_enough_to_choose_another_than_the_best(loaded):
    found = answers(loaded("runner_up"), [{5: 9, 6: 8, 7: 7}] * 3)
    assert [decision.tokens for decision in found] == [(6,), (6,), (6,)]
    best_in_the_middle = answers(loaded("runner_up"), [{5: 1, 9: 2}, {4: 1, 30: 50, 20: 3}])
    assert [decision.tokens for decision in best_in_the_middle] == [(5,), (20,)]


def test_a_guest_that_knows_the_tokens_can_hold_the_model_to_a_form(example):
    words = trial_vocabulary()
    plugin = AuthoredPlugin.read(example("digits"))
    with Sandbox(use_cache=False) as sandbox:
        sampler = sandbox.load_sampler(plugin, len(words.texts), words)
        assert sampler.takes_vocabulary
        numbers = np.random.default_rng(4)
        for seed in range(20):
            text, found = b"", []
            with sampler.session(SamplingParams(seed=seed), [65]) as session:
                while EOS not in found and len(found) < 40:
                    session.prepare((0,))
                    session.logits(0)[:] = numbers.normal(0, 3, sampler.vocab_size)
                    (decision,) = session.step()
                    found += decision.tokens
                    session.accept(0, decision.tokens)
            text = b"".join(words.token_bytes[token] for token in found if token != EOS)
            assert text.isdigit()
            assert len(text) >= 3
        with pytest.raises(AdmissionError, match="vocabulary for a sampler that asks for it"):
            sandbox.load_sampler(plugin, len(words.texts))


def test_what_was_said_can_be_taken_back(loaded):
    found = answers(loaded("no_doubles"), [{5: 9}, {5: 9}, {5: 9}, {7: 9}])
    assert found == [Decision((5,)), Decision((5,)), Decision((6,), backtrack=1), Decision((7,))]


def test_ids_that_are_known_need_no_step(loaded):
    found = answers(loaded("refrain"), [{7: 9}, {7: 9}, {8: 9}])
    assert found == [Decision((7,)), Decision((1, 2, 3)), Decision((8,))]


def test_choices_of_one_request_know_of_each_other(loaded):
    with loaded("company").session(GREEDY, [2, 3], choices=(0, 1, 2, 3)) as session:

        def step(*slots: int) -> list[int]:
            for slot in slots:
                session.logits(slot)[:] = np.arange(VOCABULARY)
            found = session.step(slots)
            for slot, decision in zip(slots, found, strict=True):
                session.accept(slot, decision.tokens)
            return [decision.tokens[0] for decision in found]

        assert step(0, 1, 2, 3) == [31, 30, 29, 28]
        assert session.log() == "summed\n"  # once: the other three are copies
        session.close_slot(1)
        assert step(3, 0) == [31, 30]
        assert step(2) == [29]


def test_a_fork_starts_from_its_parents_state(loaded):
    with loaded("company").session(GREEDY, [2, 3], choices=(0, 1, 2)) as session:
        for slot in range(3):
            session.logits(slot)[:] = 1  # all equal: the first ids after the prompt's sum
        assert [decision.tokens for decision in session.step((0, 1, 2))] == [(5,), (6,), (7,)]
