"""The texts that fit a JSON Schema, as the README of the guest `json` says, for the brute-force acceptor."""

from __future__ import annotations

import functools
import json
from typing import Any
from urllib.parse import unquote

import jsonschema
from grammar_reference import EMPTY, NEVER, Language, Read, alt, both, cat, neither, others, pattern, repeat, rule, text
from json_format_reference import FORMATS, texts_of
from json_number_reference import number
from json_text_reference import STRING, TAIL, WITHIN, finds, quoted, sized

NUMBER = pattern(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?")
INTEGER = pattern(r"0|-?[1-9][0-9]{0,15}")
COMMA, COLON = pattern(", ?"), pattern(": ?")
WORDS = {"null": text("null"), "boolean": alt(text("true"), text("false"))}
TYPES = {"null", "boolean", "string", "integer", "number", "array", "object"}
SUBJECTS = {
    "object": {
        "properties",
        "patternProperties",
        "required",
        "propertyNames",
        "additionalProperties",
        "minProperties",
        "maxProperties",
    },
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
OWN = {"type"}.union(*SUBJECTS.values())
CHECKER = jsonschema.FormatChecker(formats=())
for _name in FORMATS:
    CHECKER.checks(_name)(
        lambda value, name=_name: not isinstance(value, str) or Read(texts_of(name)).take(value.encode()).ends
    )

Part = tuple[str, Any]
"""What a value has to fit: ("schema", all of one), ("own", its limits alone), ("choice", schemas), ("enum", values)."""


class Texts:
    """Of one schema with what it refers to."""

    def __init__(self, schema: Any) -> None:
        self.root = schema
        self.any = rule(functools.cache(lambda: self._typed_all([], sorted(TYPES - {"integer"}))))
        self._made: dict[str, Language] = {}
        self._open: set[str] = set()

    def of(self, *schemas: Any) -> Language:
        """The values that fit all of these schemas."""
        return self._all([("schema", schema) for schema in schemas])

    def later(self, *schemas: Any) -> Language:
        """The same, of which nothing is looked at yet where it might hold itself."""
        if '"$ref"' not in dumps(schemas):
            return self.of(*schemas)
        if any(schema is False for schema in schemas):
            return NEVER
        key = "later" + dumps(schemas)
        if key not in self._made:
            self._made[key] = rule(functools.cache(lambda: self.of(*schemas)))
        return self._made[key]

    def _all(self, parts: list[Part]) -> Language:
        key = dumps(parts)
        if key in self._open:  # a value that is itself is none yet
            return NEVER
        if key not in self._made:
            self._open.add(key)
            self._made[key] = self._texts(parts)
            self._open.remove(key)
        return self._made[key]

    def _apart(self, parts: list[Part], within: tuple[str, ...] = ()) -> list[Part] | None:
        """Without schemas, each part once; None: nothing fits."""
        found: dict[str, Part] = {}
        for kind, what in parts:
            more: list[Part] | None = [(kind, what)]
            if kind == "schema":
                if what is False or dumps(what) in within:
                    return None
                more = [] if what is True else self._mentioned(what, (*within, dumps(what)))
            if more is None:
                return None
            found |= {dumps(part): part for part in more}
        return list(found.values())

    def _mentioned(self, schema: dict[str, Any], within: tuple[str, ...]) -> list[Part] | None:
        own = {word: value for word, value in _newer(schema).items() if word in OWN and not _is_note(word, value)}
        parts: list[Part] = [("own", own)] if own else []
        if "const" in schema:
            parts.append(("enum", [schema["const"]]))
        parts += [("enum", schema["enum"])] if "enum" in schema else []
        parts += [("choice", schema[word]) for word in ("anyOf", "oneOf") if word in schema]
        named = [self.referred(schema["$ref"])] if "$ref" in schema else []
        more = self._apart([("schema", one) for one in [*named, *schema.get("allOf", [])]], within)
        return None if more is None else parts + more

    def referred(self, ref: str) -> Any:
        """What a reference names: the schema with an $id or an $anchor, or the part of it that a pointer leads to."""
        name, _, fragment = ref.partition("#")
        found = self.root if not name else _called(self.root, "$id", name)
        if fragment and not fragment.startswith("/"):
            return _called(found, "$anchor", fragment)
        for part in map(unquote, fragment.split("/")[1:]):
            found = found[int(part)] if isinstance(found, list) else found[part.replace("~1", "/").replace("~0", "~")]
        return found

    def _texts(self, given: list[Part]) -> Language:
        if (parts := self._apart(given)) is None:
            return NEVER
        limits = [what for kind, what in parts if kind == "own"]
        values = [what for kind, what in parts if kind == "enum"]
        for at, (kind, what) in enumerate(parts):
            if kind == "choice":
                return alt(*(self._all([*parts[:at], *parts[at + 1 :], ("schema", one)]) for one in what))
        if values:
            return alt(*(text(dumps(one)) for one in values[0] if self._fits(one, limits, values[1:])))
        return self._typed_all(limits, _types(limits)) if parts else self.any

    def _fits(self, value: Any, limits: list[dict[str, Any]], lists: list[list[Any]]) -> bool:
        """By `jsonschema`, which is somebody else's work."""
        validator = jsonschema.Draft202012Validator(self.root, format_checker=CHECKER)
        said = [*limits, *({"enum": values} for values in lists)]
        return all(validator.evolve(schema=schema).is_valid(value) for schema in said)

    def _typed_all(self, limits: list[dict[str, Any]], types: list[str]) -> Language:
        return alt(*(self._typed(one, limits) for one in types))

    def _typed(self, kind: str, limits: list[dict[str, Any]]) -> Language:
        if kind in WORDS:
            return WORDS[kind]
        if kind == "string":
            return _string(limits)
        if kind in ("integer", "number"):
            if not any(SUBJECTS["number"] & one.keys() for one in limits):
                return INTEGER if kind == "integer" else NUMBER
            return number(limits, is_whole=kind == "integer")
        return self._array(limits) if kind == "array" else self._object(limits)

    def _array(self, limits: list[dict[str, Any]]) -> Language:
        least = max([0, *(int(one["minItems"]) for one in limits if "minItems" in one)])
        most = min((int(one["maxItems"]) for one in limits if "maxItems" in one), default=None)
        longest = max([0, *(len(one.get("prefixItems", [])) for one in limits)])

        def item(at: int) -> Language:
            found = []
            for one in limits:
                first = one.get("prefixItems", [])
                found += [first[at]] if at < len(first) else [one["items"]] if "items" in one else []
            return self.later(*found)

        if any(one.get("uniqueItems") for one in limits) and (most is None or most > 1):
            return self._different([one["items"] for one in limits if "items" in one], least, most)
        settled = max(longest, least, 1)
        state = alt(cat(repeat(cat(COMMA, item(settled)), 0), text("]"))) if most is None else text("]")
        for at in reversed(range(settled if most is None else most)):
            state = alt(cat(COMMA if at else EMPTY, item(at), state), text("]") if at >= least else NEVER)
        return cat(text("["), state if most is None or least <= most else NEVER)

    def _different(self, schemas: list[Any], least: int, most: int | None) -> Language:
        """Arrays of constants, each at most once."""
        parts = self._apart([("schema", one) for one in schemas]) or []
        first, *lists = [what for kind, what in parts if kind == "enum"] or [[]]
        values = [one for one in first if self._fits(one, [what for kind, what in parts if kind == "own"], lists)]

        @functools.cache
        def rest(left: frozenset[int], count: int) -> Language:
            end = text("]") if count >= least and (most is None or count <= most) else NEVER
            comma = COMMA if count else EMPTY
            if most is not None and count >= most:
                return end
            return alt(end, *(cat(comma, text(dumps(values[one])), rest(left - {one}, count + 1)) for one in left))

        return cat(text("["), rest(frozenset(range(len(values))), 0))

    def _object(self, limits: list[dict[str, Any]]) -> Language:
        listed = [name for one in limits for name in one.get("properties", {})]
        required = {name for one in limits for name in one.get("required", [])}
        named = list(dict.fromkeys([*listed, *(name for one in limits for name in one.get("required", []))]))
        least = max([0, *(int(one["minProperties"]) for one in limits if "minProperties" in one)])
        most = min((int(one["maxProperties"]) for one in limits if "maxProperties" in one), default=1 << 20)
        naming, names = self._naming(limits)
        other = self._other(limits, named, naming) if names is None else NEVER
        named += [name for name in names or () if name not in named and _may_be_other(limits, name)]

        @functools.cache
        def rest(count: int) -> Language:
            """After another member: all of these together have brought one towards `least`, each one towards `most`."""
            if most == 1 << 20:
                return cat(repeat(cat(COMMA, other), 0), text("}"))
            return alt(text("}"), cat(COMMA, other, rest(count + 1)) if count < most else NEVER)

        @functools.cache
        def tail(at: int, count: int) -> Language:
            """With `at` names looked at, of which `count` were written."""
            comma = COMMA if count else EMPTY
            if at == len(named):
                more = cat(comma, other, rest(count + 1)) if count < most and count + 1 >= least else NEVER
                return alt(more, text("}") if least <= count <= most else NEVER)
            name = named[at]
            fits = naming is None or Read(naming).take(name.encode()).ends
            value = self.later(*_member_schemas(limits, name)) if fits and count < most else NEVER
            this = cat(comma, text(dumps(name)), COLON, value, tail(at + 1, count + 1)) if value != NEVER else NEVER
            return this if name in required else alt(this, tail(at + 1, count))

        return cat(text("{"), tail(0, 0))

    def _naming(self, limits: list[dict[str, Any]]) -> tuple[Language | None, list[str] | None]:
        """The texts that propertyNames allows, None: all; and if it lists them, which."""
        if not (schemas := [one["propertyNames"] for one in limits if "propertyNames" in one]):
            return None, None
        parts = self._apart([("schema", one) for one in schemas])
        own, lists = ([what for kind, what in parts or () if kind == wanted] for wanted in ("own", "enum"))
        if parts is None or not all("string" in one.get("type", "string") for one in own):
            return NEVER, []
        if lists:
            names = [one for one in lists[0] if isinstance(one, str) and self._fits(one, own, lists[1:])]
            return alt(*map(text, names)), names
        if not any(SUBJECTS["string"] & one.keys() for one in own):
            return None, None
        return both(WITHIN, *_said(own)), None

    def _other(self, limits: list[dict[str, Any]], named: list[str], naming: Language | None) -> Language:
        """One member that has none of these names; those that no pattern names only where clause 1.3 says so."""
        patterns = list(dict.fromkeys(one for limit in limits for one in limit.get("patternProperties", {})))
        is_said = any("additionalProperties" in one for one in limits)
        is_listed = any({"properties", "patternProperties"} & one.keys() for one in limits)
        ways = []
        for chosen in range(1 << len(patterns)):
            matched = {one for at, one in enumerate(patterns) if chosen >> at & 1}
            if not matched and is_listed and not is_said:
                continue
            value = self.later(*_schemas_by(limits, matched))
            if not patterns and naming is None:
                name = _other_name(named)
            elif value != NEVER:
                missed = [neither(finds(one)) for one in patterns if one not in matched]
                taken = [neither(text(one)) for one in named]
                name = quoted(both(WITHIN if naming is None else naming, *map(finds, matched), *missed, *taken))
            ways.append(cat(name, COLON, value) if value != NEVER else NEVER)
        return alt(*ways)


def _may_be_other(limits: list[dict[str, Any]], name: str) -> bool:
    """Clause 1.3."""
    words = [word for one in limits for word in one.get("patternProperties", {})]
    if any(Read(finds(word)).take(name.encode()).ends for word in words):
        return True
    if any("additionalProperties" in one for one in limits):
        return True
    return not any({"properties", "patternProperties"} & one.keys() for one in limits)


def _schemas_by(limits: list[dict[str, Any]], matched: set[str]) -> list[Any]:
    found = []
    for one in limits:
        these = [schema for word, schema in one.get("patternProperties", {}).items() if word in matched]
        found += these or ([one["additionalProperties"]] if "additionalProperties" in one else [])
    return found


def _member_schemas(limits: list[dict[str, Any]], name: str) -> list[Any]:
    found = []
    for one in limits:
        these = [one["properties"][name]] if name in one.get("properties", {}) else []
        these += [
            schema
            for word, schema in one.get("patternProperties", {}).items()
            if Read(finds(word)).take(name.encode()).ends
        ]
        found += these or ([one["additionalProperties"]] if "additionalProperties" in one else [])
    return found


def dumps(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_note(word: str, value: Any) -> bool:
    return (word == "format" and value not in FORMATS) or (word == "uniqueItems" and value is False)


def _newer(schema: dict[str, Any]) -> dict[str, Any]:
    """What a schema of an earlier draft says, as 2020-12 has it."""
    found = dict(schema)
    for bound in ("Minimum", "Maximum"):
        if (word := f"exclusive{bound}") in found and isinstance(found[word], bool):
            is_exclusive = found.pop(word)
            if is_exclusive and bound.lower() in found:
                found[word] = found.pop(bound.lower())
    if isinstance(found.get("items"), list):
        found["prefixItems"] = found.pop("items")
        found |= {"items": found["additionalItems"]} if "additionalItems" in found else {}
    return found


def _called(whole: Any, word: str, name: str) -> Any:
    """The schema in it that has such an $id or $anchor."""
    if isinstance(whole, dict) and str(whole.get(word)).removesuffix("#") == name:
        return whole
    parts = whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else []
    return next((found for part in parts if (found := _called(part, word, name)) is not None), None)


def _types(limits: list[dict[str, Any]]) -> list[str]:
    """Those that are named, or those that the keywords are about, or all; numbers hold the integers."""
    found = set(TYPES)
    for one in limits:
        if "type" in one:
            types = {one["type"]} if isinstance(one["type"], str) else set(one["type"])
            found &= types | ({"integer"} if "number" in types else set())
    if not any("type" in one for one in limits):
        about = {kind for kind, words in SUBJECTS.items() if any(words & one.keys() for one in limits)}
        found = about or found
    return sorted(found - {"integer"} if "number" in found else found)


def _string(limits: list[dict[str, Any]]) -> Language:
    if any({"pattern", "format"} & one.keys() for one in limits):
        return quoted(both(WITHIN, *_said(limits)))
    least, most = _lengths(limits)
    return NEVER if most is not None and least > most else sized(least, most)


def _lengths(limits: list[dict[str, Any]]) -> tuple[int, int | None]:
    least = max([0, *(int(one["minLength"]) for one in limits if "minLength" in one)])
    return least, min((int(one["maxLength"]) for one in limits if "maxLength" in one), default=None)


def _said(limits: list[dict[str, Any]]) -> list[Language]:
    """Of texts, all of which have to be such."""
    least, most = _lengths(limits)
    said = [finds(one["pattern"]) for one in limits if "pattern" in one]
    said += [texts_of(one["format"]) for one in limits if "format" in one]
    if most is not None and least > most:
        return [NEVER]
    bounds = [repeat(others(), least) if most is None else repeat(others(), least, most)]
    return said + (bounds if least or most is not None else [])


def _other_name(names: list[str]) -> Language:
    """A quoted name that is none of these, with no escapes as long as it begins like one of them."""

    def rest(at: int, group: list[str]) -> Language:
        letters = sorted({name[at] for name in group if len(name) > at})
        free = others((0, 31), (34, 34), (92, 92), *((ord(letter), ord(letter)) for letter in letters))
        ways = [cat(free, TAIL), NEVER if any(len(name) == at for name in group) else text('"')]
        ways += [
            cat(text(letter), rest(at + 1, [name for name in group if name[at : at + 1] == letter]))
            for letter in letters
            if letter not in '"\\'
        ]
        return alt(*ways)

    return STRING if not names else cat(text('"'), rest(0, names))
