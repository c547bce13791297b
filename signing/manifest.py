"""What a bundle says about itself: manifest.json as checked values (README clauses 2.1 to 2.9).

* `parse_manifest` takes bytes and opens nothing; it raises SealError and nothing else.
* A Manifest that exists has passed every rule that does not need the disk.
* The values are msgspec structs, frozen like the other records: one declaration is both the type and
  the strict schema, so the two cannot drift apart.

Example:
    manifest = parse_manifest(data)
    manifest.weights.size
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from . import limits
from .errors import Code, SealError
from .names import MANIFEST
from .paths import check_distinct, check_path
from .strict_json import parse_strict_json

SCHEMA: Final = "sealhost bundle v1"

Sha256Hex = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
NAME_PATTERN: Final = r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Milliseconds = Annotated[int, Meta(ge=0, le=limits.MAX_PLUGIN_MILLISECONDS)]
FileRole = Literal["weights", "chunks", "template", "plugin", "document"]
PluginRole = Literal["tokenizer", "sampler"]
TemplateRelation = Literal["same", "replaced", "added", "none"]

_MAX_BYTES: dict[str, int] = {
    "weights": limits.MAX_WEIGHTS_BYTES,
    "chunks": limits.MAX_WEIGHTS_BYTES // limits.CHUNK_BYTES * limits.DIGEST_BYTES,
    "template": limits.MAX_TEMPLATE_BYTES,
    "plugin": limits.MAX_PLUGIN_BYTES,
    "document": limits.MAX_DOCUMENT_BYTES,
}
_NEEDED_MILLISECONDS: dict[str, tuple[str, ...]] = {
    "tokenizer": ("init_ms", "load_ms", "encode_ms"),
    "sampler": ("init_ms", "step_ms"),
}
MAX_TOPK: Final = 4096
"""Candidates that a sampler of tier topk may ask for: 32 KiB for each choice; who wants more asks for all logits."""
_TIERS: dict[str, re.Pattern[str]] = {
    "tokenizer": re.compile(""),
    "sampler": re.compile(r"full|mask|topk:([1-9][0-9]{0,3})"),
}
_TIERS_SHOWN = {"tokenizer": "''", "sampler": f"'full', 'mask' or 'topk:K' with K of 1 to {MAX_TOPK}"}
_REMEDY = "the publisher must pack the bundle again with this version of sealhost"


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One listed file; the last three fields are there for weights and only for them."""

    path: str
    size: Annotated[int, Meta(ge=0, le=limits.MAX_INTEGER)]
    sha256: Sha256Hex
    role: FileRole
    chunk_size: Annotated[int, Meta(ge=limits.CHUNK_BYTES, le=limits.CHUNK_BYTES)] | UnsetType = UNSET
    chunks: str | UnsetType = UNSET
    chunks_sha256: Sha256Hex | UnsetType = UNSET


class PluginLimits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a plugin asks for; the host grants the lesser of this and the operator's own limit.

    Times are milliseconds of one call. Calls that the role does not have may be 0.
    """

    memory_bytes: Annotated[int, Meta(ge=limits.WASM_PAGE_BYTES, le=limits.MAX_PLUGIN_MEMORY_BYTES)]
    init_ms: Milliseconds
    load_ms: Milliseconds
    step_ms: Milliseconds
    encode_ms: Milliseconds


class PluginEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One plugin: which file, what it is, and the limits it was signed with."""

    path: str
    name: Name
    role: PluginRole
    abi: Annotated[int, Meta(ge=1, le=0xFFFF)]
    tier: str
    limits: PluginLimits
    config_schema: dict[str, Any] | None


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole manifest."""

    schema: Literal["sealhost bundle v1"]
    kind: Literal["model", "plugin"]
    name: Name
    version: Annotated[int, Meta(ge=1, le=limits.MAX_INTEGER)]
    template: TemplateRelation
    files: Annotated[tuple[FileEntry, ...], Meta(min_length=1, max_length=limits.MAX_FILES)]
    plugins: Annotated[tuple[PluginEntry, ...], Meta(max_length=limits.MAX_PLUGINS)]

    def with_role(self, role: FileRole) -> tuple[FileEntry, ...]:
        """The files of one role, in the manifest's order."""
        return tuple(entry for entry in self.files if entry.role == role)

    @property
    def weights(self) -> FileEntry | None:
        """The weights' entry; None in a plugin bundle."""
        return next(iter(self.with_role("weights")), None)


def _refuse(problem: str) -> SealError:
    return SealError(Code.MANIFEST, MANIFEST, problem, _REMEDY)


def parse_manifest(data: bytes) -> Manifest:
    """Reads and checks a manifest.

    Args:
        data: The exact bytes of manifest.json.

    Raises:
        SealError: E_PARSE (not strict JSON), E_MANIFEST (not the schema), E_PATH (a listed path).
    """
    value = parse_strict_json(data, MANIFEST)
    try:
        manifest = msgspec.convert(value, Manifest, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        raise _refuse(text[:1].lower() + text[1:]) from error
    check_manifest(manifest)
    return manifest


def check_manifest(manifest: Manifest) -> None:
    """Refuses what the types alone let through (clauses 2.5 to 2.9 and 3).

    Raises:
        SealError: E_MANIFEST or E_PATH.
    """
    for entry in manifest.files:
        check_path(entry.path)
        _check_file(entry)
    check_distinct(entry.path for entry in manifest.files)
    small = sum(entry.size for entry in manifest.files if entry.role != "weights")
    if small > limits.MAX_SMALL_BYTES:
        raise _refuse(f"expected at most {limits.MAX_SMALL_BYTES} bytes beside the weights, got {small}")
    _check_kind(manifest)
    _check_template(manifest)
    _check_plugins(manifest)


def _check_file(entry: FileEntry) -> None:
    """Clauses 2.5 and 2.6: a role's size, and the chunk fields on weights alone."""
    most = _MAX_BYTES[entry.role]
    least = 1 if entry.role in {"weights", "plugin"} else 0
    if not least <= entry.size <= most:
        raise _refuse(f"expected {least} to {most} bytes for a file of role {entry.role}, got {entry.size}")
    for field in ("chunk_size", "chunks", "chunks_sha256"):
        if (getattr(entry, field) is not UNSET) != (entry.role == "weights"):
            raise _refuse(f"expected {field} on weights and on nothing else, got it otherwise on {entry.path}")


def _check_kind(manifest: Manifest) -> None:
    """Clause 2.7: one weights file with one fitting chunk table in a model, none in a plugin bundle."""
    wanted = 1 if manifest.kind == "model" else 0
    for role in ("weights", "chunks"):
        if (found := len(manifest.with_role(role))) != wanted:
            raise _refuse(f"expected {wanted} file(s) of role {role} in a bundle of kind {manifest.kind}, got {found}")
    if (weights := manifest.weights) is None:
        return
    (table,) = manifest.with_role("chunks")
    size = -(-weights.size // limits.CHUNK_BYTES) * limits.DIGEST_BYTES
    if (weights.chunks, weights.chunks_sha256) != (table.path, table.sha256):
        raise _refuse("expected the weights to name the chunk table's path and sha256, got another path or sha256")
    if table.size != size:
        raise _refuse(f"expected a chunk table of {size} bytes for {weights.size} bytes of weights, got {table.size}")


def _check_template(manifest: Manifest) -> None:
    """Clause 2.8: the template's relation says whether there is a file."""
    found = len(manifest.with_role("template"))
    wanted = 0 if manifest.template == "none" else 1
    if found != wanted:
        raise _refuse(f"expected {wanted} template file(s) with template {manifest.template!r}, got {found}")
    if manifest.kind == "plugin" and manifest.template != "none":
        raise _refuse(f"expected template 'none' in a plugin bundle, got {manifest.template!r}")


def _check_plugins(manifest: Manifest) -> None:
    """Clause 2.9: plugin entries and plugin files match one to one; a model can encode and sample."""
    entries = sorted(plugin.path for plugin in manifest.plugins)
    files = sorted(entry.path for entry in manifest.with_role("plugin"))
    if entries != files:
        odd = sorted(set(entries) ^ set(files)) or entries
        raise _refuse(f"expected one plugin entry for each file of role plugin, got no match for {odd[0]}")
    names = [plugin.name for plugin in manifest.plugins]
    if len(set(names)) != len(names):
        raise _refuse("expected distinct plugin names, got one twice")
    for plugin in manifest.plugins:
        _check_plugin(plugin)
    roles = [plugin.role for plugin in manifest.plugins]
    if manifest.kind == "model" and (roles.count("tokenizer") != 1 or "sampler" not in roles):
        raise _refuse("expected one tokenizer and at least one sampler in a model bundle, got otherwise")
    if not roles:
        raise _refuse("expected at least one plugin in a plugin bundle, got none")


def _check_plugin(plugin: PluginEntry) -> None:
    tier = _TIERS[plugin.role].fullmatch(plugin.tier)
    if tier is None or (tier.re.groups and int(tier[1] or 1) > MAX_TOPK):
        raise _refuse(f"expected tier {_TIERS_SHOWN[plugin.role]} for a {plugin.role}, got {plugin.tier!r}")
    if plugin.limits.memory_bytes % limits.WASM_PAGE_BYTES:
        raise _refuse(f"expected whole pages of 65536 bytes as memory_bytes, got {plugin.limits.memory_bytes}")
    for field in _NEEDED_MILLISECONDS[plugin.role]:
        if getattr(plugin.limits, field) < 1:
            raise _refuse(f"expected {field} of at least 1 for a {plugin.role}, got 0")


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes that a packer writes: two spaces of indentation, one line feed at the end.

    Raises:
        SealError: If the bytes would not parse back to the same manifest.
    """
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    parse_manifest(data)
    return data
