"""The watermark sampler and its detector: the same green ids, the edited row, the statistic, misuse."""

from __future__ import annotations

import io
import json
import math
import sys

import numpy as np
import pytest
import wasmtime
from plugin_harness import GuestRefusedError, Parameters, SamplerGuest

from sealhost.host.cli.main import run
from sealhost.host.cli.plugin_detect import Found, count, is_green, siphash
from sealhost.plugins import reference_plugin

CONFIG, PASS, EDITED = -0x40000001, 2, 3
KEY = bytes(range(16))
INF = float("inf")


def written(**more) -> bytes:
    return json.dumps({"key": KEY.hex(), **more}, sort_keys=True, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def mark(guest_engine) -> SamplerGuest:
    module = (reference_plugin("sampler", "watermark") / "plugin.wasm").read_bytes()
    return SamplerGuest(guest_engine, wasmtime.Module(guest_engine, module))


def edited(mark: SamplerGuest, logits: np.ndarray, parameters: Parameters) -> np.ndarray:
    mark.write_row(logits, parameters)
    mark.step()
    assert mark.read(mark.area["results"], 8)[4] == EDITED
    return np.frombuffer(mark.logits_of(0, len(logits)), np.float32)


def test_siphash_gives_its_publishers_test_vector():
    assert siphash(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("previous", [0, 1, 7, 200_000])
@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.001, 0.999])
def test_exactly_the_detectors_green_ids_are_raised(mark, previous, gamma):
    logits = np.random.default_rng(previous).normal(0, 3, 1003).astype(np.float32)
    config = written(gamma=gamma, delta=1.5)
    found = edited(mark, logits, Parameters(prompt=(3, 9), generated=(previous,), config=config))
    green = np.array([is_green(KEY, previous, token, gamma) for token in range(len(logits))])
    assert np.array_equal(found, np.where(green, logits + np.float32(1.5), logits))


def test_an_empty_history_has_a_partition_of_its_own(mark):
    found = edited(mark, np.zeros(400, np.float32), Parameters(config=written()))
    assert set(np.unique(found)) == {0, 2}
    assert np.flatnonzero(found).tolist() == [token for token in range(400) if is_green(KEY, 2**32 - 1, token, 0.25)]


def test_the_green_share_is_gamma_and_depends_on_key_and_last_id(mark):
    rows = [
        edited(mark, np.zeros(200_000, np.float32), Parameters(prompt=(last,), config=written(key=key.hex()))) > 0
        for last, key in ((1, KEY), (2, KEY), (1, bytes(16)))
    ]
    for row in rows:
        assert abs(row.mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / len(row))
    for one, other in ((0, 1), (0, 2)):  # independent: both green in a sixteenth
        assert abs((rows[one] & rows[other]).mean() - 1 / 16) < 0.004


def test_no_number_becomes_minus_infinity_and_infinities_stay(mark):
    logits = np.array([np.nan, -INF, INF, 1] * 8, np.float32)
    found = edited(mark, logits, Parameters(prompt=(5,), config=written()))
    assert (found[0::4] == -INF).all()
    assert (found[1::4] == -INF).all()
    assert (found[2::4] == INF).all()
    assert set(found[3::4].tolist()) == {1, 3}


def test_what_lies_behind_the_row_is_not_seen(mark):
    edited(mark, np.full(64, 50, np.float32), Parameters(config=written()))
    assert edited(mark, np.zeros(61, np.float32), Parameters(config=written())).max() == 2


def test_without_any_configuration_as_in_a_hosts_self_test_the_host_draws(mark):
    logits = np.arange(9, dtype=np.float32)
    mark.write_row(logits, Parameters())
    mark.step()
    assert mark.read(mark.area["results"], 8)[4] == PASS
    assert mark.logits_of(0, 9) == logits.tobytes()


REFUSED = [
    b"{}",
    b'{"gamma":0.5}',
    written(gamma=0),
    written(gamma=1),
    written(delta=-1),
    written(delta=1e9),
    written(key="00"),
    written(key="0g" * 16),
    written(other=1),
    written()[:-1],
]


@pytest.mark.parametrize("config", REFUSED, ids=range(len(REFUSED)))
def test_a_configuration_that_no_host_lets_through_is_refused(mark, config):
    with pytest.raises(GuestRefusedError) as refusal:
        edited(mark, np.zeros(4, np.float32), Parameters(config=config))
    assert refusal.value.args[0] == CONFIG
    assert "sampler_config" in refusal.value.args[1]


def sampled_ids(mark: SamplerGuest, length: int, config: bytes | None) -> list[int]:
    """A text over 500 ids of flat probability, drawn from edited rows; None: from the plain ones."""
    numbers, said = np.random.default_rng(9), [0]
    for _ in range(length):
        row = numbers.normal(0, 1, 500).astype(np.float32)
        if config is not None:
            row = edited(mark, row, Parameters(generated=tuple(said[-1:]), config=config))
        said.append(int(np.argmax(row + numbers.gumbel(size=500))))
    return said


def test_marked_text_is_told_from_plain_text_and_from_another_keys(mark):
    marked, plain = sampled_ids(mark, 200, written()), sampled_ids(mark, 200, None)
    assert count(marked, KEY, 0.25).z > 8
    assert abs(count(plain, KEY, 0.25).z) < 4
    assert abs(count(marked, bytes(16), 0.25).z) < 4
    assert abs(count(sampled_ids(mark, 200, written(delta=0)), KEY, 0.25).z) < 4


def test_scores_of_plain_text_are_normal():
    numbers = np.random.default_rng(10)
    scores = [count(numbers.integers(0, 50_000, 120).tolist(), KEY, 0.25).z for _ in range(300)]
    assert abs(np.mean(scores)) < 0.2
    assert 0.85 < np.std(scores) < 1.15


def test_repeated_pairs_count_once():
    assert count([1, 2] * 50, KEY, 0.25).scored == 2


def test_the_score_and_its_probability_are_the_papers():
    found = Found(scored=100, green=42, gamma=0.25)
    assert found.z == pytest.approx((42 - 25) / math.sqrt(100 * 0.25 * 0.75))
    assert found.p == pytest.approx(4.3e-5, rel=0.02)


@pytest.fixture
def told(monkeypatch, capsys, tmp_path):
    """Runs `plugin detect` over standard input; its exit code, output and error."""

    def ask(text: str, *arguments: str, config: bytes | None = None):
        path = tmp_path / "mark.json"
        path.write_bytes(written() if config is None else config)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = run(["plugin", "detect", *arguments, "--config", str(path)])
        output = capsys.readouterr()
        return code, output.out, output.err

    return ask


def test_detect_tells_people_and_programs_the_same(mark, told):
    ids = json.dumps(sampled_ids(mark, 80, written()))
    code, out, _ = told(ids, "--ids", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts.keys() == {"pairs", "green", "expected_green", "z", "p", "marked"}
    assert facts["marked"] is True
    assert facts["z"] > 4
    assert facts["p"] < 1e-4
    code, out, _ = told(ids, "--ids")
    assert code == 0
    assert f"{facts['z']}" in out
    assert "yes" in out


def test_detect_reads_text_with_the_models_tokenizer(mark, told, smollm2_gguf):
    code, out, _ = told("The cat sat on the mat, and nobody marked it.", str(smollm2_gguf), "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["marked"] is False
    assert facts["pairs"] >= 8


@pytest.mark.parametrize(
    ("text", "arguments", "config", "word"),
    [
        ("[1, 2", ("--ids",), None, "array"),
        ("[1, -2]", ("--ids",), None, "array"),
        ("[true, 2]", ("--ids",), None, "array"),
        ("[1]", ("--ids",), None, "two tokens"),
        ("some text", (), None, "SOURCE"),
        ("[1, 2]", ("--ids",), b"{}", "key"),
        ("[1, 2]", ("--ids",), b'{"key": "zz00112233445566778899aabbccddee"}', "hexadecimal"),
        ("[1, 2]", ("--ids",), b'{"key": "00112233445566778899aabb  ccddee"}', "hexadecimal"),
        ("[1, 2]", ("--ids",), b"nonsense", "JSON"),
    ],
)
def test_detect_refuses_nonsense_in_one_line(told, text, arguments, config, word):
    code, out, err = told(text, *arguments, config=config)
    assert code != 0
    assert out == ""
    assert err.count("\n") == 1
    assert word in err
