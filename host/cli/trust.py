"""`trust`: what an operator's keys folder says, and the ways to change it (signing/README.md, chapter 10).

Rules
* A verb that changes the folder prints the file that it wrote, and nothing is written that would not verify.
* Private keys are read only for `revoke` and `sign`, where a policy has keepers.

Example:
    sealhost trust add acme.pub --bundle 'acme-*' --kind model
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from ...signing import Code, DirectoryTrust, SealError
from ...signing import audit as audit_bundle
from ...signing.keys import (
    is_encrypted,
    parse_private_key,
    parse_public_key,
    public_key_of,
    read_private_key_file,
)
from ...signing.limits import MAX_TRUST_FILE_BYTES
from ...signing.trust_file import Kind  # noqa: TC001 — cyclopts reads annotations at run time
from ..errors import UsageError
from .facts import answering, print_facts, say
from .options import OPTIONS, Json, Keys, PassphraseFd, StateFolder, state_in, trust_in
from .passphrase import read_passphrase
from .places import trust_store
from .progress import progress_bar
from .terminal import note

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from msgspec import UnsetType

    from ...signing.trust_file import Policy

app = App(name="trust", help="Manage the keys that this host trusts.", group_parameters=OPTIONS)

Draft = Annotated[Path | None, Parameter(name="--draft")]


@app.command(name="list")
def list_keys(*, keys: Keys = None, json: Json = False) -> None:
    """Show the trusted keys, what each may sign, and which no longer count.

    Args:
        keys: The keys folder; without it your own trust store.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        folder = keys if keys is not None else trust_store()
        trust = DirectoryTrust(folder)
        facts: dict[str, Any] = {"keys_folder": str(folder), **trust_facts(trust)}
        if json:
            print_facts(facts, as_json=True)
            return
        rows = facts.pop("keys")
        publishers = facts.pop("publishers")
        print_facts({label: value for label, value in facts.items() if value is not None}, as_json=False)
        for row in rows:
            say(f"  {row['standing']:<10} {row['id'][:16]}  {row['name']}".rstrip())
        for one in publishers:
            scope = f"{', '.join(one['kinds'])} {', '.join(one['bundles'])}"
            say(f"  {one['name']}: {one['threshold']} of {', '.join(one['keys'])} may sign {scope}")


def trust_facts(trust: DirectoryTrust) -> dict[str, Any]:
    """What a keys folder says, for people and programs."""
    policy = trust.policy
    keys = [_key_facts(trust, key_id) for key_id in trust.keys]
    if policy is None:
        return {"policy": "every key may sign every bundle", "publishers": [], "keys": keys}
    facts: dict[str, Any] = {
        "policy": policy.file.name,
        "version": policy.file.version,
        "digest": policy.text.digest,
        "root": _root_text(policy),
        "revocations": trust.revocations.file.version if trust.revocations is not None else None,
    }
    facts["publishers"] = [
        {
            "name": one.name,
            "bundles": list(one.bundles),
            "kinds": list(one.kinds),
            "keys": list(one.keys),
            "threshold": one.threshold,
        }
        for one in policy.file.publisher
    ]
    facts["keys"] = keys
    return facts


def _root_text(policy: Policy) -> str | None:
    root = policy.file.root
    return f"{root.threshold} of {', '.join(root.keys)}" if policy.root_keys and root else None


def _key_facts(trust: DirectoryTrust, key_id: str) -> dict[str, Any]:
    standing = "active"
    try:
        trust.key(key_id)
    except SealError as error:
        standing = {Code.REVOKED: "revoked", Code.EXPIRED: "not valid"}[error.code]
    return {"id": key_id, "name": trust.names[key_id], "standing": standing}


@app.command
def add(  # noqa: PLR0913 — one parameter for each option of the command line
    public_key: Path,
    /,
    *,
    name: str | None = None,
    publisher: str | None = None,
    bundle: Annotated[list[str] | None, Parameter(negative="")] = None,
    kind: Annotated[list[Kind] | None, Parameter(negative="")] = None,
    threshold: int | None = None,
    not_before: str | None = None,
    not_after: str | None = None,
    keeper: Annotated[bool, Parameter(negative="")] = False,
    keys: Keys = None,
    draft: Draft = None,
    json: Json = False,
) -> None:
    """Trust a key. Compare its id with the publisher's over another channel first.

    Args:
        public_key: The .pub file.
        name: Name of the key. [default: the file's, without suffix]
        publisher: Whose key it is. [default: a publisher of the key's own name]
        bundle: Glob over bundle names that it may sign, with * and ?; may be given several times. [default: all]
        kind: Kind of bundle that it may sign, model or plugin; may be given several times. [default: both]
        threshold: Keys of the publisher that must sign. [default: 1]
        not_before: First moment at which the key counts, such as 2027-01-01 or 2027-01-01T12:00:00Z.
        not_after: First moment at which it no longer does.
        keeper: A keeper's key, which signs changes of the policy and no bundles; --threshold is that of the keepers.
        keys: The keys folder; without it your own trust store.
        draft: Write the changed policy to this file and leave the folder as it is.
        json: Print one JSON object.
    """
    from ...signing.stewardship import Grant, add_key  # noqa: PLC0415 — only verbs that change a folder load this

    with answering(as_json=json):
        folder = keys if keys is not None else trust_store()
        key = parse_public_key(_read(public_key), public_key.name)
        grant = Grant(
            name=name or public_key.stem,
            publisher=publisher,
            bundles=tuple(bundle) if bundle else None,
            kinds=tuple(kind) if kind else None,
            threshold=threshold,
            not_before=_moment("--not-before", not_before),
            not_after=_moment("--not-after", not_after),
            keeper=keeper,
        )
        written = add_key(folder, key, grant, draft=draft)
        print_facts({"key_id": key.key_id, "written": str(written)}, as_json=json)


@app.command
def revoke(
    named: str,
    /,
    *,
    reason: str = "",
    key: Annotated[list[Path] | None, Parameter(negative="")] = None,
    passphrase_fd: PassphraseFd = None,
    keys: Keys = None,
    draft: Draft = None,
    json: Json = False,
) -> None:
    """No longer trust a key, whatever it has signed.

    Args:
        named: The key's name or id, as `trust list` shows them.
        reason: Why, for those who read the list.
        key: Private key of a keeper, where the policy has a [root]; may be given several times.
        passphrase_fd: Descriptor with the passphrases, a line for each key; else SEALHOST_PASSPHRASE, else you are
            asked.
        keys: The keys folder; without it your own trust store.
        draft: Write the new list to this file and leave the folder as it is.
        json: Print one JSON object.
    """
    from ...signing.stewardship import revoke_key  # noqa: PLC0415 — see add

    with answering(as_json=json):
        folder = keys if keys is not None else trust_store()
        private_keys = [_private_key(path, passphrase_fd) for path in key or []]
        written = revoke_key(folder, named, reason=reason, root_keys=private_keys, draft=draft)
        if reason and not private_keys and draft is None:
            note("the reason is not kept: only a policy with a [root] has a revocation list to hold it")
        print_facts({"revoked": named, "written": str(written)}, as_json=json)


@app.command
def sign(file: Path, /, *, key: Path, passphrase_fd: PassphraseFd = None, json: Json = False) -> None:
    """Add a keeper's signature to a policy or a revocation list.

    Args:
        file: The draft.
        key: The keeper's private key.
        passphrase_fd: Descriptor with the passphrase; else SEALHOST_PASSPHRASE, else you are asked.
        json: Print one JSON object.
    """
    from ...signing.stewardship import sign_trust_file  # noqa: PLC0415 — see add

    with answering(as_json=json):
        data = _read(file)  # before anybody is asked (clause 6.14)
        key_id = sign_trust_file(file, data, _private_key(key, passphrase_fd))
        print_facts({"signed": str(file), "key_id": key_id}, as_json=json)


@app.command
def rotate(file: Path, /, *, keys: Keys = None, json: Json = False) -> None:
    """Install a newer policy or revocation list that the keepers, old and new, have signed.

    Args:
        file: The signed file.
        keys: The keys folder; without it your own trust store.
        json: Print one JSON object.
    """
    from ...signing.stewardship import rotate as install  # noqa: PLC0415 — see add

    with answering(as_json=json):
        folder = keys if keys is not None else trust_store()
        written = install(folder, _read(file), file.name)
        print_facts({"written": str(written)}, as_json=json)


@app.command
def accept_older(bundle: Path, /, *, keys: Keys = None, state: StateFolder = None, json: Json = False) -> None:
    """Let exactly this older bundle run, until a newer version than the highest so far is accepted.

    Args:
        bundle: The bundle's directory; it is verified first.
        keys: The keys folder; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        trust, folder = trust_in(keys), state_in(state)
        folder.see(trust)
        with progress_bar("verifying") as progress:
            outcome = audit_bundle(bundle, trust, progress=progress)
        folder.accept_older(outcome)
        facts = {"name": outcome.manifest.name, "version": outcome.manifest.version, "digest": outcome.digest}
        print_facts({"accepted": str(bundle), **facts}, as_json=json)


@app.command
def accept_clock(*, state: StateFolder = None, json: Json = False) -> None:
    """Take the present time for right, though this host has seen a later one.

    Args:
        state: Folder that remembers the latest time; without it your own.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        folder = state_in(state)
        folder.accept_clock()
        print_facts({"latest": folder.marks().latest, "state_folder": str(folder.folder)}, as_json=json)


for _order, _verb in enumerate(("list", "add", "revoke", "sign", "rotate", "accept-older", "accept-clock")):
    app[_verb].sort_key = _order  # help lists them as an operator meets them


def _private_key(path: Path, descriptor: int | None) -> Ed25519PrivateKey:
    data = read_private_key_file(path)
    passphrase = read_passphrase(path.name, descriptor=descriptor, confirm=False) if is_encrypted(data) else None
    private_key = parse_private_key(data, passphrase, path.name)
    public_key_of(private_key)  # refuses a key that nobody could admit
    return private_key


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a FIFO would keep us waiting
            raise SealError(Code.IO, str(path), "expected a file, got something else", "check the path")
        with path.open("rb") as file:
            return file.read(MAX_TRUST_FILE_BYTES + 1)
    except OSError as error:
        raise SealError(Code.IO, str(path), f"cannot read: {error.strerror}", "check the path") from error


def _moment(option: str, text: str | None) -> datetime | UnsetType:
    from msgspec import UNSET  # noqa: PLC0415 — one value

    if text is None:
        return UNSET
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        problem = f"expected a date such as 2027-01-01 or 2027-01-01T12:00:00Z, got {text}"
        raise UsageError(option, problem, "write it so") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
