"""What a refusal says."""

from __future__ import annotations

import pytest

from sealhost.signing.errors import Code, IntegrityError, SealError


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("bundle", "E_SIG models/lab: expected a, got b; do c"),
        ("", "E_SIG models/lab: expected a, got b; do c"),
        ("model.gguf", "E_SIG models/lab: model.gguf: expected a, got b; do c"),
        ("models/lab/x", "E_SIG models/lab/x: expected a, got b; do c"),
    ],
)
def test_a_refusal_can_name_its_bundle_and_keeps_the_first_that_it_was_told(where: str, line: str) -> None:
    error = SealError(Code.SIG, where, "expected a, got b", "do c")
    for directory in ("models/lab", "models/other"):
        error.of_bundle(directory)
        assert str(error) == line
        assert line.startswith(f"E_SIG {error.where}: ")


def test_a_bundles_name_cannot_control_the_terminal_and_takes_nothing_from_the_refusal() -> None:
    error = IntegrityError(Code.SIZE, "x", "expected 1, got 2", changed=("x",))
    error.of_bundle("a\x1b[31m")
    assert str(error).startswith("E_SIZE a\\x1b[31m: x: expected 1, got 2; changed: 1 (x);")
    assert error.changed == ("x",)
