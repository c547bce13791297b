"""Writes json_schema_cases.json: JSON Schema's own test suite, restricted to the keywords that the guest `json` knows.

    pip download --no-deps --no-binary :all: jsonschema==4.26.0 && tar xzf jsonschema-4.26.0.tar.gz
    python tests/plugins/make_json_schema_cases.py jsonschema-4.26.0/json/tests/draft2020-12

Source: github.com/json-schema-org/JSON-Schema-Test-Suite (MIT, Julian Berman), as the source package of `jsonschema`
holds it. A group is taken when each of its schemas has known keywords alone and refers to no other document. Of the formats,
which the suite tests as optional, the texts are taken.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "json_schema_cases.json"
SCHEMAS = {"items", "additionalProperties", "propertyNames"}
LISTS = {"anyOf", "oneOf", "allOf", "prefixItems"}
MAPS = {"properties", "patternProperties", "$defs"}
VALUES = {
    *("type", "enum", "const", "required", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "pattern", "format"),
    *("title", "description", "default", "$anchor", "$comment", "$schema"),
}  # fmt: skip
STEP = 1024
"""Digits of multipleOf that the guest tells apart, without zeros at its ends."""
COUNTS = {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
FORMATS = ("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")


def is_known(schema: Any) -> bool:
    """Whether a schema and those in it have known keywords alone, as chapter 1 of the guest's README says."""
    if isinstance(schema, bool):
        return True
    if schema.get("uniqueItems") and schema.get("maxItems", 2) > 1:
        return False
    return all(_holds(word, value) for word, value in schema.items())


def _holds(word: str, value: Any) -> bool:
    if word in SCHEMAS:
        return is_known(value)
    if word in LISTS:
        return all(map(is_known, value))
    if word in MAPS:
        return all(map(is_known, value.values())) and (word != "patternProperties" or all(map(is_pattern, value)))
    if word in CHECKS:
        return CHECKS[word](value)
    return word in VALUES and (word not in COUNTS or float(value).is_integer())


def is_pattern(pattern: str) -> bool:
    """Whether it is one of the subset: no look-around, no properties of characters."""
    return not re.search(r"\\[pPbB]|\(\?", pattern)


CHECKS: dict[str, Callable[[Any], bool]] = {
    "$ref": lambda ref: ref.startswith("#"),
    "multipleOf": lambda step: int(f"{Decimal(str(step)):f}".replace(".", "").strip("0")) <= STEP,
    "pattern": is_pattern,
}


def without_note(schema: Any) -> Any:
    """A schema without the name of its draft."""
    return schema if isinstance(schema, bool) else {word: value for word, value in schema.items() if word != "$schema"}


def main(folder: Path) -> None:
    groups = []
    formats = [folder / "optional" / "format" / f"{name}.json" for name in FORMATS]
    for path in [*sorted(folder.glob("*.json")), *formats]:
        for group in json.loads(path.read_text()):
            if path.stem != "format" and is_known(group["schema"]):  # there no format is more than a note
                cases = [[case["data"], case["valid"]] for case in group["tests"]]
                cases = [case for case in cases if path not in formats or isinstance(case[0], str)]
                groups.append([f"{path.stem}: {group['description']}", without_note(group["schema"]), cases])
    lines = ",\n".join(json.dumps(group, ensure_ascii=True, separators=(",", ":")) for group in groups)
    OUT.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
