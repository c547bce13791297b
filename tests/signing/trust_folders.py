"""What the tests of `sealhost trust` ask of a keys folder: its standings, a root, the next version of its policy."""

from __future__ import annotations

import json
from pathlib import Path

from sealhost.signing.trust_file import Policy


def standing(trust) -> dict[str, str]:
    return {key["name"]: key["standing"] for key in trust("list")["keys"]}


def with_root(trust, lab, keepers: str, threshold: int) -> None:
    """Gives the folder a policy whose root are the named keys."""
    for name in keepers:
        trust("add", f"{name}.pub", "--bundle", f"{name}-*")
    root = f"\n[root]\nkeys = {json.dumps(list(keepers))}\nthreshold = {threshold}\n"
    Path("first.toml").write_bytes((lab.keys / "trust.toml").read_bytes() + root.encode())
    for name in keepers[:threshold]:
        trust("sign", "first.toml", "--key", f"{name}.key")
    trust("rotate", "first.toml")


def next_policy(lab, out: str, *changes: tuple[str, str]) -> Path:
    """The body of the folder's policy with the next version and other changes, unsigned."""
    policy = Policy.parse((lab.keys / "trust.toml").read_bytes())
    version = policy.file.version
    text = policy.text.body.decode().replace(f"version = {version}\n", f"version = {version + 1}\n")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(out).write_text(text)
    return Path(out)
