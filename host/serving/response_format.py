"""`response_format` of a chat: the answer's shape, held by the sampler named `json` (clause 5.12).

Rules
* `text` asks for nothing; `json_object` is the schema {"type": "object"}; `json_schema` brings its own.
* Nothing is approximated: a model without that sampler, a sampler of the client's own beside it, a schema that is too
  large or that the guest does not know are 400, before anything is generated.
* The schema goes to the guest as a text, so that its members keep the order that the client gave them.

Source: OpenAI's API reference, "Structured outputs".

Example:
    request = with_format(request, model)        # sampler and sampler_config are set
    if (field := field_to_try(request, model)) is not None:
        await workers.run(try_config, request, model, options.sampler_config, field)
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...sandbox import GuestError, SamplingParams, SandboxError
from ..errors import RequestError
from .options import sampler_is_fixed
from .schema import ChatRequest

if TYPE_CHECKING:
    from .schema import Generate
    from .served import ServedModel

SAMPLER: Final = "json"
"""Name of the sampler that keeps an answer to a schema; plugins/samplers/json is one."""

FIELD: Final = "response_format"

_SCHEMA = f"{FIELD}.json_schema.schema"
_KNOWN = frozenset(("name", "description", "schema", "strict"))
_STATUS: Final = re.compile(r"\A\w+ answered \w+: ")
"""What the sandbox puts before a guest's own words: the function and its status."""

_REMEDY = 'send {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": ...}}'


def with_format(request: ChatRequest, model: ServedModel) -> ChatRequest:
    """The request with the sampler and the configuration that its format means.

    Raises:
        RequestError: 400, the format is malformed, or this model cannot keep to it, or the operator has chosen another
            sampler.
    """
    schema = _schema(request.response_format)
    if schema is None:
        return request
    if model.fixed_sampler is not None:
        raise sampler_is_fixed(model.fixed_sampler, FIELD)
    for name in ("sampler", "sampler_config"):
        if getattr(request, name) is not None:
            raise RequestError(f"expected it to be absent beside {FIELD}", f"leave {name} out", param=name)
    sampler = model.samplers.get(SAMPLER)
    if sampler is None:
        problem = f"expected a model with a sampler named {SAMPLER}, got one without"
        beside = f"serve it with the --plugin bundle that `sealhost plugin pack {SAMPLER}` makes"
        remedy = f"pack the model with --sampler standard --sampler {SAMPLER}, or {beside}"
        raise RequestError(problem, remedy, param=FIELD)
    config = {"schema": json.dumps(schema, ensure_ascii=False, separators=(",", ":"))}
    try:
        sampler.config_bytes(config)
    except SandboxError as error:
        raise RequestError(error.problem, error.remedy, param=_where(request)) from None
    return msgspec.structs.replace(request, sampler=SAMPLER, sampler_config=config)


def field_to_try(request: Generate, model: ServedModel) -> str | None:
    """The field of a request that its guest shall look at before it runs, None: there is none.

    That is a format, or a configuration of a sampler of the tier `mask`: a schema, a grammar, a pattern.
    A chat has been through `with_format`.
    """
    if isinstance(request, ChatRequest) and _schema(request.response_format) is not None:
        return _where(request)
    if request.sampler is None or request.sampler_config is None:
        return None
    return "sampler_config" if model.samplers[request.sampler].tier == "mask" else None


def try_config(request: Generate, model: ServedModel, config: bytes, field: str) -> None:
    """Lets the guest look at its configuration before the request runs: what it refuses is the client's fault.

    Never call this on an event loop. It costs one instance and its first mask.

    Raises:
        RequestError: 400, in the guest's words.
        GuestError: The guest cannot be asked, or failed.
    """
    try:
        with closing(
            model.samplers[request.sampler or SAMPLER].session(SamplingParams(), (), config=config)
        ) as session:
            session.prepare((0,))
    except GuestError as error:
        if error.kind != "config":
            raise
        remedy = "correct it, see the sampler's documentation" if field == "sampler_config" else "simplify the schema"
        words = _STATUS.sub("", error.reason)
        raise RequestError(f"the sampler refuses it: {words}", remedy, param=field) from None


def _where(request: ChatRequest) -> str:
    is_own = request.response_format is not None and request.response_format.get("type") == "json_schema"
    return _SCHEMA if is_own else FIELD


def _schema(response_format: dict[str, Any] | None) -> dict[str, Any] | bool | None:
    """The schema that a format stands for, None: any text."""
    if response_format is None:
        return None
    kind = response_format.get("type")
    _require(kind in ("text", "json_object", "json_schema"), "type", "text, json_object or json_schema", kind)
    others = response_format.keys() - {"type"} - ({"json_schema"} if kind == "json_schema" else set())
    _require(not others, "", "no other fields", ", ".join(sorted(others)))
    if kind != "json_schema":
        return {"type": "object"} if kind == "json_object" else None
    given = response_format.get("json_schema")
    if not isinstance(given, dict):
        raise _wrong("json_schema", "an object with a schema", given)
    others = given.keys() - _KNOWN
    _require(not others, "json_schema", f"only {', '.join(sorted(_KNOWN))}", ", ".join(sorted(others)))
    for name in ("name", "description"):
        _require(isinstance(given.get(name, ""), str | None), f"json_schema.{name}", "a text", given.get(name))
    _require(isinstance(given.get("strict"), bool | None), "json_schema.strict", "true or false", given.get("strict"))
    schema = given.get("schema")
    if not isinstance(schema, dict | bool):
        raise _wrong("json_schema.schema", "an object, true or false", schema)
    return schema


def _require(holds: bool, field: str, expected: str, got: object) -> None:  # noqa: FBT001 -- it is what is asked
    if not holds:
        raise _wrong(field, expected, got)


def _wrong(field: str, expected: str, got: object) -> RequestError:
    shown = "nothing" if got is None else str(got)[:80]
    return RequestError(f"expected {expected}, got {shown}", _REMEDY, param=f"{FIELD}.{field}".rstrip("."))
