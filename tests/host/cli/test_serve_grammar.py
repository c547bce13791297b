"""`response_format` the whole way: a signed plugin bundle with the guest `json`, a real model, the official client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import openai
import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.model

MODEL = "smollm2"
QUESTION = [{"role": "user", "content": "Invent a person and describe them."}]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "likes": {"type": "array", "items": {"enum": ["tea", "coffee", "water"]}, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(
    signed_smollm2: Any, start_serve: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    bundle = tmp_path_factory.mktemp("grammar") / "grammar-1"
    packed = ["plugin", "pack", str(reference_plugin("sampler", "json")), "--out", str(bundle)]
    assert run([*packed, "--name", "grammar", "--version", "1"]) == 0
    assert run(["sign", str(bundle), "--key", str(signed_smollm2.private_key)]) == 0
    arguments = [str(signed_smollm2.root), "--keys", str(signed_smollm2.keys), "--plugin", str(bundle)]
    served = start_serve([*arguments, "--context", "1024", "--kv-mib", "96"])
    assert served.process.poll() is None, served.lines
    with openai.OpenAI(base_url=served.url + "/v1", api_key="unused", max_retries=0, timeout=120) as client:
        yield client
    assert served.terminate() == 0


def ask(client: openai.OpenAI, schema: Any, **more: Any) -> Any:
    wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}}
    more = {"temperature": 1.5, "max_tokens": 200, **more}
    return client.chat.completions.create(model=MODEL, messages=QUESTION, response_format=wanted, **more)


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_fits_the_schema_at_a_high_temperature(client: openai.OpenAI, seed: int) -> None:
    answer = ask(client, PERSON, seed=seed).choices[0]
    assert answer.finish_reason == "stop"
    jsonschema.validate(json.loads(answer.message.content), PERSON)


def test_choices_and_streams_fit_too(client: openai.OpenAI) -> None:
    both = ask(client, PERSON, seed=7, n=2)
    for choice in both.choices:
        jsonschema.validate(json.loads(choice.message.content), PERSON)
    chunks = ask(client, PERSON, seed=7, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == both.choices[0].message.content


def test_an_end_that_a_request_likes_by_a_hundred_waits_for_the_grammar(client: openai.OpenAI) -> None:
    answer = ask(client, PERSON, seed=1, logit_bias={"0": 100, "2": 100}).choices[0]
    jsonschema.validate(json.loads(answer.message.content), PERSON)


def test_a_schema_that_the_guest_does_not_know_is_400_with_the_keyword(client: openai.OpenAI) -> None:
    for schema, word in (
        ({"contains": {"type": "null"}}, "contains"),
        ({"type": "text"}, "type: expected null"),
    ):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match=word) as caught:
                ask(client, schema, stream=stream)
            assert caught.value.param == "response_format.json_schema.schema"
    assert ask(client, {"const": 1}).choices[0].message.content == "1"


GRAMMAR = r"""
root ::= "- " thing ("\n- " thing){1,2} # two or three lines
thing ::= ("tea" | "cake" | [0-9]{1,2} " plums") "."
"""
LINES = re.compile(r"- (tea|cake|[0-9]{1,2} plums)\.(\n- (tea|cake|[0-9]{1,2} plums)\.){1,2}")


def test_both_routes_keep_to_a_grammar(client: openai.OpenAI) -> None:
    more = {"sampler": "json", "sampler_config": {"grammar": GRAMMAR}}
    for seed in range(2):
        asked = {"model": MODEL, "temperature": 1.5, "max_tokens": 60, "seed": seed, "extra_body": more}
        answer = client.completions.create(prompt="A list:\n", **asked).choices[0]
        chat = client.chat.completions.create(messages=QUESTION, **asked).choices[0]
        for text, reason in ((answer.text, answer.finish_reason), (chat.message.content, chat.finish_reason)):
            assert reason == "stop"
            assert LINES.fullmatch(text or ""), text


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"grammar": "root ::= item\nitem ::= item"}, "grammar: line 2, column 10: expected no left recursion"),
        ({"grammar": "root ::= ", "schema": {}}, "either schema or grammar, got both"),
        ({}, "expected at least 1 properties"),
        ({"grammar": "root ::= " + "(" * 60_000 + ")" * 60_000}, "expected at most 16384 bytes"),
        ({"grammar": "root ::= " + "(" * 7_000 + ")" * 7_000}, "at most 256 groups within groups"),
    ],
    ids=range(5),
)
def test_a_grammar_that_is_refused_is_400_on_both_routes(client: openai.OpenAI, config: Any, text: str) -> None:
    more = {"sampler": "json", "sampler_config": config}
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match=text):
            client.completions.create(model=MODEL, prompt="a", stream=stream, extra_body=more)
        with pytest.raises(openai.BadRequestError, match=text):
            client.chat.completions.create(model=MODEL, messages=QUESTION, stream=stream, extra_body=more)


def exponential() -> dict[str, Any]:
    levels = {
        f"l{i}": {"anyOf": [{"prefixItems": [{"$ref": f"#/$defs/l{i + 1}"}], "minItems": n} for n in (1, 2)]}
        for i in range(40)
    }
    return {"$ref": "#/$defs/l0", "$defs": {**levels, "l40": {"type": "integer"}}}


def test_deep_large_and_exponential_schemas_are_refused_or_kept_to(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="expected at most"):
        ask(client, {"enum": ["x" * 20_000]})
    body = '{"model": "smollm2", "messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_schema", "json_schema": {"schema": '
    body += '{"items":' * 60_000 + "{}" + "}" * 60_000 + "}}}"
    deep = client._client.post(
        f"{client.base_url}chat/completions", content=body, headers={"content-type": "application/json"}
    )
    assert deep.status_code == 400
    with pytest.raises(openai.BadRequestError, match="too many"):
        ask(client, exponential(), max_tokens=60)
    assert ask(client, {"const": 1}).choices[0].message.content == "1"
