"""JSON Schema's own test suite against the guest `json`: what does not fit is never taken, what fits is, as its README says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from grammar_guest import GrammarGuest
from grammar_reference import NEVER, Read
from json_reference import Texts, dumps
from plugin_harness import GuestRefusedError

from sealhost.plugins import reference_plugin

GROUPS = json.loads((Path(__file__).parent / "json_schema_cases.json").read_text())


@pytest.fixture(scope="module")
def suite_guest(guest_engine):
    module = reference_plugin("sampler", "json") / "plugin.wasm"
    return GrammarGuest(guest_engine, wasmtime.Module(guest_engine, module.read_bytes()))


def words(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        return set(schema).union(*map(words, schema.values()))
    return set().union(*map(words, schema)) if isinstance(schema, list) else set()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_a_group_of_the_suite(group, suite_guest):
    _, schema, cases = group
    config, said = {"schema": dumps(schema)}, words(schema)
    language = Texts(schema).of(schema)
    if language == NEVER or schema == {"$ref": "#/$defs/bool", "$defs": {"bool": False}}:
        with pytest.raises(GuestRefusedError, match="some text fits"):
            suite_guest.allowed(config)
        return
    for value, fits in cases:
        raw = dumps(value).encode()
        taken = suite_guest.takes(config, raw)
        if not fits and "oneOf" not in said:  # clause 1.1: that no other branch fits is not checked
            assert not taken, value
        assert taken == Read(language).take(raw).ends, value


def test_most_of_what_fits_is_taken(suite_guest):
    """The rest are values that chapters 1 and 2 leave out: types that no keyword is about, 1.0 for 1, other members, another order, leap seconds."""
    fitting = [(dumps(schema), dumps(value)) for _, schema, cases in GROUPS for value, fits in cases if fits]
    taken = sum(suite_guest.takes({"schema": schema}, raw.encode()) for schema, raw in fitting)
    assert taken >= 0.8 * len(fitting)
    assert len(GROUPS) >= 160
