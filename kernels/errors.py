"""Errors of the kernels.

KernelError
├── FormatError      a tensor's format or shape is not one that the backend can run
└── BatchError       a step was asked for that its batch or model has no room for
"""

from __future__ import annotations


class KernelError(Exception):
    """Base of all errors raised by kernels; the text says what was expected and what came."""


class FormatError(KernelError):
    """A tensor's format or shape is not one that the backend can run."""


class BatchError(KernelError):
    """A step does not fit its batch or its model."""
