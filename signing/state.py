"""What this host has accepted before, so that nothing older can take its place (README chapter 11).

* What may follow what is decided by `marks`; here is the folder that keeps them.
* `check` never writes; `record` checks again under the lock, so that two updates at a time cannot both win.
* Trust files count as seen before a bundle is even opened: what they alone refuse must not be forgotten with them.
* State that is damaged, or gone where it must be, is a refusal and never a fresh start.

Example:
    state = State(Path("state"))
    state.see(trust)
    bundle = verify(root, trust)
    state.check([bundle], trust)
    ...                                 # load it, make a first token
    state.record([bundle], trust)       # durable when this returns: now it may be used
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Final

import msgspec

from . import limits
from .durable import locked_folder, make_folder, new_folder, replace_file, sync_folder
from .errors import Code, SealError
from .marks import (
    REPACK,
    Identified,
    Marks,
    check_newer,
    iso_time,
    judge_bundle,
    judge_trust,
    mark_of,
    marked_name,
    raised,
    seen,
)
from .source import Source, check_plain
from .strict_json import parse_strict_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .trust import DirectoryTrust

STATE_FILE: Final = "state.json"
LOG_FILE: Final = "log.jsonl"
_FIRST_LINE: Final = b"sealhost state v1 "
_REREADS: Final = 20
"""Times that a file is read again because an update replaced it meanwhile."""


class State:
    """A state folder.

    Args:
        folder: Made when something is first recorded; until then nothing has been accepted.
        clock: Seconds since 1970.
    """

    __slots__ = ("_clock", "folder")

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock

    def marks(self) -> Marks:
        """What the folder remembers.

        Raises:
            SealError: E_STATE, E_IO.
        """
        if not self._is_there():
            return Marks()
        last = None
        for _ in range(_REREADS):
            try:
                return self._parse(self._stored())
            except SealError as error:
                # an update that renames its file over the one being read leaves that one without a link
                if error.code is Code.IO or (now := self._version_of_file()) == last:
                    raise
                last = now
        return self._parse(self._stored())

    def _is_there(self) -> bool:
        """Whether anything stands at the folder's place; what cannot be looked at is no fresh start (clause 11.3).

        Raises:
            SealError: E_IO.
        """
        try:
            self.folder.lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            problem = f"cannot look for the state folder: {error.strerror}"
            raise SealError(Code.IO, str(self.folder), problem, "mend its path and rights, or name another") from error
        return True

    def _stored(self) -> bytes:
        try:
            with Source(self.folder) as source:
                with source.folder("") as descriptor:
                    _check_mode(self.folder, os.fstat(descriptor).st_mode)
                descriptor = source.open(STATE_FILE)
                try:
                    _check_mode(self.folder / STATE_FILE, os.fstat(descriptor).st_mode)
                finally:
                    os.close(descriptor)
                return source.read(STATE_FILE, limits.MAX_MANIFEST_BYTES)
        except SealError as error:
            if error.code in {Code.IO, Code.STATE}:  # nothing is broken; what they say mends it
                raise
            raise self._broken(error.problem) from error

    def _version_of_file(self) -> tuple[int, int] | None:
        """Tells one update's file from another's; None where there is none."""
        try:
            status = (self.folder / STATE_FILE).lstat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def check(self, bundles: Sequence[Identified], trust: DirectoryTrust) -> None:
        """Accepts by returning that nothing is older than what was accepted before; writes nothing.

        Raises:
            SealError: E_ROLLBACK, E_EQUIVOCATION, E_CLOCK, E_STATE, E_IO.
        """
        self._judge(self.marks(), bundles, trust)

    def see(self, trust: DirectoryTrust) -> None:
        """Marks trust files and the time as seen, durably, whatever becomes of the bundles (clause 11.5).

        A policy that has neither a root nor a window has nothing to mark, and nothing is read or written for it.

        Raises:
            SealError: As `record`.
        """
        if trust.policy is None or not (trust.policy.root_keys or trust.policy.asks_the_clock):
            return
        marks = self.marks()
        self._judge(marks, (), trust)
        if seen(marks, trust, self._clock()) != marks:
            self.record((), trust)

    def record(self, bundles: Sequence[Identified], trust: DirectoryTrust) -> None:
        """Checks once more and raises the marks; when it returns, they are on the disk (clause 11.4).

        Raises:
            SealError: As `check`; E_IO too if another process holds the lock.
        """
        with self._locked():
            marks = self.marks()
            self._judge(marks, bundles, trust)
            new = raised(marks, bundles, trust, self._clock())
            if new != marks:
                self._write(new)

    def accept_older(self, bundle: Identified) -> None:
        """Lets exactly this older bundle run until a newer version is recorded (clause 11.6).

        Raises:
            SealError: E_EQUIVOCATION, E_USAGE if it is not older than what was accepted, E_STATE, E_IO.
        """
        with self._locked():
            marks, name, mark = self.marks(), marked_name(bundle), mark_of(bundle)
            old = marks.bundles.get(name)
            if old is None or mark.version >= old.version:
                check_newer(name, old, mark, "", raise_it=REPACK)
                problem = f"expected a version below the highest one accepted, got {mark.version}"
                raise SealError(Code.USAGE, name, problem, "use it as it is; nothing keeps it from running")
            self._log("accept older", name=name, version=mark.version, digest=mark.digest, mark=old.version)
            self._write(msgspec.structs.replace(marks, accepted={**marks.accepted, name: mark}))

    def accept_clock(self) -> None:
        """Takes the present time for right, though a later one was seen (clause 11.7).

        Raises:
            SealError: E_STATE, E_IO.
        """
        with self._locked():
            marks, now = self.marks(), max(0, int(self._clock()))  # a clock before 1970 is wrong, and no mark
            self._log("accept clock", latest=marks.latest, now=now)
            self._write(msgspec.structs.replace(marks, latest=now))

    def _judge(self, marks: Marks, bundles: Sequence[Identified], trust: DirectoryTrust) -> None:
        judge_trust(marks, trust, self._clock())
        for bundle in bundles:
            judge_bundle(marks, bundle)

    def _parse(self, data: bytes) -> Marks:
        first, _, body = data.partition(b"\n")
        if first != _FIRST_LINE + hashlib.sha256(body).hexdigest().encode():
            raise self._broken("expected a first line with the sha256 of what follows, got another")
        try:
            return msgspec.convert(parse_strict_json(body, STATE_FILE), Marks, strict=True)
        except (SealError, msgspec.ValidationError) as error:
            raise self._broken(f"expected the state of this version, got: {error}") from error

    def _broken(self, problem: str) -> SealError:
        remedy = (
            f"restore {STATE_FILE} from a backup; or move the folder away to begin anew, knowing that older versions "
            "will then pass once"
        )
        return SealError(Code.STATE, str(self.folder), problem, remedy)

    def _write(self, marks: Marks) -> None:
        data = encode(marks)
        if len(data) > limits.MAX_MANIFEST_BYTES:
            raise self._broken("expected room for another name, got a full state")
        self._parse(data)  # what nobody could read again is not written
        replace_file(self.folder / STATE_FILE, data, mode=0o600)

    def _log(self, action: str, **facts: object) -> None:
        """One line, durable before the state changes: what an operator accepted is never without a trace."""
        line = json.dumps({"time": iso_time(self._clock()), "action": action, **facts}) + "\n"
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(self.folder / LOG_FILE, flags, 0o600), "wb") as file:
                check_plain(LOG_FILE, os.fstat(file.fileno()))  # not a pipe, nor another file's second name
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except SealError as error:
            remedy = "see what it is, and move it out of the state folder"
            raise SealError(Code.STATE, LOG_FILE, error.problem, remedy) from error
        except OSError as error:
            raise SealError(Code.IO, LOG_FILE, f"cannot write: {error.strerror}", "check the state folder") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the folder's lock; makes the folder first if there is none."""
        try:
            if not self._is_there():
                _make(self.folder)
        except OSError as error:
            problem = f"cannot make the state folder: {error.strerror}"
            raise SealError(Code.IO, str(self.folder), problem, "name a folder of yours with --state") from error
        with locked_folder(self.folder, STATE_FILE):
            yield


def encode(marks: Marks) -> bytes:
    """The file's bytes: a line with the digest of the rest, which is JSON."""
    body = msgspec.json.format(msgspec.json.encode(marks), indent=1) + b"\n"
    return _FIRST_LINE + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _make(folder: Path) -> None:
    """Makes a state folder that is never there without its file (clause 11.3)."""
    make_folder(folder.parent)
    with new_folder(folder) as new:
        replace_file(new / STATE_FILE, encode(Marks()), mode=0o600)
        with contextlib.suppress(OSError):  # another process was faster; any other reason shows when it is opened
            new.rename(folder)
    sync_folder(folder.parent)


def _check_mode(place: Path, mode: int) -> None:
    if mode & stat.S_IWOTH:
        problem = f"expected a mode that others cannot write, got {stat.S_IMODE(mode):04o}"
        raise SealError(Code.STATE, str(place), problem, "run: chmod o-w on it, and check what it says")
