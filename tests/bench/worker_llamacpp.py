"""llama.cpp behind the line protocol of versus_llamacpp.py: `prefill N` or `decode N` in, one JSON object out.

Uses the low-level API of llama-cpp-python, so that nothing but llama.cpp's own decode calls is timed.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import llama_cpp

PROMPT_STRIDE = 7919
"""A prime: the fed ids walk over the whole vocabulary, the same ones on both sides."""
SETTLING_TOKENS = 8
"""Untimed tokens of a decode: the other side's threads may still spin when a turn begins."""


@llama_cpp.llama_log_callback
def _quiet(_level: int, _text: bytes, _data: object) -> None:
    """llama.cpp logs to stderr unless told otherwise."""


class LlamaCpp:
    """One model and one context of 2,048 positions."""

    def __init__(self, path: str, threads: int) -> None:
        llama_cpp.llama_log_set(_quiet, None)
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = 2048
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def _clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def _decode(self, ids: list[int]) -> None:
        array = (llama_cpp.llama_token * len(ids))(*ids)
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def prefill(self, count: int) -> float:
        """Seconds for one batch of `count` tokens from an empty context."""
        self._clear()
        ids = [i * PROMPT_STRIDE % self.vocab for i in range(count)]
        start = time.perf_counter()
        self._decode(ids)
        return time.perf_counter() - start

    def decode(self, count: int) -> float:
        """Seconds for `count` tokens one at a time, after SETTLING_TOKENS from an empty context."""
        self._clear()
        for i in range(SETTLING_TOKENS + count):
            if i == SETTLING_TOKENS:
                start = time.perf_counter()
            self._decode([i * PROMPT_STRIDE % self.vocab])
        return time.perf_counter() - start


def main() -> None:
    """Answers commands from standard input until it ends."""
    peer = LlamaCpp(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"ready": "llama.cpp " + llama_cpp.__version__}), flush=True)
    for line in sys.stdin:
        verb, count = line.split()
        seconds = {"prefill": peer.prefill, "decode": peer.decode}[verb](int(count))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"rate": int(count) / seconds, "peak_rss_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
