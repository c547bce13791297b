"""Each matrix kernel alone, against exact integer arithmetic, and every version against every other, bit for bit."""

from functools import partial

import numpy as np
import pytest

from sealhost.kernels.cpu import cache
from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.dot import VERSIONS, EmulatedVnni
from sealhost.kernels.cpu.isa import Isa
from sealhost.kernels.cpu.native import Library
from sealhost.kernels.cpu.pack import check_matrix, pack
from sealhost.kernels.cpu.packing import add_packing
from sealhost.kernels.cpu.products import product_library
from sealhost.kernels.cpu.program import Form
from sealhost.kernels.cpu.single import Single
from sealhost.kernels.formats import Format
from sealhost.kernels.layouts import (
    KINDS,
    NARROW,
    QUANTISED,
    WIDE,
    WIDE_LOW,
    WIDE_STEP,
    activation_stride,
    packed_bytes,
    record_blocks,
)
from sealhost.kernels.reference.dequantise import dequantise
from sealhost.kernels.reference.ops import quantise_activations

KIND_FORMATS = {kind: fmt for fmt, kind in KINDS.items()}
HALVES_AT = dict.fromkeys(Format, (0,)) | dict.fromkeys((Format.Q4_1, Format.Q5_1, Format.Q4_K, Format.Q5_K), (0, 2))
HALVES_AT |= {Format.Q2_K: (80, 82), Format.Q3_K: (108,), Format.Q6_K: (208,)}
"""Where a block's float16 numbers lie."""
COLUMNS = 21  # two strips of the widest kernel and a remainder of every size below four


@pytest.fixture(scope="module")
def versions(backends):
    """Each version's kernels one by one, linked from the code that the backends compiled."""
    folder, key = cache.cache_directory(), cache.cache_key()
    singles = {"emulated": Single(product_library(EmulatedVnni()))}
    for isa in backends:
        code = cache._read(folder / f"{key}-{isa}.o").objects[0]
        singles[isa] = Single(product_library(VERSIONS[isa]), code=code)
    return singles


@pytest.fixture(scope="module")
def packer():
    library = Library()
    add_packing(library)
    return Single(library)


@pytest.fixture
def make_case(packer, make_tensor):
    return partial(Case, packer, make_tensor)


class Case:
    """One tile of 16 rows, about `blocks` blocks of 32 wide, and some activations, in the kernels' layouts."""

    def __init__(self, packer, make_tensor, fmt, blocks, rows=16, seed=3):
        rng = np.random.default_rng(seed)
        self.packer = packer
        step = record_blocks(KINDS[fmt])
        width = 32 * step * max(1, blocks // step)
        self.tensor = make_tensor(rng.normal(size=(rows, width)), fmt)
        self.kind, self.width, self.blocks = KINDS[fmt], width, width // 32
        arena = Arena()
        self.tile = arena.take(packed_bytes(self.kind, rows, width))
        self.pack()
        self.plain = (rng.normal(size=(COLUMNS, width)) * rng.uniform(0.1, 10, (COLUMNS, 1))).astype(np.float32)
        self.lines = arena.take(40 * width)
        self.out = arena.take(COLUMNS * 64).view(np.float32).reshape(COLUMNS, 16)
        self.stride, self.wide_stride = activation_stride(width), activation_stride(width, WIDE)
        self.records = arena.take(COLUMNS * self.stride).reshape(COLUMNS, -1)
        self.wide = arena.take(COLUMNS * self.wide_stride).reshape(COLUMNS, -1)
        self.quantise()

    def pack(self):
        self.tile[:] = 0
        pack(self.packer["pack"], self.tensor, check_matrix(self.tensor, *self.tensor.shape), self.tile)

    def quantise(self):
        """Fills the records of both widths; the low halves of the wide ones are random."""
        self.acts = acts = quantise_activations(self.plain)
        self.fill(self.records, NARROW, acts.values, acts.scales, acts.values.astype(np.int32))
        low = np.random.default_rng(8).integers(-127, 128, acts.values.shape, dtype=np.int8)
        self.whole = acts.values.astype(np.int32) * WIDE_STEP + low
        self.steps = acts.scales / np.float32(WIDE_STEP)
        blocks = self.fill(self.wide, WIDE, acts.values, self.steps, self.whole)
        blocks[..., WIDE_LOW : WIDE_LOW + 32] = low.view(np.uint8)
        ordered = self.whole.reshape(*self.whole.shape[:-1], 8, 4)[..., [0, 2, 1, 3]].astype(np.int16)
        start = self.blocks * WIDE.size
        whole = self.wide[:, start : start + self.blocks * 64].reshape(COLUMNS, self.blocks, 64)
        whole[:] = ordered.reshape(self.whole.shape).view(np.uint8)

    def fill(self, area, record, values, scales, whole):
        sums, first = (part.sum(axis=-1, dtype=np.int32) for part in (whole, whole[..., :16]))
        blocks = area[:, : self.blocks * record.size].reshape(COLUMNS, self.blocks, -1)
        blocks[..., :32] = values.view(np.uint8)
        facts = {
            record.scale: scales,
            record.weighted: scales * sums.astype(np.float32),
            record.sum: sums,
            record.first: first,
        }
        for at, fact in facts.items():
            blocks[..., at : at + 4] = fact[..., None].view(np.uint8)
        return blocks

    def run(self, single, form, *, first=0, count=COLUMNS):
        tile, lines, out = address(self.tile), address(self.lines), address(self.out)
        self.out[:] = np.nan
        if form in (Form.UNPACKED, Form.WIDE_UNPACKED):
            single["unpack"](int(self.kind), tile, self.blocks, lines)
        plain = address(self.plain) + first * 4 * self.width
        area, stride = (self.wide, self.wide_stride) if form >= Form.WIDE else (self.records, self.stride)
        acts = address(area) + first * stride
        args = (int(form), acts, stride, plain, 4 * self.width, int(self.kind), self.blocks, count, out)
        single["columns"](tile, lines, *args)
        return self.out[:count].copy()

    def expected(self, form):
        weights = dequantise(self.tensor).astype(np.float64)
        if self.kind not in QUANTISED:
            return self.plain.astype(np.float64) @ weights.T
        if form >= Form.WIDE:
            return (self.whole * self.steps[..., None].astype(np.float64)).reshape(COLUMNS, -1) @ weights.T
        return self.acts.real() @ weights.T


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


@pytest.mark.parametrize(
    ("isa", "processor", "register"),
    [
        (Isa.AVX512VNNI, "znver4", "zmm"),
        (Isa.AVXVNNI, "alderlake", "ymm"),
    ],
)
def test_vnni_kernels_compile_to_vpdpbusd_on_whole_registers(isa, processor, register):
    import re

    import llvmlite.binding as llvm

    from sealhost.kernels.cpu.compiler import optimise

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu=processor, opt=3)
    text = machine.emit_assembly(optimise(product_library(VERSIONS[isa]), machine))
    assert len(re.findall(rf"vpdpbusd\s.*%{register}", text)) >= 8 * 8 * 3
    assert re.search(rf"vcvtph2psx?\s.*%{register}", text)
    assert "vpmaddubsw" not in text
