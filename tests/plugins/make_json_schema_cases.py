"""Writes json_schema_cases.json: JSON Schema's own test suite, restricted to the keywords that the guest `json` knows.

    pip download --no-deps --no-binary :all: jsonschema==4.26.0 && tar xzf jsonschema-4.26.0.tar.gz
    python tests/plugins/make_json_schema_cases.py jsonschema-4.26.0/json/tests/draft2020-12

Source: github.com/json-schema-org/JSON-Schema-Test-Suite (MIT, Julian Berman), as the source package of `jsonschema`
holds it. A group is taken when each of its schemas has known keywords alone and refers to no other document.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "json_schema_cases.json"
SCHEMAS = {"items", "additionalProperties"}
LISTS = {"anyOf", "oneOf", "prefixItems"}
MAPS = {"properties", "$defs"}
VALUES = {
    *("type", "enum", "const", "required", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "title", "description", "default", "format", "$comment", "$schema"),
}  # fmt: skip
ALONE = {"$ref", "anyOf", "oneOf", "const", "enum"}
LIMITS = (SCHEMAS | LISTS | VALUES | {"properties", "$ref"}) - {
    "title",
    "description",
    "default",
    "format",
    "$comment",
    "$schema",
}


def is_known(schema: Any) -> bool:
    """Whether a schema and those in it have known keywords alone, as clauses 1.1 and 1.2 of the guest's README say."""
    if isinstance(schema, bool):
        return True
    limits = schema.keys() & LIMITS
    if any(word in limits and limits - {word, "type"} for word in ALONE):
        return False
    for word, value in schema.items():
        if word in SCHEMAS:
            holds = is_known(value)
        elif word in LISTS:
            holds = all(map(is_known, value))
        elif word in MAPS:
            holds = all(map(is_known, value.values()))
        elif word == "$ref":
            holds = value.startswith("#") and (value == "#" or value.startswith("#/")) and "%" not in value
        else:
            holds = word in VALUES and not (isinstance(value, float) and not value.is_integer())
        if not holds:
            return False
    return True


def without_note(schema: Any) -> Any:
    """A schema without the name of its draft."""
    return schema if isinstance(schema, bool) else {word: value for word, value in schema.items() if word != "$schema"}


def main(folder: Path) -> None:
    groups = []
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text()):
            if is_known(group["schema"]):
                cases = [[case["data"], case["valid"]] for case in group["tests"]]
                groups.append([f"{path.stem}: {group['description']}", without_note(group["schema"]), cases])
    lines = ",\n".join(json.dumps(group, ensure_ascii=True, separators=(",", ":")) for group in groups)
    OUT.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
