"""A NaN of any bits is a NaN to the host's sampler, and no processor's complaint gets out."""

from __future__ import annotations

import numpy as np
import pytest

from sealhost.sandbox import SamplingParams
from sealhost.sandbox.sampling import EmptyError, sample

SIGNALLING = np.array([0x7FA00000, 0xFFA00000, 0x7F800001], np.uint32).view(np.float32)


def test_signalling_nans_are_never_drawn():
    logits = np.concatenate([SIGNALLING, np.array([-5], np.float32)])
    assert sample(logits, SamplingParams(temperature=0), np.zeros(0, np.uint32), 0, 0) == 3


def test_signalling_nans_alone_leave_no_candidate():
    with pytest.raises(EmptyError):
        sample(SIGNALLING.copy(), SamplingParams(), np.zeros(0, np.uint32), 0, 0)
