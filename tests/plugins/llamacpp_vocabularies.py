"""llama.cpp's tokenizer through `llama_cpp`, and the vocabulary files that come with the source of that package."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tarfile
from pathlib import Path

RELEASE = "llama-cpp-python==0.3.36"
LOCAL_COPY = "SEALHOST_LLAMACPP_SDIST"
"""Names a local copy of that release's source archive (77 MB); without it pip fetches it."""

SEPARATOR = "\n__ggml_vocab_test__\n"


def fetch(folder: Path) -> Path:
    """The folder `models` of the source archive, unpacked below `folder`."""
    archive = Path(os.environ.get(LOCAL_COPY, ""))
    if not archive.is_file():
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "llama-cpp-python",
            RELEASE,
        ]
        subprocess.run(command, cwd=folder, check=True)
        (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        wanted = [one for one in tar if "/models/ggml-vocab-" in one.name and one.isfile()]
        tar.extractall(folder, wanted, filter="data")
    return (folder / wanted[0].name).parent


def pairs(model: Path) -> list[tuple[str, list[int]]]:
    """The texts and ids that llama.cpp's own tests use, from the publishers' tokenizers."""
    texts = model.with_name(model.name + ".inp").read_bytes().decode().split(SEPARATOR)
    answers = model.with_name(model.name + ".out").read_text().splitlines()
    return [(text, [int(one) for one in line.split()]) for text, line in zip(texts, answers, strict=False)]


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _silent(level, text, data):
    """Takes llama.cpp's log lines."""


class LlamaCpp:
    """A file's vocabulary in llama.cpp, without its weights."""

    def __init__(self, path: Path) -> None:
        from llama_cpp import llama_cpp as library

        self.library = library
        library.llama_log_set(_silent, ctypes.c_void_p(0))
        parameters = library.llama_model_default_params()
        parameters.vocab_only = True
        self.model = library.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model, path
        self.vocabulary = library.llama_model_get_vocab(self.model)

    def encode(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        raw = text.encode()
        ids = (self.library.llama_token * (len(raw) + 8))()
        count = self.library.llama_tokenize(self.vocabulary, raw, len(raw), ids, len(ids), add_special, parse_special)
        assert count >= 0
        return list(ids[:count])

    def close(self) -> None:
        self.library.llama_model_free(self.model)
