"""What `pack` gathers from the command line: a checked GGUF file, plugins, a template, documents.

Rules
* A cut or unreadable GGUF file is refused here, before anything is written. One that this version cannot load, for its
  architecture or a tensor, is packed with a warning: hosts of another version may.
* Plugins are named (the reference ones of sealhost) or given as a path; both have a declaration beside them.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from ...signing import Code, SealError
from ...signing.declaration import PluginSource, read_input, read_plugin
from ...signing.limits import MAX_DOCUMENT_BYTES, MAX_INTEGER, MAX_TEMPLATE_BYTES
from ...signing.manifest import NAME_PATTERN
from ...signing.pack import NO_TEMPLATE, Template
from ..errors import UsageError, WeightsError
from ..weights import graph
from ..weights.gguf import GgufFile
from ..weights.vocabulary import REFERENCE_GUESTS, vocabulary
from .bare_file import BareFile, opened_file
from .plugin_folder import read_source

SAMPLERS: Final = ("standard", "json")
"""Reference samplers that go into a model's bundle unless its publisher chooses: one to draw with, and one for the
`response_format` that clients of this API count on."""

_REFERENCE_FOLDERS = {"tokenizer": "tokenizers", "sampler": "samplers"}


class ModelFacts(NamedTuple):
    """What `pack` learns from a GGUF file.

    Attributes:
        template: The file's own chat template.
        tokenizer: The reference plugin for its tokenizer model.
        warning: Why a host of this version will not load it; None: nothing in its header says so.
    """

    template: str | None
    tokenizer: str
    warning: str | None = None


def check_release(name: str, version: int) -> None:
    """Refuses what no manifest may say of a bundle, by the option that says it (signing/README.md, clause 2.4).

    Raises:
        UsageError: the name or the version is not acceptable.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        problem = f"expected up to 64 letters, digits, '.', '_' and '-', a letter or digit first, got {name!r}"
        raise UsageError("--name", problem, "choose another name")
    if not 1 <= version <= MAX_INTEGER:
        raise UsageError("--version", f"expected 1 to {MAX_INTEGER}, got {version}", "choose another number")


def facts_of(model: Path) -> ModelFacts:
    """Reads a GGUF file's structure, and so refuses a cut one before anything is written.

    Raises:
        SealhostError: E_GGUF, E_IO.
    """
    with opened_file(model) as contents:
        file = GgufFile.parse(contents)
        warning = _obstacle(file, contents)
    metadata = file.metadata
    template, kind = metadata.get("tokenizer.chat_template"), metadata.get("tokenizer.ggml.model")
    # a host refuses a model that has no guest; whoever packs one names a tokenizer of their own
    tokenizer = REFERENCE_GUESTS.get(kind, "bpe") if isinstance(kind, str) else "bpe"
    return ModelFacts(template if isinstance(template, str) else None, tokenizer, warning)


def _obstacle(file: GgufFile, contents: BareFile) -> str | None:
    """Why the loader would refuse what it sees before the tensors' own bytes."""
    try:
        graph.family_of(file)
        graph.describe(file, vocab=len(vocabulary(file).texts), read=contents.view)
    except WeightsError as error:
        return str(error)
    return None


def template_for(own: str | None, replacement: Path | None) -> Template:
    """The bundle's template and how it relates to the GGUF's own (signing/README.md, clause 2.8)."""
    if replacement is None:
        return NO_TEMPLATE if own is None else Template("same", own)
    try:
        text = read_input(replacement, MAX_TEMPLATE_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got an invalid byte at offset {error.start}"
        raise SealError(Code.TEMPLATE, str(replacement), problem, "save the template as UTF-8") from error
    if own is None:
        return Template("added", text)
    return Template("same" if text == own else "replaced", text)


def read_document(path: Path) -> tuple[str, bytes]:
    """File name and bytes of a document that travels with the bundle."""
    return path.name, read_input(path, MAX_DOCUMENT_BYTES)


def find_plugin(spec: str, role: str) -> PluginSource:
    """A reference plugin by name, or the module at a path that ends in .wasm.

    Raises:
        SealhostError: E_USAGE (unknown name, a plugin of another role), E_IO, E_PLUGIN.
    """
    path = Path(spec)
    if path.suffix != ".wasm":
        known = _reference_modules(role)
        if spec not in known:
            problem = f"expected a {role} among {', '.join(known) or 'none that is built'}, got {spec!r}"
            raise UsageError(f"--{role}", problem, "name one of them or give the path of a .wasm file")
        path = known[spec]
    plugin = read_plugin(path)
    if plugin.role != role:
        problem = f"expected a plugin of role {role}, got a {plugin.role}"
        raise UsageError(f"--{role}", problem, f"give it as --{plugin.role}")
    return plugin


def find_authored(place: Path) -> PluginSource:
    """The plugin in a folder or at the path of a module; where there is none, the reference sampler of that name.

    Raises:
        SealError: E_IO, E_SIZE, E_PLUGIN.
    """
    known = _reference_modules("sampler")
    return read_source(place) if place.exists() or str(place) not in known else read_plugin(known[str(place)])


def _reference_modules(role: str) -> dict[str, Path]:
    """Where each reference plugin of a role lies, by name, sorted."""
    shelf = Path(str(resources.files("sealhost.plugins"))) / _REFERENCE_FOLDERS[role]
    return {module.parent.name: module for module in sorted(shelf.glob("*/plugin.wasm"))}
