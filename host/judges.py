"""Who decides whether a bundle may run: whose signatures count, and what ran before (signing/README.md, 10 and 11).

Rules
* The trust policy can be read anew while models are served; one that is refused changes nothing.
* `standing` judges a bundle that was verified earlier under today's policy: its signers are known from then, and
  whether they still count is checked now.

Example:
    judges = Judges(DirectoryTrust(keys), State(folder), reread=lambda: DirectoryTrust(keys))
    judges.check([bundle])          # neither older nor equivocal
    judges.record([bundle])         # durable when this returns: now it may be used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..signing.errors import Code, SealError
from ..signing.marks import marked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..signing import DirectoryTrust, VerifiedBundle
    from ..signing.state import State

_NO_LONGER_COUNTS = frozenset({Code.REVOKED, Code.EXPIRED})
"""Refusals of one key that leave it to the other signers (signing/README.md, 6.2)."""


class Judges:
    """The trust policy and the state of one host.

    Args:
        trust: Whose signatures count.
        state: What was accepted before.
        reread: Reads the trust policy again; None: it stays as it is.
    """

    def __init__(
        self, trust: DirectoryTrust, state: State, *, reread: Callable[[], DirectoryTrust] | None = None
    ) -> None:
        self.trust = trust
        self.state = state
        self._reread = reread

    def see(self) -> None:
        """Marks the trust policy as seen, durably, before any bundle is looked at.

        Raises:
            SealError: E_ROLLBACK, E_EQUIVOCATION, E_CLOCK, E_STATE, E_IO.
        """
        self.state.see(self.trust)

    def check(self, bundles: Sequence[VerifiedBundle]) -> None:
        """Accepts by returning that none is older than what was accepted before; writes nothing.

        Raises:
            SealError: E_ROLLBACK, E_EQUIVOCATION, E_CLOCK, E_STATE, E_IO.
        """
        self.state.check(bundles, self.trust)

    def record(self, bundles: Sequence[VerifiedBundle]) -> None:
        """Checks once more and raises the marks, durably.

        Raises:
            SealError: as `check`.
        """
        self.state.record(bundles, self.trust)

    def accept_older(self, bundle: VerifiedBundle) -> None:
        """Lets a bundle run that the operator has asked for by name, though its mark may be higher.

        A way back is logged in the state folder before it counts, and lowers no mark (signing/README.md, 11.6).

        Raises:
            SealError: E_EQUIVOCATION, E_CLOCK, E_STATE, E_IO.
        """
        mark = self.state.marks().bundles.get(marked_name(bundle))
        if mark is not None and bundle.manifest.version < mark.version:
            self.state.accept_older(bundle)
        self.record([bundle])

    def standing(self, bundle: VerifiedBundle) -> None:
        """Accepts by returning that the keys that have signed a bundle may sign it today, too.

        Raises:
            SealError: E_REVOKED, E_EXPIRED, E_UNTRUSTED, E_THRESHOLD, …
        """
        counting, refused = set(), []
        for signer in bundle.signers:
            try:
                if self.trust.key(signer) is not None:
                    counting.add(signer)
            except SealError as error:
                if error.code not in _NO_LONGER_COUNTS:
                    raise
                refused.append(error)
        if refused and not counting:
            raise refused[0]
        self.trust.authorise(bundle.manifest, frozenset(counting))

    def objection(self, bundle: VerifiedBundle) -> SealError | None:
        """What `standing` has against a bundle; None: nothing."""
        try:
            self.standing(bundle)
        except SealError as error:
            return error
        return None

    def reload(self) -> None:
        """Reads the trust policy again, and marks its version as seen.

        Raises:
            SealError: what is there now is refused; the policy from before stays in force.
        """
        if self._reread is not None:
            trust = self._reread()
            self.state.record([], trust)
            self.trust = trust
