"""Fixtures of the guests' tests; the small host that they run in is `plugin_harness.py` beside this file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import wasmtime

# the importlib import mode puts no test folder on the path, and tables of cases need the header's numbers
sys.path.insert(0, str(Path(__file__).resolve().parent))

from plugin_harness import SamplerGuest, TokenizerGuest, VocabularyColumns


@pytest.fixture(scope="session")
def guest_engine() -> wasmtime.Engine:
    """An engine configured as a host would: interruptible, NaN canonical. It also counts instructions."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.consume_fuel = True
    config.cranelift_nan_canonicalization = True
    return wasmtime.Engine(config)


def built(role: str, name: str) -> Path:
    from sealhost.plugins import reference_plugin

    return reference_plugin(role, name) / "plugin.wasm"


@pytest.fixture(scope="session")
def bpe_module(guest_engine):
    """The committed byte-level BPE guest."""
    return wasmtime.Module(guest_engine, built("tokenizer", "bpe").read_bytes())


@pytest.fixture(scope="session")
def spm_module(guest_engine):
    """The committed SentencePiece guest."""
    return wasmtime.Module(guest_engine, built("tokenizer", "spm").read_bytes())


@pytest.fixture(scope="session")
def unigram_module(guest_engine):
    """The committed Unigram guest."""
    return wasmtime.Module(guest_engine, built("tokenizer", "unigram").read_bytes())


@pytest.fixture(scope="session")
def standard_module(guest_engine):
    """The committed standard sampler."""
    return wasmtime.Module(guest_engine, built("sampler", "standard").read_bytes())


def loader(engine, module):
    """Loads a stream or columns into a fresh tokenizer."""

    def load(vocabulary: VocabularyColumns | bytes, piece: int = 1 << 20) -> TokenizerGuest:
        stream = vocabulary if isinstance(vocabulary, bytes) else vocabulary.stream()
        return TokenizerGuest(engine, module, stream, piece)

    return load


@pytest.fixture
def load_tokenizer(guest_engine, bpe_module):
    return loader(guest_engine, bpe_module)


@pytest.fixture
def load_spm(guest_engine, spm_module):
    return loader(guest_engine, spm_module)


@pytest.fixture
def load_unigram(guest_engine, unigram_module):
    return loader(guest_engine, unigram_module)


@pytest.fixture(scope="session")
def sampler(guest_engine, standard_module) -> SamplerGuest:
    """The standard sampler; it carries nothing from one step to the next."""
    return SamplerGuest(guest_engine, standard_module)


@pytest.fixture(scope="session")
def spelling_sampler(guest_engine, standard_module):
    """The standard sampler with a vocabulary: the words that it is called with."""
    return lambda words: SamplerGuest(guest_engine, standard_module, words)


@pytest.fixture(scope="session")
def smollm2_columns(smollm2_gguf) -> VocabularyColumns:
    """The demo model's vocabulary and merges."""
    from sealhost.host.weights.gguf import GgufFile
    from sealhost.host.weights.vocabulary import vocabulary

    words = vocabulary(GgufFile.parse(smollm2_gguf.read_bytes()))
    return VocabularyColumns(
        [text.decode() for text in words.texts],
        [merge.decode() for merge in words.merges],
        words.pre,
        types=words.types.tolist(),
        flags=(0, words.bos, words.eos, words.unknown),
    )


@pytest.fixture(scope="session")
def bundle_with_sampler(
    smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], tuple[str, str]]:
    """Packs and signs the demo model with a sampler's module; the bundle, and the folder of the keys that it needs."""
    from sealhost.host.cli.main import run

    def make(sampler: Path) -> tuple[str, str]:
        folder = tmp_path_factory.mktemp("sampled")
        root, keys = folder / "bundle", folder / "keys"
        keys.mkdir(mode=0o755)
        assert run(["keygen", "author", "--out", str(folder), "--no-passphrase"]) == 0
        (folder / "author.pub").rename(keys / "author.pub")
        packed = ["pack", str(smollm2_gguf), "--out", str(root), "--name", "sampled", "--version", "1"]
        assert run([*packed, "--sampler", str(sampler)]) == 0
        assert run(["sign", str(root), "--key", str(folder / "author.key")]) == 0
        return str(root), str(keys)

    return make


@pytest.fixture(scope="session")
def unicode_header() -> Path:
    """The generated table of Unicode classes."""
    return built("tokenizer", "bpe").parent / "unicode_16_0.h"


@pytest.fixture(scope="session")
def unicode_runs(unicode_header) -> list[int]:
    """Code points at which a class begins."""
    body = unicode_header.read_text().split("= {")[1].split("}")[0]
    return [int(value, 16) >> 10 for value in body.replace("\n", "").split(",") if value.strip()]
