"""The guest `json` on a vocabulary of thousands of tokens, where masks are filled, reused and cut short, against the acceptor."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import wasmtime
from gbnf_reference import Follower, State
from grammar_guest import PIECES, GrammarGuest, Words
from grammar_reference import Read
from json_reference import Texts, dumps

from sealhost.plugins import reference_plugin


def many_words() -> Words:
    """Words, with spaces before them, in capitals, hyphened, quoted, in three scripts; runs of all lengths; parts of characters."""
    rng = random.Random(3)
    found = {bytes([byte]): None for byte in range(256)} | dict.fromkeys(PIECES)
    for _ in range(700):
        word = "".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9)))
        for text in (
            word,
            " " + word,
            word.title(),
            rng.choice([word + ",", word + '"', word + "-" + word, word + ".", word + " a"]),
        ):
            found[text.encode()] = None
        found["".join(rng.choices(rng.choice(["абвгде", "éü日本 a"]), k=rng.randint(2, 5))).encode()] = None
        found[str(rng.randint(0, 999_999)).encode()] = None
    for run in b" -0a=":
        found |= {bytes([run]) * length: None for length in (3, 4, 7, 8, 15, 16, 31, 32, 33, 40, 64, 100)}
    found |= {word + b"\xd0": None for word in list(found)[400:460]}
    return Words.of(found)


WORDS = many_words()


class Tree:
    """The vocabulary as a tree, so that the acceptor reads what tokens share once."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.below: dict[int, Tree] = {}

    def add(self, text: bytes, id_: int) -> None:
        at = self
        for byte in text:
            at = at.below.setdefault(byte, Tree())
        at.ids.append(id_)

    def allowed(self, read: Read | Followed) -> Iterator[int]:
        todo = [(self, read)]
        while todo:
            at, here = todo.pop()
            yield from at.ids
            for byte, below in at.below.items():
                if (after := here.take(bytes([byte]))).lives:
                    todo.append((below, after))


@pytest.fixture(scope="module")
def tree() -> Tree:
    root = Tree()
    for id_, text in enumerate(WORDS.texts):
        if text:
            root.add(text, id_)
    return root


@pytest.fixture(scope="module")
def guest(guest_engine) -> GrammarGuest:
    module = reference_plugin("sampler", "json") / "plugin.wasm"
    return GrammarGuest(guest_engine, wasmtime.Module(guest_engine, module.read_bytes()), WORDS)


class Followed:
    """Read, of a grammar in GBNF."""

    def __init__(self, follower: Follower, state: State) -> None:
        self.follower, self.state = follower, state

    def take(self, raw: bytes) -> Followed:
        return Followed(self.follower, self.follower.take(self.state, raw))

    @property
    def lives(self) -> bool:
        return bool(self.state.stacks)

    @property
    def ends(self) -> bool:
        return self.follower.ends(self.state)


def text(**more: object) -> dict[str, object]:
    """Two of them, so that what is counted begins anew."""
    return {"type": "array", "items": {"type": "string", **more}, "minItems": 2, "maxItems": 2}


SCHEMAS = {
    "strings with bounds": text(maxLength=20),
    "strings that have to be long": text(minLength=12),
    "strings that have to be long and have bounds": text(minLength=9, maxLength=40),
    "letters and spaces, counted outside": text(pattern="^[a-z ]*$", maxLength=18),
    "letters and spaces, counted by the pattern": text(pattern="^[a-z ]{5,40}[.]$"),
    "any letters, counted by the pattern": text(pattern="^.{3,35}$"),
    "counts that follow each other": text(pattern="^[a-z]{0,8}[a-z ]{0,12}-?$"),
    "counts in a loop": text(pattern="^([A-Z][a-z]{0,9} )*$"),
    "counts that overlap": text(pattern="^(.{0,9}a){2}$"),
    "many readings of one text": text(pattern="^(.{0,12}a){3}$"),
    "all but a mark, counted": text(pattern="^[^;]{0,20}(;[^;]{0,9}){1,2}$"),
    "words with spaces between them": text(pattern="^([a-z]+ )*[A-Z][a-z]*$"),
    "words that are copied": text(pattern="^[a-z]+( [a-z]+){2,4}$"),
    "two patterns of one text": {"allOf": [text(pattern="^[a-zA-Z -]*$", minLength=4, maxLength=22), text(pattern="a")]},
    "names of hosts": text(format="hostname"),
    "names of hosts, counted": text(format="hostname", maxLength=14),
    "addresses": text(format="email", maxLength=30),
    "Cyrillic": text(pattern="^[\u0430-\u044f ]{2,9}$"),
    "names by patterns": {"type": "object", "patternProperties": {"^a": {"type": "string"}, "[0-9]$": {"const": 1}}},
}  # fmt: skip

GRAMMARS = {
    "a class with a bound": 'root ::= ([a-z ]{2,24} "\\n"){1,3}',
    "a string with a bound": 'root ::= ("\\"" [^"\\\\\\x00-\\x1f]{1,20} "\\"" " "?){1,3}',
    "hexadecimal digits": 'root ::= [0-9a-f]{2,40} ("-" [0-9a-fA-F]{1,12})*',
    "all but a few": 'root ::= [^<\\u0430]{0,30} "<" [^>]* ">"',
    "all but a few, for ever": 'root ::= ("- " [^\\r\\n\\u2028]+ "\\n")+',
}


def compare(
    guest: GrammarGuest, tree: Tree, config: dict[str, str], read: Read | Followed, seed: str, steps: int = 8
) -> None:
    rng, generated, heavy = random.Random(seed), [], 0
    for _ in range(steps):
        allowed = guest.allowed(config, generated, new=not generated)
        expected = set(tree.allowed(read)) | ({WORDS.eos} if read.ends else set())
        assert allowed == expected, b"".join(WORDS.texts[id_] for id_ in generated)
        heavy += len(allowed) > 100
        words = [id_ for id_ in allowed if len(WORDS.texts[id_]) in range(2, 9)]
        chosen = rng.choice(sorted(words if words and rng.random() < 0.7 else allowed))
        if chosen == WORDS.eos:
            break
        generated.append(chosen)
        read = read.take(WORDS.texts[chosen])
    assert heavy >= 2  # what this is about


@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_of_many_tokens_equal_the_acceptor(name, guest, tree):
    schema = SCHEMAS[name]
    for walk in range(2):
        compare(guest, tree, {"schema": dumps(schema)}, Read(Texts(schema).of(schema)), f"{name}{walk}")


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_of_many_tokens_under_a_grammar_equal_the_acceptor(name, guest, tree):
    follower = Follower(GRAMMARS[name])
    for walk in range(2):
        compare(guest, tree, {"grammar": GRAMMARS[name]}, Followed(follower, follower.start), f"{name}{walk}")


def test_a_mask_of_a_counted_text_costs_little_once_one_like_it_was_made(guest):
    """What is counted outside of the states is looked for in the mask before; a walk over all tokens would be dearer by far."""
    config, generated, spent = {"schema": dumps(text(pattern="^[a-z ]{1,400}$"))}, [], []
    for word in b'["', *[b"a"] * 12:
        for id_ in word:
            guest.allowed(config, generated, new=not generated)
            spent.append(guest.spent)
            generated.append(id_)
    assert max(spent[4:]) < spent[2] / 3
