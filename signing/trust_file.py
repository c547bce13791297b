"""trust.toml and revoked.toml as checked values (README chapter 10); pure functions on bytes.

* A TrustFile that exists has distinct keys, admitted by clause 5.3, and rules that only name keys it has.
* Who may change these files is in them: the keys of `[root]`. Nothing else about them is secret or special.

Example:
    policy = Policy.parse(data)
    policy.in_scope("model", "acme-7b")
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from . import limits
from .errors import Code, SealError
from .keys import PublicKey, parse_public_key
from .manifest import Name, Sha256Hex
from .signed_text import REVOCATIONS_DOMAIN, TRUST_DOMAIN, SignedText
from .strict_toml import parse_strict_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICY_FILE: Final = "trust.toml"
REVOCATIONS_FILE: Final = "revoked.toml"
TRUST_SCHEMA: Final = "sealhost trust v1"
REVOCATIONS_SCHEMA: Final = "sealhost revocations v1"

Kind = Literal["model", "plugin"]
Status = Literal["active", "retired", "revoked"]
Glob = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,63}\Z")]
Reason = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9 .,:;()/_-]{0,200}\Z")]
Version = Annotated[int, Meta(ge=1, le=limits.MAX_INTEGER)]
KeyNames = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=limits.MAX_SIGNATURES)]
Threshold = Annotated[int, Meta(ge=1, le=limits.MAX_SIGNATURES)]
Moment = Annotated[datetime, Meta(tz=True)]

_REMEDY = "correct the file (README chapter 10 of signing), or fetch it again"


class KeyEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A publisher's or keeper's key; its validity is [not_before, not_after)."""

    name: Name
    public: str
    status: Status = "active"
    not_before: Moment | UnsetType = UNSET
    not_after: Moment | UnsetType = UNSET


class Publisher(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may sign what: `threshold` of the keys, bundles of these kinds whose name one of the globs matches."""

    name: Name
    bundles: Annotated[tuple[Glob, ...], Meta(min_length=1, max_length=limits.MAX_SIGNATURES)]
    kinds: Annotated[tuple[Kind, ...], Meta(min_length=1, max_length=2)]
    keys: KeyNames
    threshold: Threshold = 1

    def covers(self, kind: str, name: str) -> bool:
        """Whether a bundle is in this publisher's scope."""
        # the pattern of Glob leaves out "[", so only "*" and "?" mean anything
        return kind in self.kinds and any(fnmatchcase(name, glob) for glob in self.bundles)


class Root(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may change the policy: `threshold` of these keys."""

    keys: KeyNames
    threshold: Threshold


class TrustFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole of trust.toml."""

    schema: Literal["sealhost trust v1"]
    name: Name
    version: Version
    key: Annotated[tuple[KeyEntry, ...], Meta(max_length=limits.MAX_KEYS)] = ()
    publisher: Annotated[tuple[Publisher, ...], Meta(max_length=limits.MAX_KEYS)] = ()
    root: Root | UnsetType = UNSET


class Revoked(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A key whose signatures no longer count, whenever they were made."""

    key: Sha256Hex
    reason: Reason = ""


class RevocationList(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole of revoked.toml."""

    schema: Literal["sealhost revocations v1"]
    policy: Name
    version: Version
    revoked: Annotated[tuple[Revoked, ...], Meta(max_length=limits.MAX_KEYS)] = ()


def _refuse(where: str, problem: str, code: Code = Code.PARSE) -> SealError:
    return SealError(code, where, problem, _REMEDY)


class Policy(NamedTuple):
    """A trust.toml whose keys are sound and whose own signatures, if it asks for them, are there.

    Attributes:
        file: What it says.
        text: Its bytes and signatures.
        keys: Name → admitted key.
        entries: Key id → what the file says about the key.
    """

    file: TrustFile
    text: SignedText
    keys: Mapping[str, PublicKey]
    entries: Mapping[str, KeyEntry]

    @classmethod
    def parse(cls, data: bytes, where: str = POLICY_FILE) -> Policy:
        """Reads and checks a trust file (clauses 10.1 to 10.6).

        Raises:
            SealError: E_PARSE, E_KEY (a key that is not sound, or is there twice), E_SIG, E_THRESHOLD.
        """
        text = SignedText.parse(data, where)
        file = parse_strict_toml(text.body, TrustFile, where)
        keys = _admit(file, where)
        _check_rules(file, where)
        entries = {keys[entry.name].key_id: entry for entry in file.key}
        policy = cls(file, text, keys, entries)
        if file.root is not UNSET:
            policy.check_root_signed(text, TRUST_DOMAIN, where)
        return policy

    @property
    def root_keys(self) -> tuple[PublicKey, ...]:
        """The keys that may change the policy; none if it is the operator's own file."""
        return tuple(self.keys[name] for name in self.file.root.keys) if self.file.root is not UNSET else ()

    def check_root_signed(self, text: SignedText, domain: bytes, where: str) -> None:
        """Accepts by returning that this policy's root has signed a document (clause 10.6).

        Raises:
            SealError: E_SIG, E_THRESHOLD, E_UNTRUSTED if the policy has no root.
        """
        if self.file.root is UNSET:
            problem = f"expected a {POLICY_FILE} with a [root] that could have signed it, got none"
            raise SealError(Code.UNTRUSTED, where, problem, "name the keepers' keys in [root], or remove the file")
        signers = text.signers(domain, self.root_keys, where)
        if len(signers) < self.file.root.threshold:
            problem = f"expected signatures by {self.file.root.threshold} root keys, got {len(signers)}"
            raise SealError(Code.THRESHOLD, where, problem, "have the others sign it: sealhost trust sign")

    def in_scope(self, kind: str, name: str) -> tuple[Publisher, ...]:
        """The publishers that may sign such a bundle."""
        return tuple(one for one in self.file.publisher if one.covers(kind, name))

    def check_standing(self, key_id: str, now: datetime) -> None:
        """Accepts by returning that a key of this file counts now (clauses 10.4 and 10.5).

        Raises:
            SealError: E_REVOKED, E_EXPIRED.
        """
        entry = self.entries[key_id]
        if entry.status == "revoked":
            raise revoked(entry.name, "")
        if entry.status == "retired":
            raise _expired(entry.name, "expected a key in use, got one that was retired")
        if entry.not_before is not UNSET and now < entry.not_before:
            raise _expired(entry.name, f"expected a key that is valid now, got one from {entry.not_before} on")
        if entry.not_after is not UNSET and now >= entry.not_after:
            raise _expired(entry.name, f"expected a key that is valid now, got one until {entry.not_after}")

    @property
    def asks_the_clock(self) -> bool:
        """Whether any key has a window, so that a wrong clock would change what is trusted."""
        return any(entry.not_before is not UNSET or entry.not_after is not UNSET for entry in self.file.key)


def revoked(name: str, reason: str) -> SealError:
    """The refusal of a revoked key."""
    because = f" ({reason})" if reason else ""
    problem = f"expected a key that is in use, got one that was revoked{because}"
    return SealError(Code.REVOKED, f"key {name}", problem, "ask the publisher for a release under a new key")


def _expired(name: str, problem: str) -> SealError:
    remedy = "check this machine's clock, or ask the publisher for a release under a current key"
    return SealError(Code.EXPIRED, f"key {name}", problem, remedy)


def _in_utc(moment: datetime, where: str) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise _refuse(where, f"expected moments of the years 1 to 9999 in UTC, got {moment}") from error


def _admit(file: TrustFile, where: str) -> dict[str, PublicKey]:
    keys: dict[str, PublicKey] = {}
    names: dict[str, str] = {}
    for entry in file.key:
        key = parse_public_key(entry.public.encode(), f"{where} key {entry.name}")
        if entry.name in keys:
            raise _refuse(where, f"expected distinct key names, got {entry.name} twice")
        if other := names.get(key.key_id):
            # clause 10.3: a threshold counts keys, so one key must not pass for two, as PEM and as SSH
            problem = f"expected distinct keys, got one as {other} and as {entry.name}"
            raise _refuse(where, problem, Code.KEY)
        keys[entry.name], names[key.key_id] = key, entry.name
    return keys


def _check_rules(file: TrustFile, where: str) -> None:
    entries = {entry.name: entry for entry in file.key}
    for moment in (moment for entry in file.key for moment in (entry.not_before, entry.not_after)):
        if moment is not UNSET:
            _in_utc(moment, where)
    if len({one.name for one in file.publisher}) != len(file.publisher):
        raise _refuse(where, "expected distinct publisher names, got one twice")
    rules: list[tuple[str, Publisher | Root]] = [(f"publisher {one.name}", one) for one in file.publisher]
    if file.root is not UNSET:
        rules.append(("root", file.root))
        if odd := [n for n in file.root.keys if n in entries and not _is_plain(entries[n])]:
            problem = f"expected root keys that are active and without a window, got {odd[0]}"
            raise _refuse(where, problem)  # clause 10.6: a root key is replaced by rotation
    for who, rule in rules:
        if unknown := [name for name in rule.keys if name not in entries]:
            raise _refuse(where, f"expected {who} to name keys of this file, got {unknown[0]}")
        if len(set(rule.keys)) != len(rule.keys):
            raise _refuse(where, f"expected {who} to name each key once, got one twice")
        if rule.threshold > len(rule.keys):
            raise _refuse(where, f"expected {who} to have {rule.threshold} keys or more, got {len(rule.keys)}")


def _is_plain(entry: KeyEntry) -> bool:
    return entry.status == "active" and entry.not_before is UNSET and entry.not_after is UNSET


class Revocations(NamedTuple):
    """A revoked.toml that the policy's root has signed.

    Attributes:
        file: What it says.
        text: Its bytes and signatures.
        reasons: Key id → reason.
    """

    file: RevocationList
    text: SignedText
    reasons: Mapping[str, str]

    @classmethod
    def parse(cls, data: bytes, policy: Policy | None, where: str = REVOCATIONS_FILE) -> Revocations:
        """Reads and checks a revocation list (clause 10.7).

        Raises:
            SealError: E_PARSE, E_SIG, E_THRESHOLD, E_UNTRUSTED.
        """
        text = SignedText.parse(data, where)
        if policy is None:
            problem = f"expected a {POLICY_FILE} with a [root] that could have signed it, got none"
            raise SealError(Code.UNTRUSTED, where, problem, "install the policy that it belongs to, or remove the file")
        # signed first, parsed then: whoever is not root does not get to the parser
        policy.check_root_signed(text, REVOCATIONS_DOMAIN, where)
        file = parse_strict_toml(text.body, RevocationList, where)
        if file.policy != policy.file.name:
            raise _refuse(where, f"expected the list of {policy.file.name}, got that of {file.policy}")
        reasons = {one.key: one.reason for one in file.revoked}
        if len(reasons) != len(file.revoked):
            raise _refuse(where, "expected each key once, got one twice")
        if reasons.keys() & {key.key_id for key in policy.root_keys}:
            raise _refuse(where, "expected no root key, got one; replace it by `sealhost trust rotate`")
        return cls(file, text, reasons)


def encode_trust_file(file: TrustFile) -> bytes:
    """The TOML of a trust file, without signatures."""
    lines = [f'schema = "{file.schema}"', f'name = "{file.name}"', f"version = {file.version}"]
    for entry in file.key:
        lines += ["", "[[key]]", f'name = "{entry.name}"', f"public = {json.dumps(entry.public)}"]
        lines += [f'status = "{entry.status}"'] if entry.status != "active" else []
        for field in ("not_before", "not_after"):
            if (moment := getattr(entry, field)) is not UNSET:
                lines.append(f"{field} = {_in_utc(moment, 'trust file').isoformat()}")
    for one in file.publisher:
        lines += ["", "[[publisher]]", f'name = "{one.name}"', f"bundles = {json.dumps(one.bundles)}"]
        lines += [f"kinds = {json.dumps(one.kinds)}", f"keys = {json.dumps(one.keys)}", f"threshold = {one.threshold}"]
    if file.root is not UNSET:
        lines += ["", "[root]", f"keys = {json.dumps(file.root.keys)}", f"threshold = {file.root.threshold}"]
    return _checked("\n".join(lines), file, TrustFile)


def encode_revocations(file: RevocationList) -> bytes:
    """The TOML of a revocation list, without signatures."""
    lines = [f'schema = "{file.schema}"', f'policy = "{file.policy}"', f"version = {file.version}"]
    for one in file.revoked:
        lines += ["", "[[revoked]]", f'key = "{one.key}"', f'reason = "{one.reason}"']
    return _checked("\n".join(lines), file, RevocationList)


def _checked(text: str, file: Struct, kind: type[Struct]) -> bytes:
    """The bytes, if they say what they should: values from a command line meet the schema here."""
    data = text.encode() + b"\n"
    if parse_strict_toml(data, kind, "trust file") != file:
        raise _refuse("trust file", "expected text that reads back the same, got other")
    return data
