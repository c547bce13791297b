"""The tiny models in Hugging Face's transformers themselves: our answers, and the goldens' freshness."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import running
from tiny_models import CASES

from sealhost.kernels.reference import ReferenceBackend

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("default"),  # torch and transformers warn about themselves
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_transformers_agree_to_1e_4_and_the_goldens_are_theirs(files, goldens, case):
    pytest.importorskip("transformers", reason="needs torch and transformers, see tests/README.md")
    from hugging_face import log_probs

    theirs = log_probs(case)
    with closing(running.built(ReferenceBackend(), files[case.name], case.context)) as model:
        assert np.abs(running.log_probs(model, case) - theirs).max() < 1e-4
    assert np.abs(goldens[case.name] - theirs).max() < 1e-5
