"""The report tells what admission would raise, and more: every clause that the module breaks, and what could not be checked."""

from __future__ import annotations

import dataclasses
import random

import pytest

from sealhost.sandbox import AdmissionError, SamplingParams, Sandbox
from sealhost.sandbox.admission import REMEDIES
from sealhost.sandbox.report import TITLES, Verdict, admission_report
from sealhost.sandbox.wasm_rewrite import unsigned


@pytest.fixture(scope="module")
def report(sandbox, byte_vocabulary):
    def tell(guest):
        return {finding.clause: finding for finding in admission_report(sandbox, guest, byte_vocabulary)}

    return tell


def verdicts(findings, verdict):
    return {clause for clause, finding in findings.items() if finding.verdict is verdict}


@pytest.mark.parametrize("role", ["sampler", "tokenizer"])
def test_every_clause_of_a_good_module_is_ok(role, report, build_guest):
    findings = report(build_guest(role))
    assert list(findings) == [clause for clause in TITLES if role == "tokenizer" or clause != "1.16"]
    assert verdicts(findings, Verdict.OK) == set(findings)


def test_all_faults_are_told_at_once(report, guest_of_bytes):
    import wasmtime

    wasm = wasmtime.wat2wasm("(module (memory 1 2) (table 2000 funcref) (global v128 (v128.const i64x2 0 0)) (func $f) (start $f))")  # fmt: skip
    findings = report(guest_of_bytes("sampler", bytes(wasm)))
    assert verdicts(findings, Verdict.REFUSED) == {"1.4", "1.5", "1.6", "1.7", "1.9"}
    assert len(findings["1.9"].problems) == 5
    assert len(findings["1.5"].problems) == 2
    assert findings["1.5"].remedy == REMEDIES["1.5"]
    assert {"1.12", "1.13", "1.14", "1.15"} <= verdicts(findings, Verdict.UNCHECKED)
    assert findings["1.13"].problems == ("could not be checked: see clauses 1.4, 1.5, 1.6, 1.7, 1.9",)
    assert findings["1.14"].problems[0].startswith("its manifest entry is in order; which ABI the module itself")


def test_what_rests_on_an_unreadable_section_is_unchecked_and_never_ok(report, guest_of_bytes):
    import wasmtime

    wasm = wasmtime.wat2wasm('(module (import "env" "expf" (func (param f32) (result f32))) (memory 1 1))')
    findings = report(guest_of_bytes("sampler", bytes(wasm)))
    assert verdicts(findings, Verdict.REFUSED) == {"1.3"}
    assert {"1.5", "1.9", "1.11"} <= verdicts(findings, Verdict.UNCHECKED)
    assert "import section" in findings["1.9"].problems[0]
    assert {"1.1", "1.2", "1.4", "1.8"} <= verdicts(findings, Verdict.OK)


@pytest.mark.parametrize(("wasm", "clause"), [(b"(module)", "1.1"), (b"\0asm\1\0\0\0\1\x7f", "1.2")])
def test_nothing_is_said_of_a_module_whose_sections_cannot_be_found(wasm, clause, report, guest_of_bytes):
    findings = report(guest_of_bytes("tokenizer", wasm))
    assert verdicts(findings, Verdict.REFUSED) == {clause}
    assert verdicts(findings, Verdict.OK) == {"1.1"} - {clause}
    assert clause in findings["1.3"].problems[0]


def test_a_bad_manifest_entry_does_not_hide_the_bytes(report, build_guest):
    findings = report(dataclasses.replace(build_guest("sampler"), abi=2, tier="half"))
    assert verdicts(findings, Verdict.REFUSED) == {"1.14"}
    assert len(findings["1.14"].problems) == 2
    assert {"1.1", "1.5", "1.9", "1.11"} <= verdicts(findings, Verdict.OK)


def test_without_a_known_role_exports_cannot_be_judged(report, build_guest):
    findings = report(dataclasses.replace(build_guest("sampler"), role="router"))
    assert verdicts(findings, Verdict.REFUSED) == {"1.14"}
    assert "1.9" in verdicts(findings, Verdict.UNCHECKED)


@pytest.mark.parametrize(
    ("role", "text", "clause"),
    [
        ("sampler", '(func (export "step") (param i32) (result i32) (return_call 0 (i32.const 0)))', "1.12"),
        ("sampler", '(func (export "sealhost_sampler_v1") (result i32) (i32.const 9))', "1.14"),
        ("sampler", '(func (export "init") (result i32) (unreachable))', "1.15"),
        ("tokenizer", '(func (export "token_bytes") (param i32 i32) (result i32) (i32.const 0))', "1.16"),
    ],
)
def test_what_shows_only_when_it_runs_is_told_with_what_passed_before(role, text, clause, report, build_guest):
    findings = report(build_guest(role, text))
    assert verdicts(findings, Verdict.REFUSED) == {clause}
    running = [name for name in ("1.12", "1.13", "1.14", "1.15", "1.16") if name in findings]
    passed = running[: running.index(clause)]
    assert set(passed) <= verdicts(findings, Verdict.OK)
    assert verdicts(findings, Verdict.UNCHECKED) == set(running) - {*passed, clause}


def test_a_fault_of_the_host_is_no_finding(report, build_guest, sandbox, monkeypatch):
    def refuse(*_arguments):
        raise AdmissionError("guest", "2.2", "expected code of this host, got other", "report it")

    monkeypatch.setattr(sandbox, "load_sampler", refuse)
    with pytest.raises(AdmissionError, match=r"2\.2"):
        report(build_guest("sampler"))


@pytest.mark.parametrize("clause", ["1.2", "1.5", "1.6", "1.7", "1.9", "1.11"])
def test_admission_raises_the_first_of_what_the_report_tells(clause, report, sandbox, guest_of_bytes):
    from sealhost.sandbox import Limits
    from sealhost.sandbox.admission import admit

    bad = {
        "1.2": (1, b"\0\0"), "1.5": (5, b"\1\0\1"), "1.6": (4, b"\1\x70\0" + unsigned(2000)),
        "1.7": (6, b"\1\x7b\0"), "1.9": (7, b"\1\1x\4\0"), "1.11": (11, b"\1\2"),
    }  # fmt: skip
    number, payload = bad[clause]
    memory = b"\5\4\1\1\1\1" if number > 5 else b""
    section = bytes((number,)) + unsigned(len(payload)) + payload
    rest = b"\5\4\1\1\1\1\7\x0a\1\6memory\2\0" if number < 5 else b""
    guest = guest_of_bytes("sampler", b"\0asm\1\0\0\0" + memory + section + rest)
    limits = Limits.effective(guest.limits, sandbox.limits)
    with pytest.raises(AdmissionError) as caught:
        admit(guest, limits, sandbox.limits)
    assert caught.value.clause == clause
    assert clause in verdicts(report(guest), Verdict.REFUSED)


def test_a_meter_hears_what_each_call_costs(build_guest, sandbox, byte_vocabulary, sandbox_cache):
    heard = []
    loop = """(func (export "step") (param i32) (result i32) (local $n i32)
      (loop $again (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $n) (i32.const 1000))))
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328) (i32.const 7)) (i32.const 0))"""
    metered = Sandbox(cache_directory=sandbox_cache, meter=lambda *call: heard.append(call))
    with metered, metered.load_sampler(build_guest("sampler", loop), 8).session(SamplingParams(), []) as session:
        assert session.step()[0].tokens[0] == 7
        first = heard[-1]
        session.step()
    assert first == heard[-1]
    name, function, fuel = first
    assert (name, function) == ("guest", "step")
    assert 5_000 < fuel < 10_000
    assert {"sealhost_sampler_v1", "init", "layout"} <= {function for _, function, _ in heard}


COUNTER = """(global $steps (mut i32) (i32.const 0))
  (func (export "reset") (result i32) (global.set $steps (i32.const 0)) (i32.const 0))
  (func (export "step") (param i32) (result i32)
    (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
    (i32.store (i32.const 8328) (i32.add (i32.mul (global.get $steps) (i32.const 10)) (i32.load (i32.const 8228))))
    (global.set $steps (i32.add (global.get $steps) (i32.const 1))) (i32.const 0))"""
"""Answers ten times the steps so far, plus the length of the history."""


def test_reset_takes_guest_and_history_back_to_the_prompt(build_guest, sandbox):
    with sandbox.load_sampler(build_guest("sampler", COUNTER), 100).session(SamplingParams(), [1]) as session:
        assert session.step()[0].tokens[0] == 1
        session.accept(0, (5,))
        assert session.step()[0].tokens[0] == 12
        session.reset()
        assert session.step()[0].tokens[0] == 1


@pytest.mark.parametrize(("status", "kind"), [(-0x40000000, "error"), (-5, "invalid"), (3, "invalid")])
def test_a_reset_that_fails_is_the_guests_error(status, kind, build_guest, sandbox):
    from sealhost.sandbox import GuestError

    text = f'(func (export "reset") (result i32) (i32.const {status}))'
    with sandbox.load_sampler(build_guest("sampler", text), 8).session(SamplingParams(), []) as session:
        with pytest.raises(GuestError, match="reset") as caught:
            session.reset()
        assert caught.value.kind == kind


def test_a_closed_session_cannot_be_reset(build_guest, sandbox):
    from sealhost.sandbox import SandboxError

    sampler = sandbox.load_sampler(build_guest("sampler"), 8)
    assert sampler.vocab_capacity == 512
    session = sampler.session(SamplingParams(), [])
    session.close()
    with pytest.raises(SandboxError, match="closed"):
        session.reset()


def test_an_empty_module_lacks_its_memory_and_its_exports(report, guest_of_bytes):
    findings = report(guest_of_bytes("sampler", b"\0asm\1\0\0\0"))
    assert verdicts(findings, Verdict.REFUSED) == {"1.5", "1.9"}
    assert findings["1.5"].problems == ("expected one memory, got none",)


@pytest.mark.parametrize("role", ["sampler", "tokenizer"])
def test_the_report_and_admission_agree_about_any_bytes(role, sandbox, build_guest, guest_of_bytes):
    from sealhost.sandbox import Limits
    from sealhost.sandbox.admission import admit
    from sealhost.sandbox.report import _of_bytes

    numbers = random.Random(role)
    wasm = build_guest(role).wasm
    seen = set()
    for _ in range(1500):
        bent = bytearray(wasm)
        for _ in range(numbers.randrange(1, 4)):
            bent[numbers.randrange(8, len(bent))] = numbers.choice([0, 1, 2, 0x7F, 0x80, 0xFF, numbers.randrange(256)])
        guest = guest_of_bytes(role, bytes(bent[: numbers.choice([len(bent)] * 9 + [numbers.randrange(len(bent))])]))
        told = {finding.clause for finding in _of_bytes(sandbox, guest) if finding.verdict is Verdict.REFUSED}
        try:
            admit(guest, Limits.effective(guest.limits, sandbox.limits), sandbox.limits)
            raised = set()
        except AdmissionError as error:
            raised = {error.clause}
        assert raised <= told, raised
        assert bool(raised) == bool(told)
        seen |= raised or {"admitted"}
    assert {"admitted", "1.2", "1.8", "1.9"} <= seen
