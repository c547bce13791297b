"""Runs a decoder model on the processor that is there; see README.md."""
