"""The standard sampler guest, run directly: its draws against a float64 reference, edge values, misuse."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from plugin_harness import ACCEPT, SAMPLE, GuestRefusedError, Parameters
from sampler_reference import BOUNDARY, drawn, processed, survivors

from sealhost.plugins import reference_plugin

EMPTY, INPUT, CAPACITY = -0x40000005, -0x40000003, -0x40000004
INF = float("inf")
EVERYTHING = Parameters(
    temperature=0.8,
    top_k=40,
    top_p=0.95,
    min_p=0.05,
    repetition=1.1,
    presence=0.1,
    frequency=0.1,
    generated=tuple(range(1000)),
    config=b'{"dry_multiplier":0.8,"dynatemp_range":0.3,"top_n_sigma":2,"typical_p":0.95,"xtc_probability":1}',
)
SIZES = [1, 2, 3, 17, 100, 321, 2048, 2049, 4100, 9000, 49_152]
SHARES = [0.08, 0.08, 0.09, 0.15, 0.15, 0.1, 0.1, 0.1, 0.07, 0.05, 0.03]


def u64(u: float) -> int:
    """Random bits whose draw is u."""
    return int(u * 2**53) << 11


def random_logits(chance: np.random.Generator, size: int) -> np.ndarray:
    logits = chance.normal(0, chance.choice([0.01, 0.5, 1, 3, 8, 30]), size)
    kind = chance.integers(8)
    if kind == 0:
        logits = np.round(logits * 2) / 2  # many ties
    elif kind == 1:
        logits[:] = logits[0]
    elif kind == 2:
        logits[chance.random(size) < 0.3] = -INF
    elif kind == 3:
        logits[chance.random(size) < 0.1] = np.nan
    elif kind == 4:
        logits = logits * 1e4
    elif kind == 5 and chance.random() < 0.3:
        logits[chance.integers(size)] = INF
    elif kind == 6:
        logits = logits - 1e3
    return logits.astype(np.float32)


def random_parameters(chance: np.random.Generator, size: int) -> Parameters:
    def sometimes(share: float, values: list[float], off: float) -> float:
        return float(chance.choice(values)) if chance.random() < share else off

    history = chance.integers(0, size, chance.integers(0, 60)).tolist()
    prompt = int(chance.integers(0, len(history) + 1))
    biases = int(chance.integers(0, 4)) if chance.random() < 0.3 else 0
    return Parameters(
        temperature=float(chance.choice([0, 1e-4, 0.1, 0.7, 1, 1.5, 5])),
        top_k=int(sometimes(0.5, [-1, 1, 2, 40, 300, 5000, size, 10**7], 0)),
        top_p=sometimes(0.5, [0, 1e-4, 0.3, 0.5, 0.9, 0.95, 0.999], 1),
        min_p=sometimes(0.3, [1e-4, 0.05, 0.5, 1], 0),
        repetition=sometimes(0.4, [1.1, 2, 0.5], 1),
        presence=sometimes(0.4, [0.5, 2, -1], 0),
        frequency=sometimes(0.4, [0.3, -0.3], 0),
        prompt=tuple(history[:prompt]),
        generated=tuple(history[prompt:]),
        bias=tuple((int(chance.integers(size)), float(chance.choice([1, -5, 100, -INF]))) for _ in range(biases)),
        random=int(chance.integers(0, 2**64, dtype=np.uint64)),
    )


def agree_with_the_reference(sampler, chance: np.random.Generator, cases: int) -> int:
    compared = 0
    for case in range(cases):
        size = int(chance.choice(SIZES, p=SHARES))
        logits, parameters = random_logits(chance, size), random_parameters(chance, size)
        who = survivors(logits, parameters)
        if who is None:
            with pytest.raises(GuestRefusedError) as refusal:
                sampler.draw(logits, parameters)
            assert refusal.value.args[0] == EMPTY
        else:
            token = sampler.draw(logits, parameters)
            compared += not who.on_boundary
            assert who.on_boundary or token in drawn(who, parameters.u), (case, parameters)
        assert sampler.logits_of(0, size) == logits.tobytes()  # clause 2.9
    return compared


def test_random_draws_are_those_of_the_float64_reference(sampler):
    assert agree_with_the_reference(sampler, np.random.default_rng(20), 2500) >= 2000


@pytest.mark.soak
def test_ten_thousand_random_draws_are_those_of_the_float64_reference(sampler):
    assert agree_with_the_reference(sampler, np.random.default_rng(27), 12_500) >= 10_000


def test_every_survivor_has_exactly_the_references_share(sampler):
    # a draw in the middle of each share, and just inside both of its ends
    chance = np.random.default_rng(21)
    for _ in range(40):
        logits = random_logits(chance, 24)
        parameters = replace(random_parameters(chance, 24), temperature=float(chance.choice([0.5, 1, 2])))
        who = survivors(logits, parameters)
        if who is None or who.on_boundary:
            continue
        starts = np.concatenate([[0], who.cumulative[:-1]])
        for token, start, stop in zip(who.ids.tolist(), starts, who.cumulative, strict=True):
            for u in (start + 2 * BOUNDARY, (start + stop) / 2, stop - 2 * BOUNDARY):
                if stop - start > 8 * BOUNDARY:
                    assert sampler.draw(logits, replace(parameters, random=u64(u))) == token


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(temperature=3.0),
        Parameters(temperature=1.0, top_p=0.97),
        Parameters(temperature=2.0, min_p=1e-3),
        Parameters(temperature=1.0, top_k=20_000),
        Parameters(temperature=1.5, top_k=20_000, top_p=0.9, min_p=1e-4),
        Parameters(temperature=0.8, top_k=400, repetition=1.2, generated=tuple(range(0, 130_000, 2))),
    ],
)
def test_draws_deep_in_a_large_vocabulary_are_the_references(sampler, parameters):
    # flat enough that the best few hundred candidates do not decide
    logits = np.random.default_rng(22).normal(0, 1.5, 131_072).astype(np.float32)
    who = survivors(logits, parameters)
    for u in (0.001, 0.3, 0.77, 0.999, 1 - 2**-53):
        drawn_at = replace(parameters, random=u64(u))
        assert sampler.draw(logits, drawn_at) in drawn(who, drawn_at.u)


@pytest.mark.parametrize("changes", [{}, {"min_p": 0.0, "top_p": 0.9}, {"repetition": 1.3, "generated": (7, 8, 9)}])
def test_shares_of_the_likeliest_are_exact_beside_a_heavy_tail(sampler, changes):
    # just inside both ends of a share: here bounds of the tail's mass cannot decide, and wrong ones would show
    logits = np.random.default_rng(26).normal(0, 1.7, 100_003).astype(np.float32)
    logits[np.arange(0, 100_000, 5_000)] += np.linspace(6, 9, 20).astype(np.float32)
    parameters = Parameters(temperature=0.9, **changes)
    who = survivors(logits, parameters)
    assert who.cumulative[15] < 0.8
    for rank in range(1, 15):
        for u in (who.cumulative[rank - 1] + 2 * BOUNDARY, who.cumulative[rank] - 2 * BOUNDARY):
            assert sampler.draw(logits, replace(parameters, random=u64(u))) == who.ids[rank]


def test_the_hosts_own_sampler_draws_the_same(sampler):
    from sealhost.sandbox.params import SamplingParams
    from sealhost.sandbox.sampling import EmptyError, sample

    chance = np.random.default_rng(23)
    for _ in range(300):
        logits, p = random_logits(chance, 321), random_parameters(chance, 321)
        p = replace(p, top_k=min(p.top_k, 1000), top_p=max(p.top_p, 0.1))
        who = survivors(logits, p)
        names = {"repetition": "repetition_penalty", "presence": "presence_penalty", "frequency": "frequency_penalty"}
        same = {name: getattr(p, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        params = SamplingParams(**same, **{long: getattr(p, name) for name, long in names.items()}, logit_bias=p.bias)
        history = np.array([*p.prompt, *p.generated], np.uint32)
        try:
            expected = sample(logits, params, history, len(p.prompt), p.random)
        except EmptyError:
            assert who is None
            continue
        if not who.on_boundary and len(drawn(who, p.u)) == 1:
            assert sampler.draw(logits, p) == expected


OFF_BY_TOP_K = [0, -1, 5, 6, 9_999_999, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("top_k", OFF_BY_TOP_K)
def test_top_k_at_or_above_the_vocabulary_or_below_one_is_off(sampler, top_k):
    logits = np.array([1, 2, 3, 2, 1], np.float32)
    for u in np.linspace(0, 0.999, 23):
        plain = Parameters(random=u64(u))
        assert sampler.draw(logits, replace(plain, top_k=top_k)) == sampler.draw(logits, plain)


TINY = {"temperature": 1e-4, "top_p": 1e-4}
EDGES = [
    # what, logits, parameters, ids that may come
    ("temperature 1e-4", [10, 0, -10], {"temperature": 1e-4}, {0}),
    ("top_p 1e-4", [10, 0, -10], {"top_p": 1e-4}, {0}),
    ("both tiny", [10, 0, -10], TINY, {0}),
    ("both tiny and far apart", [1e4, -1e4], TINY, {0}),
    ("smallest temperature", [1e4, -1e4, 1e4], {"temperature": 1e-45}, {0, 2}),
    ("temperature above float32's range", [1, 2], {"temperature": INF}, {0, 1}),
    ("top_p 0 keeps one", [0, 3, 3], {"top_p": 0}, {1}),
    ("min_p 1 with equal logits keeps all of them", [4, 4, 4, 3], {"min_p": 1}, {0, 1, 2}),
    ("min_p 1 keeps one", [4, 3, 3], {"min_p": 1}, {0}),
    ("all filters at their tightest", [4, 4, 4], {"min_p": 1, "top_k": 1, "top_p": 1e-9}, {0}),
    ("greedy takes the lowest of equals", [1, 7, 7, 7], {"temperature": 0}, {1}),
    ("top-k takes the lowest of equals", [1, 7, 7, 7], {"top_k": 2}, {1, 2}),
    ("NaN counts as -inf", [np.nan, -5, np.nan], {}, {1}),
    ("NaN counts as -inf, greedy", [np.nan, -5, np.nan], {"temperature": 0}, {1}),
    ("+inf wins", [3e38, INF, 5], {}, {1}),
    ("+inf wins, greedy", [3e38, INF, INF], {"temperature": 0}, {1}),
    ("several +inf share", [INF, 5, INF], {"top_p": 0.9}, {0, 2}),
    ("largest floats", [3.4e38, -3.4e38, 3.4e38], {"temperature": 0.5}, {0, 2}),
    ("-0.0 equals 0.0", [-0.0, 0.0], {"temperature": 0}, {0}),
    ("one logit", [-1e30], {"top_k": 1, "min_p": 1}, {0}),
    ("a bias of -inf forbids even +inf", [INF, 1], {"bias": ((0, -INF),)}, {1}),
    ("a bias of +100 wins", [5, 1, 9], {"bias": ((1, 100.0),), "temperature": 0}, {1}),
    ("two biases of one id add up", [5, 1, 9], {"bias": ((1, 5.0), (1, 5.0)), "temperature": 0}, {1}),
    ("frequency counts each time", [5, 4], {"frequency": 0.6, "generated": (0, 0), "temperature": 0}, {1}),
    ("presence counts once", [5, 4], {"presence": 0.6, "generated": (0, 0), "temperature": 0}, {0}),
    ("a prompt id is not present", [5, 4], {"presence": 9, "frequency": 9, "prompt": (0,), "temperature": 0}, {0}),
    ("repetition sees the prompt", [5, 4], {"repetition": 2, "prompt": (0,), "temperature": 0}, {1}),
    ("penalties reach below float32", [-3e38, -3.2e38], {"repetition": 2, "prompt": (0, 1)}, {0}),
    ("penalties reach above float32", [3e38, -5], {"repetition": 0.5, "prompt": (0, 1)}, {0}),
    (
        "penalties reach below float32, greedy",
        [-3e38, -3e38],
        {"repetition": 2, "prompt": (0, 1), "temperature": 0},
        {0},
    ),
    ("repetition pushes negative logits down", [-1, -1.5], {"repetition": 2, "prompt": (0,), "temperature": 0}, {1}),
]


@pytest.mark.parametrize(
    ("logits", "changes", "allowed"), [edge[1:] for edge in EDGES], ids=[edge[0] for edge in EDGES]
)
def test_edge_values_draw_only_what_they_may_and_all_of_it(sampler, logits, changes, allowed):
    row = np.array(logits, np.float32)
    ids = {sampler.draw(row, Parameters(random=u64(u), **changes)) for u in np.linspace(0, 1 - 2**-53, 41)}
    assert ids == allowed


def test_at_a_boundary_the_draw_goes_to_the_next_candidate(sampler):
    # the first whose cumulative probability exceeds u: four equal shares have boundaries that float64 holds exactly
    for share in range(4):
        assert sampler.draw(np.zeros(4, np.float32), Parameters(random=u64(share / 4))) == share
        assert sampler.draw(np.zeros(4, np.float32), Parameters(top_p=0.5, random=u64(share / 4))) == share // 2


def test_which_ids_each_penalty_sees(sampler):
    # logits 4.0 and -4.0, both in the prompt, none generated: presence and frequency leave them, repetition does not
    logits = np.full(67, -100, np.float32)
    logits[65], logits[66] = 4.0, -4.0
    untouched = Parameters(presence=2, frequency=2, prompt=(65, 66))
    assert processed(logits, untouched)[65] == 4.0
    repeated = replace(untouched, repetition=2)
    assert processed(logits, repeated)[[65, 66]].tolist() == [2.0, -8.0]
    for parameters in (untouched, repeated):
        first, second = survivors(logits, parameters).cumulative[:2]
        assert sampler.draw(logits, replace(parameters, random=u64(first - 2 * BOUNDARY))) == 65
        assert sampler.draw(logits, replace(parameters, random=u64(min(first + 2 * BOUNDARY, second)))) == 66


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("value", [-INF, np.nan])
def test_a_row_without_a_candidate_is_the_defined_error(sampler, value, temperature):
    with pytest.raises(GuestRefusedError) as refusal:
        sampler.draw(np.full(1000, value, np.float32), Parameters(temperature=temperature))
    status, text = refusal.value.args
    assert status == EMPTY
    assert "no token can be drawn" in text


def test_forbidding_every_id_by_bias_is_the_same_error(sampler):
    with pytest.raises(GuestRefusedError) as refusal:
        sampler.draw(np.zeros(3, np.float32), Parameters(bias=((0, -INF), (1, -INF), (2, -INF))))
    assert refusal.value.args[0] == EMPTY
    assert sampler.draw(np.zeros(3, np.float32), Parameters(temperature=0)) == 0


@pytest.mark.parametrize("size", [31, 511, 512, 513, 1024, 1535, 4099])
@pytest.mark.parametrize("nothing", [np.nan, -INF, -3.4e38])
def test_greedy_takes_the_first_of_equals_wherever_they_lie(sampler, size, nothing):
    chance = np.random.default_rng(28)
    for _ in range(60):
        logits = np.full(size, nothing, np.float32)
        spread = chance.random(size) < chance.choice([0, 0.1, 0.9])
        logits[spread] = chance.choice([-7, -5, 0, np.nan], int(spread.sum()))
        places = chance.integers(0, size, int(chance.integers(1, 5)))
        logits[places] = chance.choice([0.5, 3, INF])
        assert sampler.draw(logits, Parameters(temperature=0)) == places.min()


def test_stale_logits_beyond_the_vocabulary_are_not_seen(sampler):
    sampler.write_row(np.full(5000, 100, np.float32), Parameters())
    for size in (3, 16, 17, 2047, 4095):
        for parameters in (Parameters(temperature=0), Parameters(temperature=50.0, random=u64(1 - 2**-53))):
            assert sampler.draw(-np.arange(size, dtype=np.float32), parameters) < size


def test_rows_of_one_step_do_not_mix(sampler):
    chance = np.random.default_rng(24)
    cases = [(random_logits(chance, 500), random_parameters(chance, 500)) for _ in range(sampler.area["max_rows"])]
    alone = [sampler.draw(*case) for case in cases]
    for index, (logits, parameters) in enumerate(cases):
        sampler.write_row(logits, parameters, index, ACCEPT | SAMPLE)
    sampler.step(len(cases))
    assert [sampler.result(index) for index in range(len(cases))] == alone


def test_a_row_without_the_sample_flag_gets_no_answer(sampler):
    sampler.write_row(np.full(10, -INF, np.float32), Parameters(), flags=ACCEPT)
    sampler.step()


def test_reset_and_earlier_steps_change_nothing(sampler):
    logits = np.random.default_rng(25).normal(0, 2, 5000).astype(np.float32)
    parameters = Parameters(repetition=1.3, generated=(1, 2, 3), random=u64(0.4))
    first = sampler.draw(logits, parameters)
    sampler.draw(-logits, Parameters(presence=1, generated=tuple(range(100)), temperature=3))
    assert sampler.draw(logits, parameters) == first
    assert sampler.call("reset") == 0
    assert sampler.draw(logits, parameters) == first


def spoil(sampler, offset: int, value: int) -> None:
    sampler.write(sampler.area["rows"] + offset, value.to_bytes(4, "little"))


SPOILED = {
    "size": (0, 79, INPUT),
    "vocab_size 0": (12, 0, CAPACITY),
    "vocab_size above": (12, 0xFFFFFFFF, CAPACITY),
    "prompt above history": (32, 9, INPUT),
    "history above": (36, 131_073, CAPACITY),
    "bias above": (40, 4097, CAPACITY),
    "negative temperature": (48, 0xBF800000, INPUT),
    "NaN temperature": (48, 0x7FC00000, INPUT),
    "NaN top_p": (56, 0x7FC00000, INPUT),
    "min_p 1.5": (60, 0x3FC00000, INPUT),
    "repetition 0": (64, 0, INPUT),
}


@pytest.mark.parametrize(("offset", "value", "status"), SPOILED.values(), ids=SPOILED.keys())
def test_a_row_that_breaks_the_rules_is_an_error_with_a_text(sampler, offset, value, status):
    sampler.write_row(np.zeros(10, np.float32), Parameters())
    spoil(sampler, offset, value)
    with pytest.raises(GuestRefusedError) as refusal:
        sampler.step()
    assert refusal.value.args[0] == status
    assert refusal.value.args[1].startswith("step: ")


@pytest.mark.parametrize(
    "changes", [{"bias": ((3, 1.0),)}, {"repetition": 2, "prompt": (0, 3)}, {"presence": 1, "generated": (2**32 - 1,)}]
)
def test_ids_outside_the_vocabulary_are_refused_and_leave_no_trace(sampler, changes):
    logits = np.array([1, 2, 3], np.float32)
    with pytest.raises(GuestRefusedError) as refusal:
        sampler.draw(logits, Parameters(**changes))
    assert refusal.value.args[0] == INPUT
    assert sampler.logits_of(0, 3) == logits.tobytes()
    assert sampler.draw(logits, Parameters(temperature=0)) == 2


def test_more_rows_than_the_layout_has_are_refused(sampler):
    assert sampler.call("step", sampler.area["max_rows"] + 1) == INPUT


def test_the_layout_holds_the_largest_vocabularies_and_contexts(sampler):
    area = sampler.area
    assert area["vocab_capacity"] >= 262_208
    assert area["history_capacity"] >= 131_072
    assert area["logits"] % 4096 == area["logits_stride"] % 4096 == 0
    logits = np.zeros(262_208, np.float32)
    logits[262_207] = 1
    longest = Parameters(temperature=0, frequency=0.1, prompt=(0,) * 65_536, generated=(5,) * 65_536)
    assert sampler.draw(logits, longest) == 262_207


@pytest.mark.parametrize(
    ("parameters", "most"),
    [
        (Parameters(temperature=0), 0.2e6),
        (Parameters(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05), 0.3e6),
        (Parameters(temperature=0.8, top_k=40, repetition=1.1, presence=0.1, generated=tuple(range(1000))), 0.6e6),
        (EVERYTHING, 1.8e6),
        (Parameters(temperature=0.8), 4e6),
        (Parameters(temperature=0.8, random=u64(0.93)), 11e6),
        (Parameters(temperature=3.0, random=u64(0.9)), 9e6),
        (Parameters(top_k=20_000, random=u64(0.9)), 9e6),
        (Parameters(temperature=2.0, top_p=0.97, random=u64(0.9)), 11e6),
        (Parameters(random=u64(0.6), config=b'{"mirostat":2}'), 4e6),
        (Parameters(random=u64(0.6), config=b'{"xtc_probability":1}'), 11e6),
        (Parameters(random=u64(0.6), config=b'{"dynatemp_range":0.5}'), 9e6),
        (Parameters(random=u64(0.6), config=b'{"typical_p":0.9}'), 11e6),
        (Parameters(random=u64(0.6), top_p=0.95, config=b'{"top_n_sigma":0}'), 11e6),
    ],
)
def test_a_step_at_128k_logits_costs_no_more_instructions_than_the_readme_says(sampler, parameters, most):
    chance = np.random.default_rng(1)
    logits = chance.normal(0, 3, 131_072).astype(np.float32)
    logits[chance.integers(0, len(logits), 20)] += chance.uniform(0, 12, 20).astype(np.float32)
    sampler.draw(logits, parameters)
    assert sampler.spent <= most


ALL_AT_ONCE = (
    b'{"typical_p":0.999999,"dry_multiplier":1,"dry_allowed_length":1,"xtc_probability":1,"xtc_threshold":1e-9,'
    b'"top_n_sigma":100,"dynatemp_range":0.5}'
)


@pytest.mark.parametrize(
    ("parameters", "most"),
    [
        (Parameters(top_k=261_000, config=b'{"typical_p":0.99999}'), 200e6),
        (Parameters(top_p=0.999, config=b'{"xtc_probability":1,"xtc_threshold":1e-9}'), 160e6),
        (Parameters(top_k=261_000, top_p=0.9999, min_p=1e-9, repetition=1.3, presence=1, frequency=1,
                    generated=tuple(range(131_000)), config=ALL_AT_ONCE), 310e6),
    ],
)  # fmt: skip
def test_a_step_in_which_nearly_all_of_262k_ids_stay_is_far_from_its_deadline(sampler, parameters, most):
    # any client may ask for it; five such requests that exceed 100 ms would keep the plugin from all others
    logits = np.random.default_rng(1).normal(0, 3, 262_144).astype(np.float32)
    sampler.draw(logits, parameters)
    assert sampler.spent <= most


def test_the_table_of_powers_is_correctly_rounded():
    text = (reference_plugin("sampler", "standard").parent / "common/exponential.c").read_text()
    table = [float.fromhex(one) for one in re.findall(r"0x1\.[0-9a-f]+p[+]0", text)]
    with localcontext(prec=40):
        assert table == [float(Decimal(2) ** (Decimal(step) / 256)) for step in range(256)]


def test_the_module_imports_nothing_and_its_memory_is_fixed(standard_module):
    assert not list(standard_module.imports)
    limits = next(export.type.limits for export in standard_module.exports if export.name == "memory")
    assert limits.min == limits.max == 640
