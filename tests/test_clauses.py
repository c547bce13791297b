"""Every clause that the code cites by its number is one of the README that it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = ("host", "kernels", "sandbox", "signing")
NUMBERS = r"\d+\.\d+(?:(?:, | and | to )\d+\.\d+)*"
CITED = re.compile(
    rf"(?:(?P<before>\w+)/README\.md, )?(?P<word>clauses?|README|README clauses?) (?P<numbers>{NUMBERS})"
    r"(?: of (?P<after>\w+)/README\.md)?",
    re.IGNORECASE,
)


@cache
def clauses(room: str) -> frozenset[str]:
    page = (REPOSITORY / room / "README.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^(\d+\.\d+) ", page, re.MULTILINE))


def cited(room: str) -> Iterator[tuple[Path, frozenset[str], str]]:
    """File, clauses that may be meant, and number of each citation; the plugin kit also cites plugins/README.md."""
    for path in sorted([*(REPOSITORY / room).rglob("*.py"), *(REPOSITORY / "tests" / room).rglob("*.py")]):
        own = clauses(room) | (clauses("plugins") if "plugin" in path.name else frozenset())
        text = re.sub(r"\s*\n[\s#]*", " ", path.read_text(encoding="utf-8"))
        for found in CITED.finditer(text):
            page = found["before"] or found["after"]
            for number in re.findall(r"\d+\.\d+", found["numbers"]):
                yield path.relative_to(REPOSITORY), clauses(page) if page else own, number


@pytest.mark.parametrize("room", ROOMS)
def test_a_clause_that_code_cites_exists(room: str) -> None:
    found = list(cited(room))
    assert len(found) > 5
    assert [(str(path), number) for path, known, number in found if number not in known] == []
