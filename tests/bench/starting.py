"""Measures starts: `sealhost run BUNDLE` from the command to the first byte of its answer.

    python tests/bench/starting.py [MODEL.gguf] [--rounds 7]

* first: with an empty cache, so that all kernels and guests are compiled; once, with the lines that tell of it.
* cached: with what that one left there, as every later start; the median, the lowest and the highest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from versus_llamacpp import spread
from worker_sealhost import signed_bundle


def start(command: list[str | Path], environment: dict[str, str]) -> tuple[float, str]:
    """Seconds to the first byte of standard output, and what stands on standard error by the end."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        first = process.stdout.read(1)
        seconds = time.perf_counter() - began
        _, errors = process.communicate()
    if not first:
        raise SystemExit(f"expected an answer, got none: {errors.decode()}")
    return seconds, errors.decode()


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="default: the demo model")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.model is None:
        from sealhost.host.cli.demo_model import fetch_demo_model

        options.model = fetch_demo_model()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle, keys = signed_bundle(folder, options.model)
        sealhost = Path(sys.executable).with_name("sealhost")
        command = [sealhost, "run", bundle, "Hello", "--max-tokens", "1", "--keys", keys, "--state", folder / "state"]
        environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program's modules are compiled once
        seconds, told = start(command, environment)
        print(f"{options.model.name}: first {seconds:.1f} s, in which it said:")
        print("".join(f"    {line}\n" for line in told.replace("\r", "\n").splitlines() if line.strip()), end="")
        rest = [start(command, environment)[0] for _ in range(options.rounds)]
        print(f"  cached {spread(rest, 2)} s, {options.rounds} starts")


if __name__ == "__main__":
    main()
