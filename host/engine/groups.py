"""Finds the sandbox that a choice belongs to.

Rules
* Choices of one group share sandboxes as their sampler's rows allow (clause 2.15); all others have one of their own.
* A group whose members differ in more than the choice is no group: who does not fit gets a sandbox of its own.

Example:
    groups = Groups()
    groups.seat(sequence, sampler)
    groups.leave(sequence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .guest import Guest, seats

if TYPE_CHECKING:
    from ..weights.loaded import Sampler
    from .sequence import Sequence


class Groups:
    """The guests that serve somebody; `len` is their number."""

    def __init__(self) -> None:
        self._guests: set[Guest] = set()
        self._shared: dict[tuple[str, int], Guest] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def seat(self, sequence: Sequence, sampler: Sampler) -> None:
        """Gives a newcomer its slot, with the others of its group where there are any."""
        request = sequence.request
        guest = None
        key = _key(sequence, sampler)
        if key is not None:
            guest = self._shared.get(key)
            if guest is None:
                guest = self._shared[key] = Guest(sampler, request)
        if guest is None or not guest.takes(request):
            guest = Guest(sampler, request)
        guest.join(sequence)
        self._guests.add(guest)

    def leave(self, sequence: Sequence) -> None:
        """Takes a sequence that has ended out of its guest, and forgets a guest that serves nobody."""
        guest = sequence.guest
        if guest is None:
            return
        guest.leave(sequence)
        if not guest.members:
            self._guests.discard(guest)
            key = _key(sequence, guest.sampler)
            if key is not None and self._shared.get(key) is guest:
                del self._shared[key]


def _key(sequence: Sequence, sampler: Sampler) -> tuple[str, int] | None:
    """The group and the first choice of the sandbox that this one belongs to; None: it belongs to no group."""
    request = sequence.request
    return None if request.group is None else (request.group.id, seats(request, sampler.max_rows)[0])
