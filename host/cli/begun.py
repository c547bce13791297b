"""Weights that are read and hashed while the rest of the command line's program is still being imported.

Importing keeps one core busy for a while; another can hash half a gigabyte meanwhile. Which bundle a verb will read is
guessed from its words, since what reads them is imported, too: a wrong guess costs that core's time, no more
(signing/README.md, 7.3). signing/system.py says why nothing is imported here.

Example:
    with begin(["run", "smollm2", "Hello"]) as begun:
        run(arguments, begun)
"""

from __future__ import annotations

import os
import sys

from ...signing.ahead import HashedAhead
from ...signing.names import WEIGHTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

_LOADING: Final = frozenset({"run", "chat", "bench"})
"""Verbs that load one bundle and answer on the terminal."""
_SWITCH_S: Final = 0.0001
"""How long whoever imports may keep a thread that hashes from its next chunk: Python's own 5 ms are longer than a chunk
takes, and left the other core idle half of the time."""
_USUAL_SWITCH_S: Final = sys.getswitchinterval()


def begin(arguments: Sequence[str]) -> HashedAhead:
    """Begins to read what a command line seems to name, if anything; to be closed."""
    verb = arguments[0] if arguments else ""
    lazy = "--lazy" in arguments or "SEALHOST_LAZY" in os.environ
    if verb == "verify":
        return HashedAhead(_guess(arguments[1:]))
    if verb in _LOADING and not lazy:
        sys.setswitchinterval(_SWITCH_S)
        return HashedAhead(_guess(arguments[1:]), keep=True)
    return HashedAhead(None)


def take_usual_turns() -> None:
    """Lets threads keep the interpreter as long as usual again: the weights are loaded."""
    sys.setswitchinterval(_USUAL_SWITCH_S)


def _guess(words: Sequence[str]) -> str | None:
    """The first word that names a folder with weights."""
    return next((word for word in words if os.path.isfile(os.path.join(word, WEIGHTS))), None)  # noqa: PTH113, PTH118 — a prompt may be no path at all
