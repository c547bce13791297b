"""The operator's settings."""

from __future__ import annotations

import pytest

from sealhost.host.config import EngineConfig
from sealhost.host.errors import UsageError


def test_zero_threads_means_every_usable_core():
    assert EngineConfig().backend_threads >= 1
    assert EngineConfig(threads=5).backend_threads == 5
    assert EngineConfig().guest_threads >= 2


@pytest.mark.parametrize(
    "settings",
    [
        {"max_sequences": 0},
        {"step_tokens": 0},
        {"chunk_beside_decode": 0},
        {"max_waiting": 0},
        {"kv_bytes": -1},
        {"threads": -1},
        {"sampler_threads": -1},
        {"context": 1},
        {"max_sequences": 64, "step_tokens": 63},
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(settings):
    with pytest.raises(UsageError) as caught:
        EngineConfig(**settings)
    assert caught.value.where in settings
    assert caught.value.exit_code == 2
