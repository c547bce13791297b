"""The aarch64 products under an emulator, bit for bit what this machine computes.

apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
python -m pytest -m oracle tests/kernels
"""

import shutil
import struct
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from product_case import COLUMNS

from sealhost.kernels.cpu.compiler import optimise
from sealhost.kernels.cpu.dot import VERSIONS
from sealhost.kernels.cpu.isa import Isa
from sealhost.kernels.cpu.packing import add_packing
from sealhost.kernels.cpu.products import product_library
from sealhost.kernels.cpu.program import Form
from sealhost.kernels.formats import Format
from sealhost.kernels.layouts import record_blocks
from sealhost.kernels.reference.dequantise import dequantise

HARNESS = Path(__file__).with_name("aarch64_harness.c")
EMBEDDED_ROW = 5
TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """A process of the emulator that answers cases."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
    folder = tmp_path_factory.mktemp("aarch64")
    library = product_library(VERSIONS[Isa.DOTPROD])
    add_packing(library)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="neoverse-n1", features="+dotprod", opt=3)
    (folder / "products.o").write_bytes(machine.emit_object(optimise(library, machine)))
    program = folder / "harness"
    subprocess.run([TOOLS[0], "-O1", "-static", HARNESS, folder / "products.o", "-o", program], check=True)
    process = subprocess.Popen([TOOLS[1], "-cpu", "max", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    process.stdin.close()
    process.wait(timeout=30)
    process.stdout.close()


@pytest.mark.oracle
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("blocks", [1, 18])
@pytest.mark.parametrize("fmt", list(Format))
def test_an_emulated_arm_computes_the_same_bits(emulated, versions, make_case, fmt, blocks, form):
    case = make_case(fmt, blocks)
    here = case.run(versions[Isa.PORTABLE], form)
    acts, stride = (case.wide, case.wide_stride) if form >= Form.WIDE else (case.records, case.stride)
    stored, plain = case.tensor.data.tobytes(), case.plain.tobytes()
    shape = (int(case.kind), int(form), case.blocks // record_blocks(case.kind), case.blocks, COLUMNS)
    sizes = (len(stored), acts.nbytes, stride, len(plain), 4 * case.width)
    emulated.stdin.write(struct.pack("<10q", *shape, *sizes) + stored + acts.tobytes() + plain)
    emulated.stdin.flush()
    product = np.frombuffer(emulated.stdout.read(64 * COLUMNS), np.float32).reshape(COLUMNS, 16)
    assert np.array_equal(product, here)
    row = np.frombuffer(emulated.stdout.read(4 * case.width), np.float32)
    assert np.array_equal(row, dequantise(case.tensor)[EMBEDDED_ROW])
