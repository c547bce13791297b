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
from sealhost.kernels.cpu.products import product_library, square_name
from sealhost.kernels.cpu.program import Form
from sealhost.kernels.cpu.tile_registers import configuration
from sealhost.kernels.formats import Format
from sealhost.kernels.layouts import (
    KINDS,
    QUANTISED,
    Kind,
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
        for count in (1, 2, 3, 4, 7, 8, 16, 31):
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


def assembly(isa, triple, processor, *names):
    """What the products of a version, or some of them, become on a processor that need not be here."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    library = product_library(VERSIONS[isa])
    library.kernels = {name: library.kernels[name] for name in names or library.kernels}
    return machine.emit_assembly(optimise(library, machine))


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


@pytest.mark.parametrize("form", [Form.UNPACKED, Form.WIDE_UNPACKED])
@pytest.mark.parametrize(("kind", "depth"), [("Q4_1", 32), ("Q8_0", 32), ("Q4_K", 32), ("Q6_K", 16), ("Q2_K", 16)])
def test_amx_multiplies_squares_on_registers_that_it_configures_and_empties(kind, depth, form):
    text = assembly(Isa.AMX, "x86_64-unknown-linux-gnu", "sapphirerapids", square_name(Kind[kind], form))
    products = re.findall(r"\btdpbssd\s+%tmm(\d), %tmm(\d), %tmm(\d)", text)
    assert len(products) == {(32, Form.UNPACKED): 2, (16, Form.WIDE_UNPACKED): 4}.get((depth, form), 2)
    assert all(set(map(int, names)) <= set(range(8)) for names in products)
    assert len(re.findall(r"\bldtilecfg\b", text)) == len(re.findall(r"\btilerelease\b", text)) == 1
    stored = re.findall(r'\.(?:asciz|ascii)\s+"(.*)"', text)
    assert stored[0].encode().decode("unicode_escape").encode("latin1").ljust(64, b"\0")[:64] == configuration(depth)


@pytest.mark.parametrize("depth", [16, 32])
def test_tile_registers_are_configured_as_the_manual_says(depth):
    palette, *rest = configuration(depth)
    assert (len(rest), palette, any(rest[:15])) == (63, 1, False)
    widths, heights = np.frombuffer(configuration(depth)[16:48], "<u2"), configuration(depth)[48:]
    assert widths.tolist() == [64] * 4 + [depth] * 2 + [64] * 2 + [0] * 8
    assert list(heights) == [16] * 6 + [depth // 4] * 2 + [0] * 8


@pytest.mark.parametrize("bits", range(1, 7))
def test_a_running_sum_of_avx2_takes_as_many_lines_as_its_int16_holds(bits):
    largest_of_a_line = 2 * 127 * ((1 << bits) - 1)
    span = VERSIONS[Isa.AVX2].span(bits)
    assert 1 <= span <= 8
    assert span * largest_of_a_line <= np.iinfo(np.int16).max
    assert span == 8 or (span + 1) * largest_of_a_line > np.iinfo(np.int16).max


@pytest.mark.parametrize(
    ("kind", "columns", "finished"),
    [("Q4_1", 4, 1), ("Q4_0", 4, 1), ("Q5_0", 4, 2), ("Q5_K", 4, 2), ("Q6_K", 4, 4)],
)
def test_avx2_multiplies_weights_of_up_to_six_bits_in_one_plane_without_a_loop(kind, columns, finished):
    text = assembly(Isa.AVX2, "x86_64-unknown-linux-gnu", "znver3", f"unpacked_{kind}_{columns}")
    vectors = 2 * columns  # of 8 rows
    assert len(re.findall(r"\bvpmaddubsw\b", text)) == 8 * vectors
    assert len(re.findall(r"\bvpmaddwd\b", text)) == finished * vectors


@pytest.mark.parametrize("name", ["unpacked_Q4_1_4", "unpacked_Q4_0_4", "unpacked_Q4_K_4", "wide_unpacked_Q4_1_2"])
def test_avx2_keeps_the_sums_of_four_bit_weights_in_registers(name):
    text = assembly(Isa.AVX2, "x86_64-unknown-linux-gnu", "znver3", name)
    assert not re.search(r"%ymm.*\(%rsp\)|\(%rsp\).*%ymm", text)
