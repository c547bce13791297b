"""The hostile corpus: each guest costs its own call one clear error, and nothing else.

The first lines of a file under hostile/ say what is expected: `;; expect:` a clause of README §1 (refused at load), a kind
of GuestError (refused at the call), or `ok`; `;; role:`; `;; tier:` of a sampler, `full` by default; `;; slots:` of a session;
`;; layout:` changes to the published layout; `;; use: none` for a text that is the whole module.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sealhost.sandbox import AdmissionError, GuestError, SamplingParams
from sealhost.signing.errors import Code

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.wat"))


def use(sandbox, guest, vocabulary, texts=("a", "abcdefgh"), slots=1):
    """Loads a guest and makes two calls of it, as two requests would."""
    if guest.role == "tokenizer":
        tokenizer = sandbox.load_tokenizer(guest, vocabulary)
        return [tokenizer.encode(text, add_special=False, parse_special=False) for text in texts]
    sampler = sandbox.load_sampler(guest, 260, vocabulary)
    decisions = []
    for _ in range(2):
        with sampler.session(SamplingParams(), [1, 2, 3], choices=range(slots)) as session:
            session.prepare(range(slots))
            decisions.append(session.step(range(slots)))
    return decisions


def test_corpus_is_large():
    assert len(HOSTILE) >= 180


@pytest.mark.parametrize("path", HOSTILE, ids=lambda p: p.stem)
def test_hostile_guest_costs_its_call_the_expected_error(path, hostile_guest, sandbox, byte_vocabulary):
    guest, facts = hostile_guest(path)
    expected, slots = facts["expect"], int(facts.get("slots", 1))
    if expected == "ok":
        assert len(use(sandbox, guest, byte_vocabulary, texts=("a", "a"), slots=slots)) == 2
        return
    with pytest.raises((AdmissionError, GuestError)) as caught:
        use(sandbox, guest, byte_vocabulary, slots=slots)
    error = caught.value
    found = error.clause if isinstance(error, AdmissionError) else error.kind
    assert found == expected, error
    assert error.code is Code.PLUGIN
    assert "guest" in str(error)
    assert str(error).isprintable()
