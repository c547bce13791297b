"""`status`: whom this host believes and what it has accepted so far, read and not changed.

Example:
    sealhost status --keys keys --json
"""

from __future__ import annotations

from typing import Any

import msgspec

from .facts import answering, print_fact, print_facts
from .options import Json, Keys, StateFolder, state_in, trust_in
from .places import trust_store
from .trust import trust_facts


def status(*, keys: Keys = None, state: StateFolder = None, json: Json = False) -> None:
    """Show whom this host believes and what it has accepted.

    Args:
        keys: The keys folder; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        trust, folder = trust_in(keys), state_in(state)
        marks = folder.marks()
        folder.check([], trust)
        facts: dict[str, Any] = {
            "keys_folder": str(keys if keys is not None else trust_store()),
            "trust": trust_facts(trust),
            "state_folder": str(folder.folder),
            "state": msgspec.to_builtins(marks),
        }
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
