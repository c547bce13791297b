"""Changes a keys folder: add, revoke, sign, rotate (README clauses 10.8 to 10.11).

* What is written is first read back as the verifier would; a folder that worked is never left one that does not.
* A folder whose policy has a [root] changes only by what its root has signed; else the operator's word is enough.
* The verifier never imports this.

Example:
    add_key(Path("keys"), parse_public_key(data, "acme.pub"), Grant(name="acme", bundles=("acme-*",)))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, UnsetType

from .durable import locked_folder, make_folder, replace_file, write_new_file
from .errors import Code, SealError
from .keys import KEY_NAME, PUBLIC_SUFFIX, PublicKey, parse_public_key, public_key_of
from .marks import Mark, check_newer
from .signed_text import REVOCATIONS_DOMAIN, TRUST_DOMAIN, SignedText
from .strict_toml import parse_strict_toml
from .trust import read_keys_folder
from .trust_file import (
    POLICY_FILE,
    REVOCATIONS_FILE,
    REVOCATIONS_SCHEMA,
    TRUST_SCHEMA,
    KeyEntry,
    Kind,
    Policy,
    Publisher,
    RevocationList,
    Revocations,
    Revoked,
    Root,
    TrustFile,
    encode_revocations,
    encode_trust_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_REMEDY: Final = "fetch the current file; an older one may trust keys that were revoked since"
EVERYTHING: Final = ("*",)
_FILE_MODE: Final = 0o644
_REPLACED: Final = (POLICY_FILE, REVOCATIONS_FILE, f"*{PUBLIC_SUFFIX}")
"""Files that are written under the folder's lock; the last is a pattern."""
_SHORTEST_ID: Final = 16
"""Hex digits of a key id that a person may give: what messages show, 64 bits."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key is added for.

    Attributes:
        name: The key's name.
        publisher: Whose key it is; None: a publisher of the key's own name.
        bundles: Globs over bundle names; None keeps an existing publisher's, else everything.
        kinds: Kinds of bundle, likewise.
        threshold: Keys that must sign; None keeps an existing publisher's, else 1.
        not_before: First moment at which the key counts.
        not_after: First moment at which it no longer does.
        keeper: The key signs changes of the policy, as one of its [root], and no bundles; `threshold` is then that of
            the root.
    """

    name: str
    publisher: str | None = None
    bundles: tuple[str, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    threshold: int | None = None
    not_before: datetime | UnsetType = UNSET
    not_after: datetime | UnsetType = UNSET
    keeper: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a *.pub file alone says the same in a folder without a policy."""
        return self == Grant(self.name)


def add_key(keys_dir: Path, key: PublicKey, grant: Grant, *, draft: Path | None = None) -> Path:
    """Trusts a key (clause 10.8).

    Args:
        keys_dir: The keys folder; made if it is not there.
        key: The admitted key.
        grant: What it may do.
        draft: Write the changed policy there, unsigned, and leave the folder as it is.

    Returns:
        The file that was written.

    Raises:
        SealError: E_USAGE (a root must sign the change, or the name is taken), what the verifier says to the result.
    """
    try:
        make_folder(keys_dir)
    except OSError as error:
        problem = f"cannot make the keys folder: {error.strerror}"
        raise SealError(Code.IO, str(keys_dir), problem, "name another with --keys") from error
    with locked_folder(keys_dir, *_REPLACED):
        return _add_key(keys_dir, key, grant, draft)


def _add_key(keys_dir: Path, key: PublicKey, grant: Grant, draft: Path | None) -> Path:
    if not KEY_NAME.fullmatch(grant.name):
        problem = "expected a key name of up to 64 letters, digits, '.', '_', '-', got another"
        raise SealError(Code.USAGE, grant.name, problem, "give it another by --name")
    if grant.keeper and grant != Grant(grant.name, threshold=grant.threshold, keeper=True):
        problem = "expected a keeper's key, which has neither a publisher nor a scope nor a window, got one with some"
        raise SealError(Code.USAGE, grant.name, problem, "leave them out, or let publishers sign with other keys")
    files = read_keys_folder(keys_dir)
    if POLICY_FILE not in files and grant.is_plain and draft is None:
        path = keys_dir / (grant.name + PUBLIC_SUFFIX)
        write_new_file(path, key.to_pem(), mode=_FILE_MODE)
        return path
    before = _policy_of(files, without=key.key_id)
    if grant.name in {one.name for one in before.key}:
        problem = "expected a name that no key of the policy has, got one that is taken"
        raise SealError(Code.USAGE, grant.name, problem, "choose another --name, or see `sealhost trust list`")
    entry = KeyEntry(
        name=grant.name, public=key.to_ssh().decode().strip(), not_before=grant.not_before, not_after=grant.not_after
    )
    changed = msgspec.structs.replace(before, key=(*before.key, entry), version=before.version + 1)
    if grant.keeper:
        changed = msgspec.structs.replace(changed, root=_with_keeper(before.root, grant))
    else:
        changed = msgspec.structs.replace(changed, publisher=_granted(before.publisher, grant))
    return _write_policy(keys_dir, files, changed, draft)


def _with_keeper(root: Root | UnsetType, grant: Grant) -> Root:
    """The root with the key among its keepers."""
    old = Root(keys=(), threshold=1) if root is UNSET else root
    keys = (*old.keys, grant.name)
    return Root(keys=keys, threshold=_threshold(grant, old.threshold, len(keys)))


def _granted(publishers: tuple[Publisher, ...], grant: Grant) -> tuple[Publisher, ...]:
    """The publishers with the key among them."""
    name = grant.publisher or grant.name
    found = [one for one in publishers if one.name == name]
    old = found[0] if found else Publisher(name=name, bundles=EVERYTHING, kinds=("model", "plugin"), keys=())
    keys = (*old.keys, grant.name)
    new = Publisher(
        name=name,
        bundles=grant.bundles or old.bundles,
        kinds=grant.kinds or old.kinds,
        keys=keys,
        threshold=_threshold(grant, old.threshold, len(keys)),
    )
    return (*(new if one is old else one for one in publishers), *(() if found else (new,)))


def _threshold(grant: Grant, old: int, keys: int) -> int:
    """How many of so many keys must sign."""
    if grant.threshold is None:
        return old
    if not 1 <= grant.threshold <= keys:
        problem = f"expected 1 to {keys}, as many keys as there are with this one, got {grant.threshold}"
        raise SealError(Code.USAGE, "--threshold", problem, "add the other keys first, and raise it with the last one")
    return grant.threshold


def _policy_of(files: dict[str, bytes], *, without: str = "") -> TrustFile:
    """The folder's policy; without a file, the one that says what its keys meant so far (clause 10.8).

    Args:
        files: The folder's files.
        without: Id of a key that is about to get a meaning of its own.
    """
    if POLICY_FILE in files:
        return Policy.parse(files[POLICY_FILE]).file
    keys: dict[str, KeyEntry] = {}
    for name, data in files.items():
        if name.endswith(PUBLIC_SUFFIX):
            key = parse_public_key(data, name)
            if not KEY_NAME.fullmatch(stem := name.removesuffix(PUBLIC_SUFFIX)):
                problem = "expected a file named by up to 64 letters, digits, '.', '_', '-', got another"
                raise SealError(Code.USAGE, name, problem, "rename it: in a policy a key is called as its file was")
            entry = KeyEntry(name=stem, public=key.to_ssh().decode().strip())
            if key.key_id != without:
                keys.setdefault(key.key_id, entry)
    publishers = tuple(
        Publisher(name=entry.name, bundles=EVERYTHING, kinds=("model", "plugin"), keys=(entry.name,))
        for entry in keys.values()
    )
    return TrustFile(schema=TRUST_SCHEMA, name="operator", version=1, key=tuple(keys.values()), publisher=publishers)


def _write_policy(keys_dir: Path, files: dict[str, bytes], changed: TrustFile, draft: Path | None) -> Path:
    data = encode_trust_file(changed)
    if draft is not None:
        write_new_file(draft, data, mode=_FILE_MODE)
        return draft
    if changed.root is not UNSET:
        problem = "expected a change signed by the policy's root, got a command that cannot sign for it"
        remedy = "give --draft FILE, have the keepers run `sealhost trust sign FILE`, then `sealhost trust rotate FILE`"
        raise SealError(Code.USAGE, POLICY_FILE, problem, remedy)
    _check_folder({**files, POLICY_FILE: data})
    replace_file(keys_dir / POLICY_FILE, data, mode=_FILE_MODE)
    return keys_dir / POLICY_FILE


def _check_folder(files: dict[str, bytes]) -> None:
    """Reads the trust files as the verifier will."""
    policy = Policy.parse(files[POLICY_FILE])
    if REVOCATIONS_FILE in files:
        Revocations.parse(files[REVOCATIONS_FILE], policy)


def revoke_key(
    keys_dir: Path,
    named: str,
    *,
    reason: str = "",
    root_keys: Iterable[Ed25519PrivateKey] = (),
    draft: Path | None = None,
) -> Path:
    """No longer trusts a key (clause 10.9): in the signed list where there is a root, else in the policy itself.

    Args:
        keys_dir: The keys folder.
        named: The key's name, its id, or the first 16 digits or more of that.
        reason: Goes into the list.
        root_keys: Private keys of the root, enough for its threshold unless a draft is asked for.
        draft: Write the new list there and leave the folder as it is.

    Returns:
        The file that was written.

    Raises:
        SealError: E_USAGE (no such key), E_THRESHOLD (too few root keys), what the verifier says to the result.
    """
    with locked_folder(keys_dir, *_REPLACED):
        return _revoke_key(keys_dir, named, reason, root_keys, draft)


def _revoke_key(
    keys_dir: Path, named: str, reason: str, root_keys: Iterable[Ed25519PrivateKey], draft: Path | None
) -> Path:
    files = read_keys_folder(keys_dir)
    before = _policy_of(files)
    if before.root is UNSET:
        key_name = _find(before, named)[0]
        entries = tuple(
            msgspec.structs.replace(one, status="revoked") if one.name == key_name else one for one in before.key
        )
        changed = msgspec.structs.replace(before, key=entries, version=before.version + 1)
        return _write_policy(keys_dir, files, changed, draft)
    policy = Policy.parse(files[POLICY_FILE])
    old = RevocationList(schema=REVOCATIONS_SCHEMA, policy=before.name, version=1)
    if REVOCATIONS_FILE in files:
        found = Revocations.parse(files[REVOCATIONS_FILE], policy).file
        old = msgspec.structs.replace(found, version=found.version + 1)
    key_id = _find(before, named)[1]
    if key_id in {one.key for one in old.revoked}:
        problem = "expected a key that is not on the revocation list yet, got one that is"
        raise SealError(Code.USAGE, named, problem, "nothing is left to do; see `sealhost trust list`")
    listed = (*old.revoked, Revoked(key=key_id, reason=reason))
    text = SignedText(encode_revocations(msgspec.structs.replace(old, revoked=listed)), ())
    for private_key in root_keys:
        text = text.signed_by(private_key, public_key_of(private_key).key_id, REVOCATIONS_DOMAIN)
    if draft is not None:
        write_new_file(draft, text.encode(), mode=_FILE_MODE)
        return draft
    try:
        Revocations.parse(text.encode(), policy)
    except SealError as error:
        if error.code is not Code.THRESHOLD:
            raise
        remedy = "give each keeper's --key, or --draft FILE and have them run `sealhost trust sign FILE`"
        raise SealError(error.code, error.where, error.problem, remedy) from error
    replace_file(keys_dir / REVOCATIONS_FILE, text.encode(), mode=_FILE_MODE)
    return keys_dir / REVOCATIONS_FILE


def _find(file: TrustFile, named: str) -> tuple[str, str]:
    """Name and id of a key that a person named."""
    ids = {entry.name: parse_public_key(entry.public.encode(), entry.name).key_id for entry in file.key}
    found = [
        (name, key_id)
        for name, key_id in ids.items()
        if name == named or (len(named) >= _SHORTEST_ID and key_id.startswith(named))
    ]
    if len(found) != 1:
        problem = f"expected the name or the id of one key of the policy, got {len(found)} such keys"
        raise SealError(Code.USAGE, named, problem, "see `sealhost trust list`")
    return found[0]


def sign_trust_file(path: Path, data: bytes, private_key: Ed25519PrivateKey) -> str:
    """Adds a signature to a trust file or a revocation list (clause 10.10).

    Args:
        path: The file; it is replaced as a whole.
        data: Its bytes.
        private_key: The keeper's key.

    Returns:
        The key's id.

    Raises:
        SealError: E_PARSE, E_SIG, E_IO.
    """
    text = SignedText.parse(data, path.name)
    if not text.body.endswith(b"\n"):
        text = SignedText(text.body + b"\n", ())  # an editor's file: the signature needs a line of its own
    domain = _domain(text, path.name)
    key = public_key_of(private_key)
    replace_file(path, text.signed_by(private_key, key.key_id, domain).encode(), mode=_FILE_MODE)
    return key.key_id


class _AnyFile(msgspec.Struct):
    """Any trust document, to see which it is."""

    schema: str


def _domain(text: SignedText, where: str) -> bytes:
    schema = parse_strict_toml(text.body, _AnyFile, where).schema
    if schema == TRUST_SCHEMA:
        parse_strict_toml(text.body, TrustFile, where)
        return TRUST_DOMAIN
    parse_strict_toml(text.body, RevocationList, where)
    return REVOCATIONS_DOMAIN


def rotate(keys_dir: Path, data: bytes, where: str) -> Path:
    """Installs a newer trust file or revocation list (clause 10.11).

    Args:
        keys_dir: The keys folder.
        data: The new file's bytes.
        where: Its name, for messages.

    Returns:
        The file that was replaced.

    Raises:
        SealError: E_THRESHOLD (the root, old and new, has not signed it), E_ROLLBACK, E_EQUIVOCATION, and what the
            verifier says to the result.
    """
    with locked_folder(keys_dir, *_REPLACED):
        return _rotate(keys_dir, data, where)


def _rotate(keys_dir: Path, data: bytes, where: str) -> Path:
    files = read_keys_folder(keys_dir)
    text = SignedText.parse(data, where)
    old = Policy.parse(files[POLICY_FILE]) if POLICY_FILE in files else None
    if _domain(text, where) == REVOCATIONS_DOMAIN:
        new_list = Revocations.parse(data, old, where)
        if REVOCATIONS_FILE in files:
            before = Revocations.parse(files[REVOCATIONS_FILE], old)
            check_newer(where, _mark(before), _mark(new_list), _REMEDY)
        replace_file(keys_dir / REVOCATIONS_FILE, data, mode=_FILE_MODE)
        return keys_dir / REVOCATIONS_FILE
    new = Policy.parse(data, where)
    if old is not None and old.file.root is not UNSET:
        old.check_root_signed(text, TRUST_DOMAIN, where)
        if new.file.root is UNSET or new.file.name != old.file.name:
            problem = f"expected a policy {old.file.name} with a [root], got another"
            raise SealError(Code.UNTRUSTED, where, problem, "keep the name and the [root]; only its keys rotate")
        check_newer(where, _mark(old), _mark(new), _REMEDY)
    _check_folder({**files, POLICY_FILE: data})
    replace_file(keys_dir / POLICY_FILE, data, mode=_FILE_MODE)
    return keys_dir / POLICY_FILE


def _mark(document: Policy | Revocations) -> Mark:
    return Mark(document.file.version, document.text.digest)
