"""Keeps the descriptors 0 to 2 from being free: the next file to be opened would get what is meant for a person.

Clause 6.2 of host/README.md. Comes before any file is opened, so before almost anything is imported.
"""

from __future__ import annotations

import os
import sys


def fill_descriptors() -> None:
    """Gives standard streams that our parent left closed to the null device."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number, which is this
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 — a descriptor, for good
