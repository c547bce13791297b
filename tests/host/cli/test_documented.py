"""Every `sealhost …` that a README shows: its verb is one, and each option is that verb's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sealhost.host.cli.main import command_line

REPOSITORY = Path(__file__).resolve().parents[3]
ROOMS = ("host", "sandbox", "signing", "kernels", "plugins", "keys", "tests")
PAGES = [*REPOSITORY.glob("*.md"), *(page for room in ROOMS for page in sorted((REPOSITORY / room).rglob("*.md")))]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
COMMAND = r"sealhost (?!\w+ v1\b)"  # but for `sealhost trust v1` and the like, which begin what is signed
IN_BLOCK = re.compile(rf"^ *{COMMAND}([^#\n]+)", re.MULTILINE)
INLINE = re.compile(rf"`{COMMAND}([^`\n]+)`")


def shown() -> list[tuple[str, list[str]]]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in FENCED.findall(text) for line in IN_BLOCK.findall(block)]
        for line in [*lines, *INLINE.findall(FENCED.sub("", text))]:
            for command in re.split(r" (?:&&|\|) ", line):
                words = re.sub(r"[…\[\]]", "", command.removeprefix("sealhost ")).split()
                found.append((f"{page.relative_to(REPOSITORY)}: {command.strip()}", words))
    return found


@pytest.mark.parametrize(("where", "words"), shown(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_documented_command_is_one(where: str, words: list[str]) -> None:
    verb, rest = command_line(), list(words)
    while rest and rest[0] in verb:
        verb = verb[rest.pop(0)]
    assert rest != words, f"{where}: no such verb"
    assert not (verb.default_command is None and rest), f"{where}: no such verb"
    if verb.default_command is not None:
        known = {name for argument in verb.assemble_argument_collection() for name in argument.names}
        asked = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
        assert asked <= known | {"--help"}, f"{where}: no such option"
