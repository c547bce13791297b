"""The hostile corpus: each guest costs its own call one clear error, and nothing else.

The first lines of a file under hostile/ say what is expected: `;; expect:` a clause of README §1 (refused at load), a kind
of GuestError (refused at the call), or `ok`; `;; role:`; `;; tier:` of a sampler, `full` by default; `;; slots:` and
`;; steps:` of a session, one of each by default; `;; then: reset` for one that is reset after them;
`;; layout:` changes to the published layout; `;; use: none` for a text that is the whole module.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sealhost.sandbox import AdmissionError, GuestError, SamplingParams
from sealhost.signing.errors import Code

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.wat"))


def use(sandbox, guest, vocabulary, facts, texts=("a", "abcdefgh")):
    """Loads a guest and makes two calls of it, as two requests would."""
    slots = range(int(facts.get("slots", 1)))
    if guest.role == "tokenizer":
        tokenizer = sandbox.load_tokenizer(guest, vocabulary)
        return [tokenizer.encode(text, add_special=False, parse_special=False) for text in texts]
    sampler = sandbox.load_sampler(guest, 260, vocabulary)
    decisions = []
    for _ in range(2):
        with sampler.session(SamplingParams(), [1, 2, 3], choices=slots) as session:
            for _ in range(int(facts.get("steps", 1))):
                session.prepare(slots)
                decisions.append(session.step(slots))
                for slot, decision in zip(slots, decisions[-1], strict=True):
                    session.accept(slot, decision.tokens, decision.backtrack)
            if facts.get("then") == "reset":
                session.reset()
    return decisions


def test_corpus_is_large():
    assert len(HOSTILE) >= 230


@pytest.mark.parametrize("path", HOSTILE, ids=lambda p: p.stem)
def test_hostile_guest_costs_its_call_the_expected_error(path, hostile_guest, sandbox, byte_vocabulary):
    guest, facts = hostile_guest(path)
    expected = facts["expect"]
    if expected == "ok":
        assert len(use(sandbox, guest, byte_vocabulary, facts, texts=("a", "a"))) == 2
        return
    with pytest.raises((AdmissionError, GuestError)) as caught:
        use(sandbox, guest, byte_vocabulary, facts)
    error = caught.value
    found = error.clause if isinstance(error, AdmissionError) else error.kind
    assert found == expected, error
    assert error.code is Code.PLUGIN
    assert "guest" in str(error)
    assert str(error).isprintable()
