"""Names in a bundle that the format itself gives; `system.py` says why nothing is imported here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "bundle.sig"
SIGNATURES: Final = "signatures"
WEIGHTS: Final = "model.gguf"
"""Where the packer puts weights; a verifier goes by roles, and by this name only where a wrong guess costs nothing."""
FOREIGN_SIGNATURE: Final = "model.sig"
"""An OpenSSF model signing bundle may lie beside ours; it is not read."""
