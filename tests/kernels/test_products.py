"""Each matrix kernel alone, against exact integer arithmetic, and every version against every other, bit for bit."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from sealhost.kernels.cpu.arena import address
from sealhost.kernels.cpu.compiler import optimise
from sealhost.kernels.cpu.dot import VERSIONS
from sealhost.kernels.cpu.isa import Isa
from sealhost.kernels.cpu.pack import pack
from sealhost.kernels.cpu.products import product_library
from sealhost.kernels.cpu.program import Form
from sealhost.kernels.formats import Format
from sealhost.kernels.layouts import (
    KINDS,
    QUANTISED,
    packed_bytes,
    record_blocks,
)
from sealhost.kernels.reference.dequantise import dequantise

KIND_FORMATS = {kind: fmt for fmt, kind in KINDS.items()}
HALVES_AT = dict.fromkeys(Format, (0,)) | dict.fromkeys((Format.Q4_1, Format.Q5_1, Format.Q4_K, Format.Q5_K), (0, 2))
HALVES_AT |= {Format.Q2_K: (80, 82), Format.Q3_K: (108,), Format.Q6_K: (208,)}
"""Where a block's float16 numbers lie."""


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("blocks", [1, 2, 18])
@pytest.mark.parametrize("fmt", list(Format))
def test_a_tile_times_columns_is_the_dequantised_product(versions, make_case, fmt, blocks, form):
    case = make_case(fmt, blocks)
    exact = case.expected(form)
    for single in versions.values():
        assert np.abs(case.run(single, form) - exact).max() <= 2e-6 * np.sqrt(case.width) * np.abs(exact).max()


@pytest.mark.parametrize("fmt", list(Format))
def test_all_versions_packed_or_not_agree_bit_for_bit(versions, make_case, fmt):
    case = make_case(fmt, 9)
    for forms in ((Form.PACKED, Form.UNPACKED), (Form.WIDE, Form.WIDE_UNPACKED)):
        results = [case.run(single, form) for single in versions.values() for form in forms]
        assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("form", [Form.UNPACKED, Form.WIDE_UNPACKED])
@pytest.mark.parametrize("fmt", list(Format))
def test_a_column_is_the_same_whatever_columns_stand_beside_it(versions, make_case, fmt, form):
    case = make_case(fmt, 5)
    for single in versions.values():
        whole = case.run(single, form)
        for count in (1, 2, 3, 4, 7, 8):
            few = Form(form - 1) if count <= 4 else form
            for first in (0, 5):
                assert np.array_equal(case.run(single, few, first=first, count=count), whole[first : first + count])


@pytest.mark.parametrize("fmt", [KIND_FORMATS[kind] for kind in QUANTISED])
def test_the_largest_weights_times_the_largest_activations_do_not_overflow(versions, make_case, fmt):
    case = make_case(fmt, 2)
    kept = case.tensor.data.reshape(-1, fmt.block_bytes)
    for worst in (0x00, 0xFF, 0x80, 0x7F):
        data = np.full_like(kept, worst)
        for at in HALVES_AT[fmt]:
            data[:, at : at + 2] = kept[:, at : at + 2]
        case.tensor = type(case.tensor)("w", fmt, case.tensor.shape, data.reshape(-1))
        case.pack()
        for sign in (1, -1):
            case.plain[:] = sign
            case.quantise()
            for form in Form:
                exact = case.expected(form)
                for single in versions.values():
                    assert np.abs(case.run(single, form) - exact).max() <= 1e-5 * np.abs(exact).max() + 1e-6


@pytest.mark.parametrize("fmt", list(Format))
def test_an_embedding_row_is_the_dequantised_row_exactly(versions, make_case, fmt):
    case = make_case(fmt, 3)
    out = np.empty(case.width, np.float32)
    for single in versions.values():
        for row in range(16):
            single["embed"](int(case.kind), address(case.tile), row, case.blocks, address(out))
            assert np.array_equal(out, dequantise(case.tensor)[row])


@pytest.mark.parametrize("fmt", list(Format))
def test_packing_keeps_the_stored_size_and_fills_the_last_tile_with_zeros(packer, make_tensor, make_case, fmt):
    case = make_case(fmt, 2, rows=32)
    assert len(case.tile) == len(case.tensor.data)
    kind, width = KINDS[fmt], 2 * 32 * record_blocks(KINDS[fmt])
    odd = make_tensor(np.linspace(1, 2, 17 * width).reshape(17, width), fmt)
    out = np.zeros(packed_bytes(kind, 17, width), np.uint8)
    pack(packer["pack"], odd, kind, out)
    second = out.reshape(2, 2, -1)[1]  # the tile of the last row, by record
    if kind in QUANTISED:
        scales = second[:, :32].copy().view(np.float16)
        assert scales[:, 0].all()
        assert not scales[:, 1:].any()
    else:
        elements = second.reshape(-1, 16, second.shape[1] // 512)
        assert elements[:, 0].any(axis=-1).all()
        assert not elements[:, 1:].any()


def assembly(isa, triple, processor):
    """What the products of a version become on a processor that need not be here."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    return machine.emit_assembly(optimise(product_library(VERSIONS[isa]), machine))


@pytest.mark.parametrize(
    ("isa", "processor", "register"),
    [
        (Isa.AVX512VNNI, "znver4", "zmm"),
        (Isa.AVXVNNI, "alderlake", "ymm"),
    ],
)
def test_vnni_kernels_compile_to_vpdpbusd_on_whole_registers(isa, processor, register):
    text = assembly(isa, "x86_64-unknown-linux-gnu", processor)
    assert len(re.findall(rf"vpdpbusd\s.*%{register}", text)) >= 8 * 8 * 3
    assert re.search(rf"vcvtph2psx?\s.*%{register}", text)
    assert "vpmaddubsw" not in text


def test_aarch64_kernels_compile_to_sdot():
    text = assembly(Isa.DOTPROD, "aarch64-unknown-linux-gnu", "neoverse-n1")
    assert len(re.findall(r"\bsdot\b", text)) >= 8 * 8 * 3
    assert re.search(r"\bfcvtl\b", text)
