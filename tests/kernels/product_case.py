"""One tile and some activations in the kernels' layouts, and the product that is right."""

import numpy as np

from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.pack import check_matrix, pack
from sealhost.kernels.cpu.program import Form
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

COLUMNS = 37  # two squares and a part of one, four strips of the widest kernel, and what is left for four and one


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
            single["unpack"](int(self.kind), tile, self.blocks, lines, count)
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
