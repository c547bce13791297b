"""The `sealhost` script: imports the command line where Ctrl-C already ends in an exit code and no traceback.

Example:
    sealhost verify bundle
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130
"""As `ending` has it, which is not imported yet."""


def main() -> None:
    """Entry point of the `sealhost` script."""
    try:
        from .main import main as begin  # noqa: PLC0415 — see above

        begin()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
