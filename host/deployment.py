"""Which bundle stands behind each model's name: the first load, swaps, and the way back.

    verify ─▶ marks compared ─▶ load beside the old one ─▶ first token ─▶ marks raised ─▶ switch ─▶ old one kept

Rules (chapter 7 of host/README.md)
* Whatever fails on the way leaves the old one serving; the switch itself is one assignment, and nothing follows it.
* A directory is only ever verified before anything in it is parsed, and only directories of allowed folders are opened.
* One thread at a time changes anything (`serving.operations` sees to it); any thread may look.

Example:
    deployment.start([Path("v1")], tell)
    change = deployment.swap(Path("/srv/models/v2"), None, tell)
    deployment.rollback(change.name, None, tell)
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import structlog

from ..signing import audit as audit_bundle
from ..signing import verify as verify_bundle
from .errors import UsageError, about_bundle
from .memory import check_fits, fits
from .place import Change, Earlier, Place, bytes_held, check_is_a_way_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ..signing import Audit, TrustPolicy, VerifiedBundle
    from .app import Opened
    from .folders import AllowedFolders
    from .judges import Judges
    from .serving.operations import Tell
    from .serving.served import Registry

log = structlog.get_logger("sealhost.admin")


class Opener(Protocol):
    """What is used of app.Host."""

    def open(
        self,
        bundle: VerifiedBundle,
        *,
        plugins: Sequence[VerifiedBundle] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> Opened:
        """Loads a model and makes its first token, or raises and leaves nothing behind."""

    def close(self) -> None:
        """Closes whatever is open."""


class Verify(Protocol):
    """What is used of signing.verify; weights that it still reads are the loader's to finish."""

    def __call__(self, root: Path, trust: TrustPolicy) -> VerifiedBundle:
        """Verifies a bundle, or raises."""


class Audits(Protocol):
    """What is used of signing.audit."""

    def __call__(self, root: Path, trust: TrustPolicy, *, progress: Callable[[int, int], None] | None = None) -> Audit:
        """Verifies every byte of a bundle and keeps none, or raises."""


class Deployment:
    """The models of one host.

    Args:
        judges: Trust policy and state.
        registry: Where the data plane looks models up.
        make_host: Makes the host, once the first bundle was accepted.
        verify: The verifier.
        audit: Checks weights to their last byte before the version kept for a rollback has to be freed for them; None:
            they are not to be read as a whole.
        folders: Where bundles may be swapped in from.
        keep_previous: Whether the one before stays loaded for a rollback at once.
    """

    def __init__(
        self,
        judges: Judges,
        registry: Registry,
        make_host: Callable[[], Opener],
        *,
        verify: Verify = verify_bundle,
        audit: Audits | None = audit_bundle,
        folders: AllowedFolders,
        keep_previous: bool = True,
    ) -> None:
        self.judges = judges
        self.folders = folders
        self._registry = registry
        self._make_host = make_host
        self._verify = verify
        self._audit = audit
        self._keep_previous = keep_previous
        self._host: Opener | None = None
        self._plugins: list[VerifiedBundle] = []
        self._places: dict[str, Place] = {}
        self._retiring: dict[threading.Thread, Opened] = {}
        self._closing = False

    # ---- what is there; any thread

    @property
    def places(self) -> dict[str, Place]:
        """Name → what stands behind it, as a snapshot."""
        return dict(self._places)

    @property
    def retiring(self) -> list[Opened]:
        """Those that are freed once their last request has ended."""
        return list(self._retiring.values())

    def opened(self, name: str) -> list[Opened]:
        """Every loaded model of this name: the current one first."""
        place = self._places[name]
        rest = [one for one in self.retiring if one.served.name == name]
        return [place.current, *([place.previous] if place.previous is not None else []), *rest]

    # ---- what changes it; one thread at a time

    def start(
        self, roots: Sequence[Path], plugins: Sequence[Path], tell: Tell, loaded: Callable[[Opened], None]
    ) -> None:
        """Verifies and loads what is served first, and publishes all of it at once.

        Args:
            roots: Directories of model bundles.
            plugins: Directories of plugin bundles, for every model.
            tell: Told of the progress.
            loaded: Told of each model that has made its first token.

        Raises:
            SealhostError: one was refused; nothing was published.
        """
        self.judges.see()
        self._plugins = [_without_weights(self._verified(root, tell)) for root in plugins]
        self.judges.check(self._plugins)
        opened: dict[str, Opened] = {}
        for root in roots:
            bundle = self._verified(root, tell)
            with _weights_dropped_on_refusal(bundle):
                self.judges.check([bundle])
                if bundle.manifest.name in opened:
                    problem = f"expected bundles of distinct names, got two called {bundle.manifest.name}"
                    raise UsageError(str(root), problem, "serve one of them")
            one = self._load(bundle, tell)
            opened[one.served.name] = one
            loaded(one)
        # all of them work and none is in use: the marks rise before the first request (signing/README.md, 11.4)
        tell("raising marks")
        self.judges.record([*self._plugins, *(one.bundle for one in opened.values())])
        self._places = {name: Place(one) for name, one in opened.items()}
        self._registry.publish([one.served for one in opened.values()])

    def swap(self, root: Path | None, name: str | None, tell: Tell) -> Change:
        """Puts another version in the place of the one that is served under its name.

        Args:
            root: The bundle's directory; None: the one that `name` came from, read anew.
            name: The model that is meant; None: whatever name the bundle has.
            tell: Told of the progress.

        Raises:
            SealhostError: it was refused; the old one goes on.
        """
        if root is None:
            root = self._place(name).current.bundle.root.absolute()
        elif name is not None:
            self._place(name)
        self.folders.check(root)
        bundle = self._accepted(root, name, tell)
        current = self._places[bundle.manifest.name].current
        with _weights_dropped_on_refusal(bundle):
            if bundle.digest == current.bundle.digest and bundle.weights is not None:
                with about_bundle(root):
                    bundle.weights.finish()  # nothing is loaded, but a directory that was tampered with is not praised
                _drop_weights(bundle)
                return Change(bundle.manifest.name, changed=False, old=bundle, new=current, still_running=0)
            self.judges.check([bundle])
        return self._replace(bundle, self._recorded, tell)

    def rollback(self, name: str, root: Path | None, tell: Tell) -> Change:
        """Goes back to the version before: at once while it is loaded, else by opening its directory again.

        Args:
            name: The model.
            root: Another directory to go back to; None: the one before.
            tell: Told of the progress.

        Raises:
            SealhostError: there is nothing to go back to, or it is refused today; what is served goes on.
        """
        place = self._place(name)
        if root is None and place.previous is not None:
            tell("judging")
            self.judges.standing(place.previous.bundle)
            self._judge_plugins()
            self.judges.accept_older(place.previous.bundle)
            return self._switch(name, place.previous)
        expected = None
        if root is None:
            expected = self._earlier(name, place)
            root = expected.root.absolute()
        self.folders.check(root)
        bundle = self._accepted(root, name, tell)
        with _weights_dropped_on_refusal(bundle):
            check_is_a_way_back(bundle, place.current, expected)
        return self._replace(bundle, self.judges.accept_older, tell)

    def reload_keys(self, tell: Tell) -> None:
        """Reads the trust policy again; what runs goes on, whatever it says (`standing` tells).

        Raises:
            SealhostError: the policy is refused; the one from before stays in force.
        """
        tell("reading keys")
        self.judges.reload()
        for name, place in self._places.items():
            if (objection := self.judges.objection(place.current.bundle)) is not None:
                _say("no longer trusted", model=name, because=str(objection))
        _say("keys reloaded", keys=len(self.judges.trust.keys))

    def close(self) -> None:
        """Closes every model, in use or not; idempotent."""
        self._closing = True
        for thread in list(self._retiring):
            self._registry.wake()
            thread.join()
        if self._host is not None:
            self._host.close()

    # ---- steps

    def _place(self, name: str | None) -> Place:
        if name is None or name not in self._places:
            problem = f"expected one of {', '.join(self._places) or 'no models'}, got {name or 'no name'}"
            raise UsageError("name", problem, "name a model that is served; a new one needs a restart")
        return self._places[name]

    def _earlier(self, name: str, place: Place) -> Earlier:
        if place.earlier is None:
            problem = f"expected a version before {place.current.bundle.manifest.version}, got none since the start"
            raise UsageError(name, problem, "name a directory to go back to")
        return place.earlier

    def _accepted(self, root: Path, name: str | None, tell: Tell) -> VerifiedBundle:
        """A verified model bundle whose name is served, and is the one that was meant; its weights are open."""
        self._judge_plugins()
        bundle = self._verified(root, tell)
        found = bundle.manifest.name
        with _weights_dropped_on_refusal(bundle):
            if name is not None and found != name:
                problem = f"expected a bundle of {name}, got one of {found}"
                raise UsageError(str(root), problem, "name the directory of the right bundle")
            if bundle.weights is None:
                raise UsageError(str(root), "expected a model bundle, got one of plugins", "plugins need a restart")
            self._place(found)
        return bundle

    def _verified(self, root: Path, tell: Tell) -> VerifiedBundle:
        tell("verifying")
        with about_bundle(root):
            return self._verify(root, self.judges.trust)

    def _judge_plugins(self) -> None:
        """The plugin bundles come along into the new model, so they are judged with it."""
        for plugin in self._plugins:
            with about_bundle(plugin.root):
                self.judges.standing(plugin)

    def _load(self, bundle: VerifiedBundle, tell: Tell) -> Opened:
        """Loads a bundle, whose weights may be verified on the way in; closes them, however it ends."""
        stage = "verifying and loading"
        tell(stage)
        with _weights_dropped_on_refusal(bundle):
            if self._host is None:
                self._host = self._make_host()
            with about_bundle(bundle.root):
                return self._host.open(
                    bundle, plugins=self._plugins, progress=lambda done, total: tell(stage, done, total)
                )

    def _replace(self, bundle: VerifiedBundle, record: Callable[[VerifiedBundle], None], tell: Tell) -> Change:
        """Loads beside what is served, and switches once the marks are durable."""
        name = bundle.manifest.name
        with _weights_dropped_on_refusal(bundle):
            self._make_room(name, bundle, tell)
        opened = self._load(bundle, tell)
        try:
            tell("raising marks")
            record(bundle)
        except BaseException:
            opened.close()
            raise
        return self._switch(name, opened)

    def _make_room(self, name: str, bundle: VerifiedBundle, tell: Tell) -> None:
        """Sees to it that the new one fits, and frees the version kept for a rollback only where it has to (7.4).

        Raises:
            SealhostError: it cannot fit, or it is no good; what could be known beforehand has cost nothing.
        """
        place = self._places[name]
        needed = bundle.weights.size if bundle.weights is not None else 0
        if (kept := place.previous) is not None and not fits(needed + bytes_held(place.current)):
            in_use = bool(self._registry.holders(kept.served))  # then it stays until they have ended
            check_fits(needed, freed=0 if in_use else bytes_held(kept))
            self._check_to_the_end(bundle, tell)
            self._retire_previous(name)
        check_fits(needed)

    def _check_to_the_end(self, bundle: VerifiedBundle, tell: Tell) -> None:
        """Reads all of a bundle once more than the load will: a bad last byte must not cost the way back (7.4)."""
        if self._audit is None:
            return
        stage = "verifying"
        tell(stage)
        with about_bundle(bundle.root):
            found = self._audit(bundle.root, self.judges.trust, progress=lambda done, total: tell(stage, done, total))
        if found.digest != bundle.digest:
            problem = f"expected sha256 {bundle.digest[:16]}, got {found.digest[:16]}: somebody is writing to it"
            raise UsageError(str(bundle.root), problem, "swap when the directory is complete")

    def _recorded(self, bundle: VerifiedBundle) -> None:
        self.judges.record([*self._plugins, bundle])

    def _switch(self, name: str, opened: Opened) -> Change:
        """From here on new requests get another model; who has the old one keeps it."""
        place = self._places[name]
        old = place.current
        self._registry.replace(opened.served)
        self._places[name] = Place(
            opened, old, Earlier(old.bundle.root, old.bundle.manifest.version, old.bundle.digest)
        )
        still_running = self._registry.holders(old.served)
        if place.previous is not None and place.previous is not opened:
            self._retire(place.previous)
        if not self._keep_previous:
            self._retire_previous(name)
        version, before = opened.bundle.manifest.version, old.bundle.manifest.version
        _say("switched", model=name, version=version, digest=opened.bundle.digest, before=before)
        return Change(name, changed=True, old=old.bundle, new=opened, still_running=still_running)

    def _retire_previous(self, name: str) -> None:
        """Frees the one before the current one, once its last request has ended; where it came from is kept."""
        place = self._places[name]
        if place.previous is None:
            return
        self._places[name] = Place(place.current, None, place.earlier)
        self._retire(place.previous)

    def _retire(self, opened: Opened) -> None:
        """Frees a model that no new request gets, once its last one has ended."""
        if not self._registry.holders(opened.served):
            _close(opened)
            return
        thread = threading.Thread(target=self._free, args=(opened,), name=f"retire-{opened.served.name}", daemon=True)
        self._retiring[thread] = opened
        thread.start()

    def _free(self, opened: Opened) -> None:
        if self._registry.wait_until_free(opened.served, lambda: self._closing):
            _close(opened)
            _say("freed", model=opened.served.name, version=opened.bundle.manifest.version)
        self._retiring.pop(threading.current_thread(), None)


def _without_weights(bundle: VerifiedBundle) -> VerifiedBundle:
    """A plugin bundle.

    Raises:
        UsageError: it is one of a model.
    """
    if bundle.weights is not None:
        bundle.weights.close()
        raise UsageError(str(bundle.root), "expected a plugin bundle, got one of a model", "give it without --plugin")
    return bundle


@contextmanager
def _weights_dropped_on_refusal(bundle: VerifiedBundle) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _drop_weights(bundle)
        raise


def _close(opened: Opened) -> None:
    """Frees a model that nobody uses; a fault on the way is no failure of the swap that has come before."""
    try:
        opened.close()
    except Exception as error:
        traceback = os.environ.get("SEALHOST_DEBUG") == "1"
        with suppress(OSError):
            log.exception("bug", operation="free", error=f"{type(error).__name__}: {error}", exc_info=traceback)


def _say(event: str, **facts: object) -> None:
    """Logs; a terminal that went away must not make a failure of what is done."""
    with suppress(OSError):
        log.info(event, **facts)


def _drop_weights(bundle: VerifiedBundle) -> None:
    if bundle.weights is not None:
        bundle.weights.close()
