"""`plugin replay`: a sampler against a recording of a session, as facts to print.

replayed(Path("answer.rec"), AuthoredPlugin.read(folder))   # {"alike": True, "steps": 57, …}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...sandbox import AdmissionError, Sandbox
from ...sandbox.recording import Recording
from ...sandbox.replay import replay
from ...signing import Code, SealError
from ..errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ...sandbox import Vocabulary
    from ...sandbox.recording import Head
    from .plugin_folder import AuthoredPlugin

ASKS_FOR_VOCABULARY: Final = "1.15"
"""Clause of plugins/README.md by which a sampler that asks for the vocabulary is refused without one."""


def replayed(path: Path, plugin: AuthoredPlugin, words: Vocabulary | None = None) -> dict[str, Any]:
    """Replays a recording.

    Args:
        path: The recording.
        plugin: The sampler.
        words: The model's vocabulary, for a sampler that asks for it.

    Raises:
        SealhostError: E_IO, E_PARSE, E_PLUGIN, E_USAGE if it asks for a vocabulary and there is none, or what
            the sampler has no room for.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise SealError(
            Code.IO, str(path), f"cannot read: {error.strerror}", "check the path and the rights"
        ) from error
    with file, Sandbox() as sandbox:
        recording = Recording(file, str(path))
        head = recording.head
        try:
            sampler = sandbox.load_sampler(plugin, head.vocab_size, words)
        except AdmissionError as error:
            if words is not None or error.clause != ASKS_FOR_VOCABULARY:
                raise
            problem = f"expected the model that answered, for {plugin.name} takes its vocabulary, got none"
            raise UsageError("--model", problem, "give --model with its GGUF file") from None
        outcome = replay(sampler, recording)
    facts: dict[str, Any] = {
        "recorded with": f"{head.plugin}, {_kinship(head, plugin)}",
        "choices": len(head.choices),
        "steps": outcome.steps,
        "decisions": outcome.decisions,
        "complete": not outcome.is_cut,
        "alike": outcome.difference is None,
    }
    if outcome.difference is not None:
        where = {"step": outcome.difference.step, "slot": outcome.difference.slot}
        facts |= {**where, "recorded": outcome.difference.recorded, "replayed": outcome.difference.replayed}
    return facts


def _kinship(head: Head, plugin: AuthoredPlugin) -> str:
    """What a replayed plugin is to the one that was recorded."""
    if head.sha256 == plugin.sha256:
        return "this module"
    return "another build of it" if head.plugin == plugin.name else f"another plugin than {plugin.name}"
