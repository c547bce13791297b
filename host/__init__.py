"""Weights, engine, HTTP and command line: the part that puts the others together."""
