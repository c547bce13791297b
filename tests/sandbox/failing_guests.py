"""Samplers whose step goes wrong, each in its own way."""

from __future__ import annotations

import pytest

from sealhost.sandbox import GuestError, SamplingParams

LOOP = '(func (export "step") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))'
PASSES = """(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 2)) (i32.const 0))"""
TRAP = '(func (export "step") (param i32) (result i32) (unreachable))'
RECURSE = '(func $r (param i64) (result i64) (i64.add (i64.const 1) (call $r (local.get 0)))) (func (export "step") (param i32) (result i32) (drop (call $r (i64.const 0))) (i32.const 0))'


def load(sandbox, build_guest, text="", **options):
    """A sampler with this `step`; see the fixture `build_guest`."""
    return sandbox.load_sampler(build_guest("sampler", text, **options), 260)


def kind_of_failure(sampler) -> str:
    """How the error of its first step is called."""
    with sampler.session(SamplingParams(), []) as session, pytest.raises(GuestError) as caught:
        session.step()
    return caught.value.kind
