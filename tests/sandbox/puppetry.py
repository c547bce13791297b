"""Words for tests that tell a guest what to answer, through its configuration (the `puppet` fixture)."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from sealhost.sandbox import Decision, GuestError, SamplingParams
from sealhost.sandbox.abi import RowFlag

VOCABULARY = 260
GREEDY = SamplingParams(temperature=0)
NEW, ACCEPT, SAMPLE, FORK, CLOSE = RowFlag
TIERS = ["full", "topk:4", "mask"]


def ids(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def mask(*allowed: int) -> bytes:
    bits = np.zeros(288, np.uint8)
    bits[list(allowed)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def rising(session, slot: int = 0) -> None:
    """Larger ids are likelier."""
    session.logits(slot)[:] = np.arange(VOCABULARY)


def decided(plugin, config: bytes, params=GREEDY, prompt=(1, 2, 3), generated=(), logits=None) -> Decision:
    with plugin.session(params, prompt, config=config) as session:
        session.accept(0, generated)
        rising(session)
        if logits is not None:
            session.logits(0)[:] = logits
        session.prepare((0,))
        (found,) = session.step()
    return found


def refused(plugin, config: bytes, **how) -> GuestError:
    with pytest.raises(GuestError) as caught:
        decided(plugin, config, **how)
    return caught.value
