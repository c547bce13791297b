"""What a mask of the guest `json` costs in instructions, by schema and grammar, on a model's vocabulary.

    python tests/bench/grammar_masks.py MODEL.gguf [--plugin FOLDER]... [--only WORDS] [--clock]

* Counted is fuel, an instruction of WebAssembly each, of the guest's whole `step`: the same on every machine, however busy it is.
  It is printed as microseconds at 4,000 instructions each; copying or clearing a stretch of memory counts as one, which
  hides some 2 us of a mask's 16 KiB.
* `--clock` counts wall time instead, of a machine that should be idle: the same code without fuel, as a host runs it.
* Texts are drawn from the masks alone: an id's weight is 1 / (id + 20), for those that merge earlier are likelier; a
  request ends after `--steps` ids, and the next one has another seed.
* The first step of a request reads its schema and stands apart; the other figures are of all others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import wasmtime
from numpy.typing import NDArray

from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.vocabulary import vocabulary as read_vocabulary
from sealhost.plugins import reference_plugin
from sealhost.sandbox.binding import Deadline, bind

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins"))

import gbnf_grammars
from grammar_guest import FAST_FORWARD, MASK, STOP, GrammarGuest, Words
from plugin_harness import FAR, GuestRefusedError

Figures = NDArray[np.float64]

A_US = 4000
"""Instructions."""

OBJECT = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["name", "age", "tags"]}  # fmt: skip
MONEY = {"type": "array", "minItems": 20, "items": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1e6}}


def many(one: dict) -> dict:
    """A list of at least ten such values."""
    return {"type": "array", "items": one, "minItems": 10, "maxItems": 40}


def named(format_: str, **more: object) -> dict:
    """A text of a format."""
    return {"type": "string", "format": format_, **more}


SCHEMAS: dict[str, dict] = {
    "an object with a string, an integer and a list of strings": OBJECT,
    "any JSON": {},
    "a list of enum": many({"enum": ["red", "green", "blue", "café", "a longer text of several words"]}),
    "a list of strings, maxLength 200": many({"type": "string", "maxLength": 200}),
    "a list of strings, minLength 20, maxLength 60": many({"type": "string", "minLength": 20, "maxLength": 60}),
    "pattern ^([a-z]+ )*[a-z]+$": {"type": "string", "pattern": "^([a-z]+ )*[a-z]+$"},
    "allOf of that object and a maxLength": {"allOf": [OBJECT, {"properties": {"name": {"maxLength": 40}}}]},
    "multipleOf 0.01, 0 to 1,000,000": MONEY,
    "date-time": many(named("date-time")),
    "uuid": many(named("uuid")),
    "ipv4, ipv6": many({"anyOf": [named("ipv4"), named("ipv6")]}),
    "duration": many(named("duration")),
    "pattern [0-9], searched for": {"type": "string", "pattern": "[0-9]"},
    "uri": many(named("uri")),
    "uri, maxLength 2083": named("uri", maxLength=2083),
    "pattern ^[a-z]*$, maxLength 60": many({"type": "string", "pattern": "^[a-z]*$", "maxLength": 60}),
    "pattern ^[a-z ]*$, maxLength 60": many({"type": "string", "pattern": "^[a-z ]*$", "maxLength": 60}),
    "pattern ^[a-z ]{1,200}$": many({"type": "string", "pattern": "^[a-z ]{1,200}$"}),
    "pattern ^[a-z ]{100,200}[.]$": many({"type": "string", "pattern": "^[a-z ]{100,200}[.]$"}),
    "pattern ^[a-z ]*$, minLength 30, maxLength 60": many({"type": "string", "pattern": "^[a-z ]*$", "minLength": 30, "maxLength": 60}),
    "pattern ^.{10,300}$": many({"type": "string", "pattern": "^.{10,300}$"}),
    "pattern ^\\w+( \\w+){3,20}$": many({"type": "string", "pattern": "^\\w+( \\w+){3,20}$"}),
    "pattern ^([A-Z][a-z]{0,20} ){1,30}$": many({"type": "string", "pattern": "^([A-Z][a-z]{0,20} ){1,30}$"}),
    "pattern ^(.{0,40};){5}$": many({"type": "string", "pattern": "^(.{0,40};){5}$"}),
    "pattern ^[0-9a-f]{64}$": many({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
    "pattern of Cyrillic, {5,80}": many({"type": "string", "pattern": "^[\u0430-\u044f\u0451 ]{5,80}$"}),
    "email": many(named("email")),
    "email, maxLength 40": many(named("email", maxLength=40)),
    "hostname": many(named("hostname")),
    "two patternProperties": {"type": "object", "patternProperties": {"^x_": {"type": "integer"}, "[0-9]$": {"type": "string"}}, "minProperties": 1},
    "additionalProperties, maxProperties 20": {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": {"type": ["string", "number"]}, "maxProperties": 20},
    "an enum of 500 texts": many({"enum": [f"value {i * i} of {i}" for i in range(500)]}),
    "anyOf of 30 objects": many({"anyOf": [{"type": "object", "properties": {"kind": {"const": f"k{i}"}, f"p{i}": {"type": "string", "maxLength": 30}}, "required": ["kind", f"p{i}"]} for i in range(30)]}),
    "a tree": {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"type": "string", "maxLength": 20}, "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}, "required": ["v"]}}},
    "40 optional properties": {"type": "object", "properties": {f"property_{i}": {"type": ["string", "integer"]} for i in range(40)}},
    "nested limits": many(many(many({"type": "string", "pattern": "^[a-z]{1,9}$", "maxLength": 8}))),
}  # fmt: skip

C_LIKE = r"""root ::= (decl ws){1,20}
decl ::= type " " name "(" (type " " name ("," ws type " " name)*)? ")" ws "{" ws (stmt ws)* "}"
type ::= "int" | "float" | "char"
name ::= [a-zA-Z_] [a-zA-Z0-9_]{0,30}
stmt ::= type " " name ws "=" ws expr ";" | name ws "=" ws expr ";" | "while" ws "(" expr ")" ws "{" ws (stmt ws)* "}" | "return " expr ";" | "//" [^\n]* "\n"
expr ::= term (ws [-+*/<>] ws term)*
term ::= name | [0-9]+ | "(" expr ")"
ws ::= [ \t\n]{0,8}
"""

GRAMMARS = {
    "GBNF JSON": gbnf_grammars.JSON,
    "GBNF arithmetic": gbnf_grammars.ARITHMETIC,
    "GBNF list": gbnf_grammars.LIST,
    "GBNF string of 1 to 200": 'root ::= "\\"" [^"\\\\\\x00-\\x1f]{1,200} "\\""',
    "GBNF C": C_LIKE,
    "GBNF words": r'root ::= ([a-zA-Z,;]+ " "){3,50} "."',
    "GBNF lines of up to 80": r'root ::= ([^\n]{0,80} "\n"){1,40}',
    "GBNF prose with a mark": r'root ::= ([^<] | "<" [^/])* "</end>"',
}


class NoTicker:
    """Of an engine whose epochs stand still."""

    next_at = 1.0

    def clock(self) -> float:
        """Before the next tick, for ever."""
        return 0.0

    def due(self, ticks: int) -> int:
        """None is owed."""
        return ticks


class TimedGuest(GrammarGuest):
    """One whose steps are timed, called as a host calls them: `spent` is nanoseconds."""

    def _refuel(self) -> None:
        pass

    def _burnt(self) -> int:
        return 0

    def call(self, name: str, *arguments: int) -> int:
        """Without the public binding's 80 us for steps."""
        if name != "step":
            return super().call(name, *arguments)
        if not hasattr(self, "_step"):
            self._step = bind(self.store, self.exports["step"], Deadline(NoTicker(), FAR), []).call
        began = time.perf_counter_ns()
        status = self._step(*arguments)
        self.spent = time.perf_counter_ns() - began
        return status


def cost(guest: GrammarGuest, config: dict, steps: int, requests: int) -> tuple[list[int], list[int]]:
    """Instructions, or nanoseconds, of first steps, and of all others."""
    size = len(guest.words.texts)
    weights = 1 / (np.arange(size) + 20)
    first, others = [], []
    for seed in range(requests):
        chance, generated = np.random.default_rng(seed), []
        while len(generated) < steps:
            action, count = guest.answer(config, generated, new=not generated)
            (others if generated else first).append(guest.spent)
            if action == STOP:
                break
            if action == FAST_FORWARD:
                generated += np.frombuffer(guest.read(guest.area["answer"], 4 * count), "<u4").tolist()
                continue
            assert action == MASK
            raw = guest.read(guest.area["answer"], (size + 31) // 32 * 4)
            allowed = np.flatnonzero(np.unpackbits(np.frombuffer(raw, "u1"), bitorder="little"))
            heaps = np.cumsum(weights[allowed])
            drawn = int(allowed[np.searchsorted(heaps, chance.random() * heaps[-1])])
            if drawn == guest.words.eos:
                break
            generated.append(drawn)
    return first, others


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--plugin", type=Path, action="append", help="default: the one that is installed")
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=150, help="ids of a request at most")
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--clock", action="store_true", help="wall time instead of instructions")
    asked = parser.parse_args()
    kind, a_us, unit = (
        (TimedGuest, 1000, "by the clock") if asked.clock else (GrammarGuest, A_US, f"at {A_US:,} instructions")
    )
    words = read_vocabulary(GgufFile.parse(asked.model.read_bytes()))
    setting = wasmtime.Config()
    setting.epoch_interruption, setting.consume_fuel = True, not asked.clock
    engine = wasmtime.Engine(setting)
    table = Words(tuple(words.token_bytes), bytes(words.types.tolist()), words.eos)
    guests = []
    for folder in asked.plugin or [reference_plugin("sampler", "json")]:
        module = wasmtime.Module(engine, (folder / "plugin.wasm").read_bytes())
        guests.append(kind(engine, module, table))
    configs = {name: {"schema": json.dumps(schema)} for name, schema in SCHEMAS.items()}
    configs |= {name: {"grammar": grammar} for name, grammar in GRAMMARS.items()}
    print(f"{len(table.texts):,} tokens; microseconds {unit}: first, median, p99, slowest (steps)")
    taken: list[list[tuple[Figures, Figures]]] = [[] for _ in guests]
    for name, config in configs.items():
        if asked.only not in name:
            continue
        line = []
        for guest, costs in zip(guests, taken, strict=True):
            try:
                first, others = (np.array(one) / a_us for one in cost(guest, config, asked.steps, asked.requests))
            except GuestRefusedError as error:
                line.append(error.args[1])
                continue
            costs.append((first, others))
            line.append(summary(first, others))
        print(f"  {name:58}", " | ".join(line), flush=True)
    print(f"  {'all of them':58}", " | ".join(summary(*map(np.concatenate, zip(*one, strict=True))) for one in taken))


def summary(first: Figures, others: Figures) -> str:
    """What is printed of some steps."""
    figures = (max(first), np.median(others), np.percentile(others, 99), max(others))
    return " ".join(f"{one:7,.0f}" for one in figures) + f" ({len(others)})"


if __name__ == "__main__":
    main()
