"""Makes a bundle's directory (README clauses 9.1 and 9.2).

* Everything is written to a temporary sibling, made durable and renamed: the bundle is there as a whole or not at all.
  What a killed `pack` of the same bundle left is removed.
* Nothing is ever overwritten.
* The weights are copied inside the kernel (as a reflink where the file system can) and hashed from the copy, so
  memory stays flat and the manifest describes the bytes that are in the bundle.

Example:
    pack(Path("smollm2"), name="smollm2", version=1, model=Path("model.gguf"), plugins=(bpe, standard))
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .chunks import Meter, chunk_table, flat_digest
from .copying import Model, copy_model, open_model
from .durable import new_folder, sync_folder, write_new_file
from .errors import Code, SealError
from .limits import CHUNK_BYTES, DIGEST_BYTES
from .manifest import SCHEMA, FileEntry, FileRole, Manifest, PluginEntry, TemplateRelation, encode_manifest
from .names import MANIFEST, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .declaration import PluginSource

CHUNKS_PATH: Final = "model.gguf.chunks"
TEMPLATE_PATH: Final = "chat_template.jinja"
_NO_DIGEST: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed bundle, not yet signed.

    Attributes:
        digest: SHA-256 of its manifest, hex.
        manifest: The manifest.
        bytes: Bytes of all listed files.
    """

    digest: str
    manifest: Manifest
    bytes: int


@dataclass(frozen=True, slots=True)
class Template:
    """The chat template of a bundle.

    Attributes:
        relation: How it relates to the one in the GGUF.
        text: The template; None with relation "none".
    """

    relation: TemplateRelation
    text: str | None


NO_TEMPLATE: Final = Template("none", None)


def pack(  # noqa: PLR0913 — a bundle has that many parts
    out: Path,
    *,
    name: str,
    version: int,
    model: Path | None,
    plugins: Sequence[PluginSource],
    template: Template = NO_TEMPLATE,
    documents: Sequence[tuple[str, bytes]] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Packed:
    """Packs a model bundle, or a plugin bundle if there is no model.

    Args:
        out: Directory to make; its parent must exist, it must not.
        name: The bundle's name.
        version: At least 1; a later release must have a higher one.
        model: The GGUF file. That it is whole and readable is for the caller to check.
        plugins: In the order in which the manifest shall list them.
        template: The chat template.
        documents: File name and bytes of licence, model card and the like.
        progress: Called with bytes done and bytes to do.

    Raises:
        SealError: E_USAGE (arguments, `out` exists), E_IO.
    """
    if not out.name or out.is_symlink() or out.exists():
        problem = "expected the path of a directory that is not there yet, got an existing one"
        raise SealError(Code.USAGE, str(out), problem, "choose another --out; nothing was overwritten")
    small: list[tuple[FileRole, str, bytes]] = [("plugin", f"plugins/{p.name}.wasm", p.wasm) for p in plugins]
    if template.text is not None:
        small.append(("template", TEMPLATE_PATH, _encode_template(template.text)))
    small += [("document", f"documents/{file_name}", data) for file_name, data in documents]
    entries = tuple(_entry(role, path, data) for role, path, data in small)
    head = _Head(name, version, template.relation, tuple(_plugin_entry(plugin) for plugin in plugins))
    try:
        with contextlib.ExitStack() as stack:
            weights = stack.enter_context(open_model(model)) if model is not None else None
            _check_arguments(head, _draft(weights) + entries)
            folder = stack.enter_context(new_folder(out))
            for _, path, data in small:
                (folder / path).parent.mkdir(mode=0o755, exist_ok=True)
                write_new_file(folder / path, data, mode=0o644)
            if weights is not None:
                entries = (*_pack_weights(weights, folder, progress), *entries)
            manifest = head.manifest(entries)
            data = encode_manifest(manifest)
            write_new_file(folder / MANIFEST, data, mode=0o644)
            _publish(folder, out)
    except OSError as error:
        where = str(error.filename or out)
        raise SealError(
            Code.IO, where, f"cannot pack: {error.strerror}", "check the path, its rights and the free space"
        ) from error
    return Packed(hashlib.sha256(data).hexdigest(), manifest, sum(entry.size for entry in entries))


@dataclass(frozen=True, slots=True)
class _Head:
    """A manifest without its files."""

    name: str
    version: int
    template: TemplateRelation
    plugins: tuple[PluginEntry, ...]

    def manifest(self, files: tuple[FileEntry, ...]) -> Manifest:
        is_model = any(entry.role == "weights" for entry in files)
        return Manifest(
            schema=SCHEMA,
            kind="model" if is_model else "plugin",
            name=self.name,
            version=self.version,
            template=self.template,
            files=files,
            plugins=self.plugins,
        )


def _check_arguments(head: _Head, entries: tuple[FileEntry, ...]) -> None:
    """Refuses before anything is written what the format could not express."""
    try:
        encode_manifest(head.manifest(entries))
    except SealError as error:
        raise SealError(
            Code.USAGE, error.where, error.problem, "change the arguments or the plugin's declaration"
        ) from error


def _encode_template(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        problem = f"expected Unicode text, got half of a surrogate pair at character {error.start}"
        raise SealError(Code.TEMPLATE, TEMPLATE_PATH, problem, "mend the template's text") from error


def _entry(role: FileRole, path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest(), role=role)


def _plugin_entry(plugin: PluginSource) -> PluginEntry:
    return PluginEntry(
        path=f"plugins/{plugin.name}.wasm",
        name=plugin.name,
        role=plugin.role,
        abi=plugin.abi,
        tier=plugin.tier,
        limits=plugin.limits,
        config_schema=plugin.config_schema,
    )


def _weights_entries(size: int, flat: str, table_digest: str) -> tuple[FileEntry, FileEntry]:
    weights = FileEntry(
        path=WEIGHTS,
        size=size,
        sha256=flat,
        role="weights",
        chunk_size=CHUNK_BYTES,
        chunks=CHUNKS_PATH,
        chunks_sha256=table_digest,
    )
    table_size = -(-size // CHUNK_BYTES) * DIGEST_BYTES
    return weights, FileEntry(path=CHUNKS_PATH, size=table_size, sha256=table_digest, role="chunks")


def _draft(model: Model | None) -> tuple[FileEntry, ...]:
    """The weights' entries before anything was hashed."""
    return _weights_entries(model.size, _NO_DIGEST, _NO_DIGEST) if model is not None else ()


def _pack_weights(
    model: Model, folder: Path, progress: Callable[[int, int], None] | None
) -> tuple[FileEntry, FileEntry]:
    """Copies the weights, hashes the copy and writes its chunk table."""
    meter = Meter(2 * model.size, progress)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(folder / WEIGHTS, flags, 0o644)
    try:
        os.fchmod(descriptor, 0o644)
        copy_model(model, descriptor, meter)
        with ThreadPoolExecutor(1) as pool:
            flat = pool.submit(flat_digest, descriptor, model.path, model.size)
            table = chunk_table(descriptor, model.path, model.size, meter)
            entries = _weights_entries(model.size, flat.result(), hashlib.sha256(table).hexdigest())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    write_new_file(folder / CHUNKS_PATH, table, mode=0o644)
    return entries


def _publish(folder: Path, out: Path) -> None:
    """Makes the folder durable and gives it its name."""
    for directory, _, _ in os.walk(folder):
        sync_folder(Path(directory))
    folder.chmod(0o755)
    if out.exists():  # somebody else was faster; rename would replace an empty directory
        raise SealError(
            Code.USAGE, str(out), "expected a path that is free, got an existing one", "choose another --out"
        )
    folder.rename(out)
    sync_folder(out.parent)
