"""Makes an author's folder from a template of the SDK.

    new_plugin(Path("my-sampler"), "my-sampler", "sampler", "zig")

* Nothing is overwritten: the folder must not be there yet.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from ...signing import Code, SealError
from ..errors import UsageError

NAME_MARK = "@NAME@"
"""Stands in the templates for the plugin's name."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a manifest takes as a plugin's name."""


def sdk() -> Path:
    """The folder with the SDKs of all languages."""
    return Path(str(resources.files("sealhost.plugins"))) / "sdk"


def new_plugin(folder: Path, name: str, role: str, lang: str) -> list[Path]:
    """Writes a template's files and returns their paths.

    Args:
        folder: To make; its parent must exist.
        name: The plugin's.
        role: "sampler" or "tokenizer".
        lang: A language that the SDK has a template for.

    Raises:
        SealhostError: E_USAGE, E_IO.
    """
    if NAME.fullmatch(name) is None:
        problem = f"expected letters, digits, '.', '_' and '-', at most 64, got {name!r}"
        raise UsageError("NAME", problem, "choose another name")
    template = sdk() / lang / "template" / role
    made: list[Path] = []
    try:
        folder.mkdir()
        for source in sorted(template.iterdir()):
            target = folder / source.name
            target.write_text(source.read_text(encoding="utf-8").replace(NAME_MARK, name), encoding="utf-8")
            made.append(target)
    except FileExistsError:
        problem = "expected a path that is free, got an existing one"
        raise UsageError(str(folder), problem, "choose another name or --out; nothing was overwritten") from None
    except OSError as error:
        raise SealError(Code.IO, str(folder), f"cannot write: {error.strerror}", "check the path") from error
    return made
