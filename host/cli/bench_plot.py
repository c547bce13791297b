"""Draws what `bench` measured: tokens/s against the sequences that decode together, and against the context's length.

Example:
    plot(facts, Path("speed.svg"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Raises UsageError, before anything is measured, where no picture could be written."""
    if path.suffix not in SUFFIXES:
        raise UsageError(
            "--plot", f"expected a name that ends with {' or '.join(SUFFIXES)}, got {path.name}", "rename it"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError("--plot", f"expected a folder that is there, got {path.parent}", "make it first")
    try:
        import matplotlib  # noqa: F401, ICN001, PLC0415 — heavy, and only here
    except ImportError as error:
        raise UsageError(
            "--plot", "expected matplotlib, it is not installed", "pip install 'sealhost[bench]'"
        ) from error


def plot(facts: dict[str, Any], path: Path) -> None:
    """Writes the picture; `facts` are those of `bench`."""
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 4), layout="constrained")
    crowd, depth = figure.subplots(1, 2)
    crowds = _points(facts, "batch_")
    crowd.plot(*zip(*crowds, strict=True), marker="o")
    crowd.set(xlabel="sequences that decode together", xscale="log", title="Decode, all sequences")
    crowd.set_xticks([size for size, _ in crowds], [str(size) for size, _ in crowds])
    for label, points in (("decode", _points(facts, "decode_depth_")), ("prefill", _points(facts, "prefill_"))):
        if points:
            depth.plot(*zip(*points, strict=True), marker="o", label=label)
    depth.set(xlabel="ids in the context", yscale="log", title="One sequence")
    depth.legend()
    for axes in (crowd, depth):
        axes.set_ylabel("tokens/s")
        axes.grid(visible=True, alpha=0.3)
    crowd.set_ylim(bottom=0)
    figure.suptitle(f"{facts['model']} on {facts['backend']}, {facts['threads']} threads")
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(path)


def _points(facts: dict[str, Any], prefix: str) -> list[tuple[int, float]]:
    """Pairs of a name's number and its tokens/s."""
    ends = [(key.removeprefix(prefix).removesuffix("_tok_s"), value) for key, value in facts.items()
            if key.startswith(prefix) and key.endswith("_tok_s")]  # fmt: skip
    return sorted((int(number), value) for number, value in ends)
