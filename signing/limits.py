"""Every bound of the bundle format, with its unit and its reason.

The README's clauses give the same numbers; a second implementation must use them too, or the two would
disagree about which bundles are valid.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # `system.py` says why not from there at run time
    from typing import Final

MAX_MANIFEST_BYTES: Final = 1 << 20
"""Bytes of manifest.json: room for 1,000 files, small enough to parse before anything is trusted."""

MAX_JSON_DEPTH: Final = 16
"""Nested arrays and objects: a manifest needs 4, a configuration schema a few more."""

MAX_JSON_DIGITS: Final = 16
"""Digits of an integer: enough for 2**53 - 1; longer ones cost quadratic time to convert."""

MAX_INTEGER: Final = (1 << 53) - 1
"""Largest integer that every JSON implementation reads exactly."""

MAX_FILES: Final = 1024
"""Files of one bundle: weights, table, template, plugins, documents."""

MAX_PLUGINS: Final = 32
"""Plugins of one bundle: one tokenizer and a shelf of samplers."""

MAX_SIGNATURES: Final = 64
"""Files in signatures/: m-of-n trust with room to spare; each costs one Ed25519 check (0.3 ms)."""

MAX_SIGNATURE_FILE_BYTES: Final = 512
"""Bytes of a signature file; the valid ones have 182 or 185."""

MAX_KEY_FILE_BYTES: Final = 16 << 10
"""Bytes of a key's file: a public key has 120."""

MAX_TRUST_FILE_BYTES: Final = 256 << 10
"""Bytes of trust.toml or revoked.toml: a thousand keys; parsing it takes a few tenths of a second."""

MAX_TOML_DEPTH: Final = 16
"""Dots and opening brackets on a line of a trust file, outside of strings; a line of ours has at most two."""

MAX_KEYS: Final = 1024
"""Entries of a keys folder; admission costs 1.5 ms for each key."""

MAX_PATH_BYTES: Final = 1024
"""UTF-8 bytes of one listed path."""

MAX_COMPONENT_BYTES: Final = 255
"""UTF-8 bytes of one component: what file systems can store."""

MAX_PATH_DEPTH: Final = 16
"""Components of one path."""

MAX_ENTRIES: Final = 4096
"""Directory entries that the walk looks at before it gives up on a bundle."""

CHUNK_BYTES: Final = 4 << 20
"""Bytes of a weights chunk: small enough for cores to share a file, large enough for a table of 8 bytes per MiB."""

DIGEST_BYTES: Final = 32
"""Bytes of a SHA-256."""

MAX_WEIGHTS_BYTES: Final = 1 << 40
"""Bytes of the weights (1 TiB), which bounds the chunk table to 8 MiB."""

MAX_PLUGIN_BYTES: Final = 16 << 20
"""Bytes of one wasm module; it is kept in memory."""

MAX_TEMPLATE_BYTES: Final = 1 << 20
"""Bytes of the chat template; the longest public ones have 20 KiB."""

MAX_DOCUMENT_BYTES: Final = 4 << 20
"""Bytes of a document (licence, model card); it is read to be hashed and then dropped."""

MAX_SMALL_BYTES: Final = 128 << 20
"""Bytes of all files but the weights together: a bound on what verifying keeps in memory."""

WASM_PAGE_BYTES: Final = 64 << 10
"""Bytes of a WebAssembly page: plugin memory comes in whole pages."""

MAX_PLUGIN_MEMORY_BYTES: Final = 1 << 32
"""Bytes a plugin may ask for: the whole address space of 32-bit WebAssembly; the operator's cap is far lower."""

MAX_PLUGIN_MILLISECONDS: Final = 600_000
"""Milliseconds a plugin may ask for in one call; the operator's cap is far lower."""
