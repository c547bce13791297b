"""`status`: whom this host believes and what it has accepted so far, read and not changed.

Rules
* With `--admin`, a running host is asked what it serves; without, nothing goes over a network.

Example:
    sealhost status --keys keys --json
    sealhost status --admin http://127.0.0.1:8081
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from .admin_client import AdminClient
from .admin_options import AdminKeyFile  # noqa: TC001 — cyclopts reads annotations at run time
from .facts import answering, print_fact, print_facts
from .options import Json, Keys, StateFolder, state_in, trust_in
from .places import trust_store
from .terminal import harmless
from .trust import trust_facts


def status(
    *,
    keys: Keys = None,
    state: StateFolder = None,
    admin: Annotated[str | None, Parameter(name="--admin")] = None,
    admin_key_file: AdminKeyFile = None,
    json: Json = False,
) -> None:
    """Show whom this host believes and what it has accepted.

    Args:
        keys: The keys folder; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        admin: Admin plane of a running host, to show what it serves, too.
        admin_key_file: File with the admin key; without it SEALHOST_ADMIN_KEY.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        running = None if admin is None else AdminClient(admin, admin_key_file).get("/admin/models")
        trust, folder = trust_in(keys), state_in(state)
        marks = folder.marks()
        folder.check([], trust)
        facts: dict[str, Any] = {
            "keys_folder": str(keys if keys is not None else trust_store()),
            "trust": trust_facts(trust),
            "state_folder": str(folder.folder),
            "state": msgspec.to_builtins(marks),
        }
        if running is not None:
            facts["host"] = {"admin": admin, **running}
        if json:
            print_facts(facts, as_json=True)
            return
        counting = [key for key in facts["trust"]["keys"] if key["standing"] == "active"]
        print_fact("keys folder", facts["keys_folder"])
        print_fact("policy", facts["trust"]["policy"])
        print_fact("keys", f"{len(counting)} that count, of {len(facts['trust']['keys'])}")
        print_fact("state folder", facts["state_folder"])
        for name, mark in marks.bundles.items():
            older = marks.accepted.get(name)
            also = f", also version {older.version} with sha256 {older.digest[:16]}" if older is not None else ""
            print_fact("accepted", f"{name} version {mark.version}, sha256 {mark.digest}{also}")
        if running is not None:
            print_fact("running host", harmless(f"{admin}, {running['phase']}, {running['requests']} requests"))
            for model in running["models"]:
                print_fact("serving", harmless(_served_line(model)))


def _served_line(model: dict[str, Any]) -> str:
    line = f"{model['name']} version {model['version']}, sha256 {model['digest']}, from {model['path']}"
    if (previous := model["previous"]) is not None:
        line += f"; before it version {previous['version']}" + (", still loaded" if previous["loaded"] else "")
    return line if model["trusted"] else f"{line}; NO LONGER TRUSTED: {model['objection']}"
