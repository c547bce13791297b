"""The `sealhost` script: what comes before the command line is imported.

* Hashing begins, so that the cores that importing leaves idle have something to do.
* Ctrl-C already ends in an exit code and no traceback.

Example:
    sealhost verify bundle
"""

from __future__ import annotations

import sys

from .begun import begin
from .descriptors import fill_descriptors

_INTERRUPTED = 130
"""As `ending` has it, which is not imported yet."""


def main() -> None:
    """Entry point of the `sealhost` script."""
    try:
        fill_descriptors()
        with begin(sys.argv[1:]) as begun:
            from .main import main as go_on  # noqa: PLC0415 — see above

            go_on(begun)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
