"""The privileged part: weights, engine, data plane and command line."""
