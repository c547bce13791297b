"""What the admin plane tells of a deployment, as plain values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from ..app import Opened
    from ..deployment import Deployment
    from ..place import Change
    from .served import Registry


def change(done: Change) -> dict[str, Any]:
    """What a swap or a rollback has done."""
    return {
        "name": done.name,
        "changed": done.changed,
        **_bundle(done.new),
        "was": {"version": done.old.manifest.version, "digest": done.old.digest} if done.changed else None,
        "still_running": done.still_running,
        "verify_s": done.new.verify_s,
        "load_s": done.new.load_s,
        "first_token_s": done.new.first_token_s,
    }


def models(deployment: Deployment, registry: Registry) -> dict[str, Any]:
    """What is loaded, and what the trust policy says of it today."""
    listed = []
    for name, place in deployment.places.items():
        listed.append(
            {
                "name": name,
                **_bundle(place.current),
                **_judged(deployment, place.current),
                "requests": registry.holders(place.current.served),
                "engine": place.current.served.engine.stats()._asdict(),
                "context": place.current.served.context,
                "previous": None
                if place.earlier is None
                else {
                    "version": place.earlier.version,
                    "digest": place.earlier.digest,
                    "path": str(place.earlier.root),
                    "loaded": place.previous is not None,
                    "requests": registry.holders(place.previous.served) if place.previous is not None else 0,
                },
            }
        )
    retiring = [
        {"name": one.served.name, **_bundle(one), "requests": registry.holders(one.served)}
        for one in deployment.retiring
    ]
    return {**load(deployment, registry), "models": listed, "retiring": retiring}


def load(deployment: Deployment, registry: Registry) -> dict[str, Any]:
    """The host's phase, and how many requests it is working for."""
    everyone = [one for name in deployment.places for one in deployment.opened(name)]
    return {"phase": registry.phase, "requests": sum(registry.holders(one.served) for one in everyone)}


def trust(deployment: Deployment) -> dict[str, Any]:
    """The trust policy in force, and what it says of the models that are served."""
    policy = deployment.judges.trust.policy
    return {
        "keys": sorted(deployment.judges.trust.keys),
        "policy": {"name": policy.file.name, "version": policy.file.version} if policy is not None else None,
        "models": [{"name": name, **_judged(deployment, one.current)} for name, one in deployment.places.items()],
    }


def plugins(deployment: Deployment) -> list[dict[str, Any]]:
    """The plugins of every loaded model."""
    return [
        {
            "model": name,
            "version": one.bundle.manifest.version,
            "role": role,
            "name": guest.name,
            "sha256": guest.sha256,
            **msgspec.to_builtins(guest.stats()),
        }
        for name in deployment.places
        for one in deployment.opened(name)
        for role, guest in one.guests
    ]


def _bundle(opened: Opened) -> dict[str, Any]:
    return {
        "version": opened.bundle.manifest.version,
        "digest": opened.bundle.digest,
        "signers": list(opened.bundle.signers),
        "path": str(opened.bundle.root),
    }


def _judged(deployment: Deployment, opened: Opened) -> dict[str, Any]:
    objection = deployment.judges.objection(opened.bundle)
    return {"trusted": objection is None, "objection": None if objection is None else str(objection)}
