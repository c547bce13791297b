"""Admission at the level of bytes: what is truncated, bent or too large is refused with its clause, and never crashes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sealhost.sandbox import AdmissionError, Limits, OperatorLimits
from sealhost.sandbox.admission import REMEDIES, admit
from sealhost.sandbox.wasm_binary import SectionId, parse
from sealhost.sandbox.wasm_reader import MalformedError, Reader
from sealhost.sandbox.wasm_rewrite import signed, unsigned

HEADER = b"\0asm\1\0\0\0"
ALLOWED = OperatorLimits(memory_bytes=1 << 20)
EFFECTIVE = Limits(memory_bytes=1 << 20, init_ms=1, load_ms=1, step_ms=1, encode_ms=1)


def section(number: int, payload: bytes) -> bytes:
    return bytes((number,)) + unsigned(len(payload)) + payload


TYPE = section(1, b"\1\x60\0\0")
FUNCTION = section(3, b"\1\0")
MEMORY = section(5, b"\1\1\1\1") + section(7, b"\1\6memory\2\0")

BAD_BYTES = {
    "nothing at all": (b"", "1.1"),
    "the text format": (b'(module (memory (export "memory") 1 1))', "1.1"),
    "half a magic": (b"\0as", "1.1"),
    "a component": (b"\0asm\x0d\0\1\0", "1.1"),
    "no version": (b"\0asm", "1.1"),
    "version 2": (b"\0asm\2\0\0\0", "1.1"),
    "more than 8 MiB": (HEADER + section(0, b"\1x" + bytes(8 << 20)), "1.1"),
    "a section longer than the file": (HEADER + b"\1\x7f\0", "1.2"),
    "a section without a size": (HEADER + b"\1", "1.2"),
    "an endless size": (HEADER + b"\1\xff\xff\xff\xff\xff\xff", "1.2"),
    "a size above 32 bits": (HEADER + b"\1\xff\xff\xff\xff\x7f", "1.2"),
    "two type sections": (HEADER + TYPE + TYPE, "1.2"),
    "sections out of order": (HEADER + FUNCTION + TYPE, "1.2"),
    "a data count after the code": (HEADER + TYPE + FUNCTION + section(10, b"\1\2\0\x0b") + section(12, b"\0"), "1.2"),
    "bytes after a section's content": (HEADER + section(1, b"\0\0"), "1.2"),
    "an unknown section": (HEADER + section(14, b""), "1.12"),
    "a tag section": (HEADER + TYPE + section(13, b"\1\0\0"), "1.12"),
    "a custom section without a name": (HEADER + section(0, b""), "1.2"),
    "a custom section named in Latin-1": (HEADER + section(0, b"\1\xe9"), "1.2"),
    "65 sections": (HEADER + section(0, b"\1x") * 65, "1.2"),
    "5,000 types": (HEADER + section(1, unsigned(5000)), "1.8"),
    "a type that ends early": (HEADER + section(1, b"\2\x60\0\0"), "1.2"),
    "a recursive type group": (HEADER + section(1, b"\1\x4e\0"), "1.8"),
    "65 parameters": (HEADER + section(1, b"\1\x60\x41" + b"\x7f" * 65 + b"\0"), "1.8"),
    "65 results": (HEADER + section(1, b"\1\x60\0\x41" + b"\x7f" * 65), "1.8"),
    "a parameter of type 0": (HEADER + section(1, b"\1\x60\1\0\0"), "1.8"),
    "an import count": (HEADER + section(2, b"\1"), "1.3"),
    "a function of no type": (HEADER + FUNCTION, "1.2"),
    "20,001 functions": (HEADER + TYPE + section(3, unsigned(20001)), "1.10"),
    "a function without a body": (HEADER + TYPE + FUNCTION, "1.2"),
    "a body without a function": (HEADER + TYPE + section(10, b"\1\2\0\x0b"), "1.2"),
    "a body of 1 MiB": (HEADER + TYPE + FUNCTION + section(10, b"\1" + unsigned(1 << 20)), "1.10"),
    "a body longer than its section": (HEADER + TYPE + FUNCTION + section(10, b"\1\x7f\0"), "1.2"),
    "4 billion locals": (HEADER + TYPE + FUNCTION + section(10, b"\1\x08\1\xff\xff\xff\xff\x0f\x7f\x0b"), "1.10"),
    "locals over many groups": (HEADER + TYPE + FUNCTION + section(10, b"\1\x07\2\x90\x4e\x7f\1\x7f\x0b"), "1.10"),
    "a local of type externref": (HEADER + TYPE + FUNCTION + section(10, b"\1\4\1\1\x6f\x0b"), "1.8"),
    "limits flags 16": (HEADER + section(5, b"\1\x10\1"), "1.5"),
    "custom page sizes": (HEADER + section(5, b"\1\x08\1\0"), "1.5"),
    "a table with an initial value": (HEADER + section(4, b"\1\x40\0\x70\0\1\xd0\x70\x0b"), "1.6"),
    "2,000 globals": (HEADER + section(6, unsigned(2000)), "1.7"),
    "a global of mutability 2": (HEADER + section(6, b"\1\x7f\2\x41\0\x0b"), "1.7"),
    "a global of another type than its value": (HEADER + section(6, b"\1\x7f\0\x42\0\x0b"), "1.7"),
    "a global set from a global": (HEADER + section(6, b"\1\x7f\0\x23\0\x0b"), "1.7"),
    "a global whose i32 has 6 bytes": (HEADER + section(6, b"\1\x7f\0\x41\xff\xff\xff\xff\xff\0\x0b"), "1.2"),
    "a global whose i32 has 33 bits": (HEADER + section(6, b"\1\x7f\0\x41\xff\xff\xff\xff\x1f\x0b"), "1.2"),
    "a float global that ends early": (HEADER + section(6, b"\1\x7d\0\x43\0\0"), "1.2"),
    "a double global that ends early": (HEADER + section(6, b"\1\x7c\0\x44\0\0"), "1.2"),
    "2,000 exports": (HEADER + section(7, unsigned(2000)), "1.9"),
    "an export of kind 4": (HEADER + section(7, b"\1\1x\4\0"), "1.9"),
    "one name twice": (HEADER + section(7, b"\2\1x\0\0\1x\0\0"), "1.9"),
    "a name longer than its section": (HEADER + section(7, b"\1\x7fx\0\0"), "1.2"),
    "a start section": (HEADER + section(8, b"\0"), "1.4"),
    "elements of flags 8": (HEADER + section(9, b"\1\x08"), "1.11"),
    "elements of kind 1": (HEADER + section(9, b"\1\1\1\0"), "1.11"),
    "elements of table 9": (HEADER + section(9, b"\1\2\x09\x41\0\x0b\0\0"), "1.11"),
    "a million elements": (HEADER + section(9, b"\1\0\x41\0\x0b" + unsigned(1_000_000)), "1.11"),
    "elements at a 64-bit offset": (HEADER + section(9, b"\1\0\x42\0\x0b\0"), "1.11"),
    "data of memory 1": (HEADER + section(11, b"\1\2\1\x41\0\x0b\0"), "1.11"),
    "data at a float offset": (HEADER + section(11, b"\1\0\x43\0\0\0\0\x0b\0"), "1.11"),
    "data longer than its section": (HEADER + section(11, b"\1\0\x41\0\x0b\x7f"), "1.2"),
    "20,000 data segments": (HEADER + section(11, unsigned(20000)), "1.11"),
    "a data count that is wrong": (HEADER + section(12, b"\2"), "1.2"),
    "an empty module": (HEADER, "1.5"),
    "a custom section with an overlong name": (HEADER + section(0, b"\2\xc0\x80"), "1.2"),
    "a custom section named by half a pair": (HEADER + section(0, b"\3\xed\xa0\x80"), "1.2"),
    "a custom section named beyond Unicode": (HEADER + section(0, b"\4\xf4\x90\x80\x80"), "1.2"),
    "a custom section of 100 MiB": (HEADER + section(0, b"\1x" + bytes(100 << 20)), "1.1"),
    "an export with an overlong name": (HEADER + section(7, b"\1\2\xc0\x80\0\0"), "1.2"),
    "a count of six bytes": (HEADER + section(1, b"\x81\x80\x80\x80\x80\x00\x60\0\0"), "1.2"),
    "an empty body": (HEADER + TYPE + FUNCTION + section(10, b"\1\0"), "1.2"),
    "bodies that overlap": (HEADER + TYPE + section(3, b"\2\0\0") + section(10, b"\2\5\0\x0b\2\0\x0b"), "1.2"),
    "a million globals": (HEADER + section(6, unsigned(1_000_000) + b"\x7f\1\x41\0\x0b" * 1_000_000), "1.7"),
    "10,001 locals": (HEADER + TYPE + FUNCTION + section(10, b"\1\5\1\x91\x4e\x7f\x0b"), "1.10"),
    "a branch table of a million": (
        HEADER + TYPE + FUNCTION + section(10, b"\1" + unsigned(1_000_010) + b"\0\x41\0\x0e" + unsigned(1_000_000)), "1.10",
    ),
    "a data count of a billion": (HEADER + section(12, unsigned(1_000_000_000)), "1.11"),
    "a table of 4 billion": (HEADER + section(4, b"\1\x70\0\xff\xff\xff\xff\x0f") + MEMORY, "1.6"),
    "a memory of 4 GiB and a page": (HEADER + section(5, b"\1\1\x81\x80\4\x81\x80\4"), "1.5"),
    "a memory that shrinks": (HEADER + section(5, b"\1\1\2\1"), "1.5"),
    "an export of a function that is not there": (
        HEADER + section(5, b"\1\1\1\1") + section(7, b"\2\6memory\2\0\x13sealhost_sampler_v1\0\5"), "1.9",
    ),
    "an export of a memory that is not there": (HEADER + section(5, b"\1\1\1\1") + section(7, b"\1\6memory\2\1"), "1.5"),
}  # fmt: skip


def refused(plugin, limits=EFFECTIVE, allowed=ALLOWED) -> AdmissionError:
    with pytest.raises(AdmissionError) as caught:
        admit(plugin, limits, allowed)
    return caught.value


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bad_bytes_are_refused_with_their_clause(name, guest_of_bytes):
    wasm, clause = BAD_BYTES[name]
    error = refused(guest_of_bytes("sampler", wasm))
    assert error.clause == clause, error
    assert error.remedy == REMEDIES[clause]


ORDER = (1, 3, 4, 5, 6, 7, 9, 12, 10, 11)


def grown(wasm: bytes, **added: tuple[int, bytes]) -> bytes:
    """A module with further entries in its sections: by the section's name, how many, and their bytes."""
    found = {int(s.id): wasm[s.start : s.stop] for s in parse(wasm).sections if s.id}
    for name, (count, entries) in added.items():
        number = int(SectionId[name.upper()])
        reader = Reader(found.get(number, b"\0"))
        found[number] = unsigned(reader.unsigned() + count) + reader.data[reader.position :] + entries
    return HEADER + b"".join(section(number, found[number]) for number in ORDER if number in found)


def bodies(count: int, body: bytes) -> dict[str, tuple[int, bytes]]:
    """What `grown` takes to add functions of type (i32) -> (i32), the sampler's last."""
    return {"function": (count, b"\1" * count), "code": (count, (unsigned(len(body)) + body) * count)}


ZERO = b"\x41\0\x0b"
BOUNDS = {
    "functions": (lambda n: bodies(n - 5, b"\0" + ZERO), 20_000, "1.10"),
    "bytes of a function": (lambda n: bodies(1, b"\0" + b"\1" * (n - 4) + ZERO), 524_288, "1.10"),
    "locals": (lambda n: bodies(1, b"\2\1\x7f" + unsigned(n - 1) + b"\x7e" + ZERO), 10_000, "1.10"),
    "types": (lambda n: {"type": (n - 2, b"\x60\0\0" * (n - 2))}, 4_096, "1.8"),
    "parameters": (lambda n: {"type": (1, b"\x60" + unsigned(n) + b"\x7b" * n + b"\0")}, 64, "1.8"),
    "tables": (lambda n: {"table": (n, b"\x70\0\1" * n)}, 4, "1.6"),
    "elements of tables": (lambda n: {"table": (2, b"\x70\0\1\x70\0" + unsigned(n - 1))}, 10_000, "1.6"),
    "globals": (lambda n: {"global": (n, (b"\x7f\1" + ZERO) * n)}, 1_024, "1.7"),
    "exports": (lambda n: {"export": (n - 6, b"".join(b"\4%04d\0\0" % i for i in range(n - 6)))}, 1_024, "1.9"),
    "element segments": (lambda n: {"element": (n, b"\1\0\0" * n)}, 1_024, "1.11"),
    "elements of a segment": (lambda n: {"element": (1, b"\1\0" + unsigned(n) + b"\0" * n)}, 100_000, "1.11"),
    "data segments": (lambda n: {"data": (n - 1, b"\1\0" * (n - 1))}, 10_000, "1.11"),
    "the place of data of no bytes": (lambda n: {"data": (1, b"\0\x41" + signed(n) + b"\x0b\0")}, 131_072, "1.11"),
}
"""What an added entry is, by a number of which this one is the most that is let in, and the clause that one more breaks."""


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_lets_the_most_in_and_refuses_one_more(name, build_guest, guest_of_bytes):
    added, most, clause = BOUNDS[name]
    wasm = build_guest("sampler").wasm
    admit(guest_of_bytes("sampler", grown(wasm, **added(most))), EFFECTIVE, ALLOWED)
    assert refused(guest_of_bytes("sampler", grown(wasm, **added(most + 1)))).clause == clause


def test_integers_need_not_be_written_as_short_as_they_can_be(build_guest, guest_of_bytes):
    wasm = build_guest("sampler").wasm
    memory = next(s for s in parse(wasm).sections if s.id == SectionId.MEMORY)
    longer = section(5, b"\x81\x80\x80\x80\0" + wasm[memory.start + 1 : memory.stop])
    bent = wasm[: memory.start - 2] + longer + wasm[memory.stop :]
    assert admit(guest_of_bytes("sampler", bent), EFFECTIVE, ALLOWED).memories == parse(wasm).memories


@pytest.mark.parametrize("names", [[b"a" * 4_000_000] * 2, [b"sealhost.global." + b"\n" * 5_000_000]])
def test_a_name_of_megabytes_does_not_make_a_message_of_megabytes(names, build_guest, guest_of_bytes):
    entries = b"".join(unsigned(len(name)) + name + b"\0\0" for name in names)
    error = refused(guest_of_bytes("sampler", grown(build_guest("sampler").wasm, export=(len(names), entries))))
    assert (error.clause, len(str(error)) < 400, str(error).isprintable()) == ("1.9", True, True)


def test_tokenizer_has_no_tier(build_guest):
    error = refused(dataclasses.replace(build_guest("tokenizer"), tier="full"))
    assert (error.clause, "no tier on a tokenizer" in str(error)) == ("1.14", True)


@pytest.mark.parametrize(
    "tier", ["topk:0", "topk:4097", "topk:", "topk", "topk:1x", "topk:01", "full:3", "mask ", "topk:99999"]
)
def test_tier_that_there_is_not_is_refused(tier, build_guest):
    error = refused(dataclasses.replace(build_guest("sampler"), tier=tier))
    assert (error.clause, "'topk:K' with K of 1 to 4096" in str(error)) == ("1.14", True)


@pytest.mark.parametrize(
    ("changes", "found"),
    [({"role": "router"}, "router"), ({"abi": 2}, "ABI 1"), ({"tier": "half"}, "half"), ({"tier": ""}, "tier")],
)
def test_manifest_entry_of_another_role_abi_or_tier_is_refused(changes, found, build_guest):
    error = refused(dataclasses.replace(build_guest("sampler"), **changes))
    assert error.clause == "1.14"
    assert found in str(error)


def test_well_behaved_guests_are_admitted(build_guest):
    assert len(admit(build_guest("sampler"), EFFECTIVE, ALLOWED).functions) == 5
    module = admit(build_guest("tokenizer"), EFFECTIVE, ALLOWED)
    assert [g.mutable for g in module.globals] == [True]


def test_every_kind_of_global_and_segment_that_compilers_write_is_admitted(build_guest):
    text = """
    (global i64 (i64.const -7)) (global f32 (f32.const 1.5)) (global f64 (f64.const nan)) (global (mut i32) (i32.const -1))
    (table 4 8 funcref) (elem (i32.const 1) func $f) (elem func $f) (elem declare func $f) (func $f)
    (table $t 4 8 funcref) (elem (table $t) (i32.const 1) func $f)
    (data (i32.const 131070) "ab") (data "passive") (func (param v128 funcref) (result f64 f32 i64) unreachable)
    """
    module = admit(build_guest("sampler", text), EFFECTIVE, ALLOWED)
    assert [s.offset for s in module.segments] == [131070, None, 64]


def test_import_section_that_imports_nothing_is_no_import():
    assert parse(HEADER + section(2, b"\0")).functions == []


def test_memory_limit_is_the_smaller_one_of_manifest_and_operator(build_guest, guest_limits):
    asked = guest_limits(memory_bytes=65536)
    limits = Limits.effective(asked, ALLOWED)
    assert (limits.memory_bytes, limits.init_ms) == (65536, 200)
    assert refused(build_guest("sampler"), limits).clause == "1.5"


def test_every_truncation_inside_a_section_is_refused(build_guest, guest_of_bytes):
    wasm = build_guest("tokenizer").wasm
    whole = {section.stop for section in parse(wasm).sections}
    for length in set(range(len(wasm))) - whole:
        refused(guest_of_bytes("tokenizer", wasm[:length]))


def test_random_damage_never_raises_anything_else(build_guest):
    wasm = build_guest("tokenizer").wasm
    random = np.random.default_rng(20240601)
    outcomes = set()
    for _ in range(3000):
        bent = bytearray(wasm)
        for at in random.integers(8, len(wasm), size=random.integers(1, 4)):
            bent[at] = random.integers(256)
        try:
            parse(bytes(bent))
            outcomes.add("parsed")
        except MalformedError as error:
            outcomes.add(error.clause)
    assert {"parsed", "1.2"} <= outcomes
    assert outcomes <= {"parsed", *REMEDIES}


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 127, 128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_signed_integers_survive_writing_and_reading(value):
    bits = 32 if -(2**31) <= value < 2**31 else 64
    assert Reader(signed(value)).signed(bits) == value


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**32 - 1])
def test_unsigned_integers_survive_writing_and_reading(value):
    reader = Reader(unsigned(value))
    assert reader.unsigned() == value
    assert reader.at_end
