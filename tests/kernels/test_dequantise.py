import gguf
import numpy as np
import pytest

from sealhost.kernels.formats import Format
from sealhost.kernels.reference.dequantise import dequantise


@pytest.mark.parametrize("fmt", list(Format))
def test_the_twin_of_every_format_gives_what_gguf_gives(fmt, make_tensor):
    values = np.random.default_rng(1).normal(size=(48, 256)).astype(np.float32)
    tensor = make_tensor(values, fmt)
    stored = np.frombuffer(tensor.data, np.uint8).reshape(48, -1)
    if fmt in (Format.F32, Format.F16):
        expected = stored.view(np.float32 if fmt is Format.F32 else np.float16).astype(np.float32)
    else:
        expected = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType[fmt.name])
    assert np.array_equal(dequantise(tensor), expected)


@pytest.mark.parametrize("fmt", list(Format))
def test_any_bytes_are_read_as_gguf_reads_them(fmt):
    from sealhost.kernels.backend import Tensor

    rng = np.random.default_rng(2)
    data = rng.integers(0, 256, 40 * fmt.row_bytes(256), dtype=np.uint8)
    kind = gguf.GGMLQuantizationType[fmt.name]
    with np.errstate(all="ignore"):
        mine = dequantise(Tensor("w", fmt, (40, 256), data))
        if fmt in (Format.F32, Format.F16):
            expected = data.reshape(40, -1).view(np.float32 if fmt is Format.F32 else np.float16).astype(np.float32)
        else:
            expected = gguf.quants.dequantize(data.reshape(40, -1), kind)
    assert np.array_equal(mine, expected, equal_nan=True)


@pytest.mark.parametrize("fmt", list(Format))
def test_sizes_and_ids_are_ggufs(fmt):
    kind = gguf.GGMLQuantizationType[fmt.name]
    assert fmt.type_id == kind.value
    assert (fmt.block_elements, fmt.block_bytes) == gguf.GGML_QUANT_SIZES[kind]
