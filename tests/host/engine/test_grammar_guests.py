"""The grammar guests at work on the demo model: whatever it says at temperature 1.5 fits."""

from __future__ import annotations

import json
import random
import re
from contextlib import ExitStack, closing
from dataclasses import replace

import jsonschema
import pytest

from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.engine.loop import Engine
from sealhost.plugins import reference_plugin
from sealhost.sandbox import OperatorLimits, SamplingParams, Sandbox

pytestmark = pytest.mark.model

PATIENCE = 300

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "kind": {"enum": ["human", "robot", "café"]},
    },
    "required": ["name", "age", "kind"],
}
SCHEMAS = [
    PERSON,
    {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 4},
    {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"const": {"no": ["answer"]}}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"leaf": {"type": "boolean"}, "left": {"$ref": "#/$defs/tree"}}, "required": ["leaf"]}}},
    {"type": "object", "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}}, "additionalProperties": {"type": "null"}},
]  # fmt: skip


@pytest.fixture(scope="module")
def engine(loaded, config, tmp_path_factory):
    """The demo model with both grammar guests."""
    root = tmp_path_factory.mktemp("grammar")
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(OperatorLimits(step_ms=120_000), cache_directory=root / "cache"))
        samplers = {
            name: sandbox.load_sampler(
                AuthoredPlugin.read(reference_plugin("sampler", name)), loaded.spec.vocab, loaded.vocabulary
            )
            for name in ("json", "regex")
        }
        one = Engine(replace(loaded, samplers=samplers), config)
        one.start()
        stack.enter_context(closing(one))
        yield one


@pytest.fixture
def ask(engine, loaded, twin, smollm2_goldens):
    """Answers' texts; None for one that did not end within its length."""

    def ask(sampler: str, configs: list[dict], *, tokens: int = 120, first_seed: int = 0, **params):
        plugin = engine._core._loaded.samplers[sampler]
        clients = []
        for number, config in enumerate(configs):
            prompt = smollm2_goldens[number % len(smollm2_goldens)]["token_ids"]
            wanted = SamplingParams(**{"temperature": 1.5, "seed": first_seed + number, **params})
            (one,) = twin.group(prompt, tokens, n=1, name=f"g{number}", sampler=sampler)
            raw = plugin.config_bytes(config)
            one = replace(one, params=wanted, stop_ids=loaded.end_ids, sampler_config=raw, group=None)
            clients.append(twin.Client())
            engine.submit(one, clients[-1])
        texts = []
        for client in clients:
            assert client.ended.wait(PATIENCE)
            assert getattr(client.last, "reason", None) in ("stop", "length"), client.last
            raw = b"".join(
                loaded.vocabulary.token_bytes[token] for token in client.tokens if token not in loaded.end_ids
            )
            texts.append(raw if client.last.reason == "stop" else None)
        return texts

    return ask


def check(answers: list, schemas: list, least: int) -> None:
    ended = [(raw, schema) for raw, schema in zip(answers, schemas, strict=True) if raw is not None]
    for raw, schema in ended:
        jsonschema.validate(json.loads(raw), schema)
    assert len(ended) >= least


def test_whatever_the_model_says_under_a_schema_fits_it(ask):
    schemas = SCHEMAS * 2
    check(ask("json", [{"schema": json.dumps(schema)} for schema in schemas]), schemas, 6)


@pytest.mark.soak
def test_a_thousand_answers_under_random_schemas_fit_them(ask, random_schemas):
    schemas = [random_schemas(random.Random(seed)) for seed in range(1000)]
    ended = 0
    for start in range(0, 1000, 50):
        part = schemas[start : start + 50]
        answers = ask("json", [{"schema": json.dumps(one)} for one in part], tokens=200, first_seed=start)
        check(answers, part, 0)
        ended += sum(answer is not None for answer in answers)
    assert ended > 800


@pytest.fixture(scope="module")
def random_schemas():
    """The generator of the guests' own tests."""
    import runpy
    from pathlib import Path

    return runpy.run_path(str(Path(__file__).parents[2] / "plugins" / "json_schemas.py"))["random_schema"]


def test_whatever_the_model_says_under_a_pattern_matches_it(ask):
    patterns = [r"1[89][0-9]{2}", "(yes|no|perhaps), [a-z]{3,9}\\.", "[\u0430-\u044f]{2,5}"]
    for raw, pattern in zip(ask("regex", [{"pattern": one} for one in patterns]), patterns, strict=True):
        assert re.fullmatch(pattern, raw.decode())


def test_no_bias_draws_an_end_before_the_text_is_whole(ask, loaded):
    """Stop ids that a request likes by 100 are masked until the grammar allows the end."""
    bias = tuple((token, 100.0) for token in sorted(loaded.end_ids))
    answers = ask("json", [{"schema": json.dumps(PERSON)}, {"schema": True}], logit_bias=bias)
    for raw, schema in zip(answers, [PERSON, True], strict=True):
        jsonschema.validate(json.loads(raw), schema)
    (empty,) = ask("regex", [{"pattern": "a*"}], logit_bias=bias)
    assert empty == b""  # it may end at once, and so it does


@pytest.mark.parametrize(
    "narrow",
    [{"min_p": 1.0}, {"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0, "top_k": 1, "top_p": 1e-9, "temperature": 1e-4}],
)
def test_the_narrowest_filters_leave_one_id_of_what_is_allowed(ask, narrow):
    """They come after the mask, so none of them can leave nothing."""
    schemas = SCHEMAS[:3]
    check(ask("json", [{"schema": json.dumps(one)} for one in schemas], **narrow), schemas, 2)
