"""`swap`, `rollback`, `drain`: steer a running host through its admin plane.

Rules (clause 6.9 of host/README.md)
* The host does the work and decides; these verbs ask, wait and show.
* A refusal of the host is this verb's refusal, with the same code and exit code.

Example:
    sealhost swap /srv/models/smollm2-v2
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from ..errors import UsageError
from .admin_client import AdminClient
from .admin_options import DEFAULT_ADMIN, AdminKeyFile, AdminUrl
from .admin_progress import operation_shown
from .facts import answering, print_facts, say
from .options import Json  # noqa: TC001 — cyclopts reads annotations at run time
from .terminal import harmless, note, watched

if TYPE_CHECKING:
    from collections.abc import Callable

DRAIN_POLL_SECONDS: Final = 0.5
"""Between two looks at how many requests still run."""


def swap(
    what: Annotated[str, Parameter(name="NAME|DIR", show_env_var=False)],
    /,
    *,
    admin: AdminUrl = DEFAULT_ADMIN,
    admin_key_file: AdminKeyFile = None,
    json: Json = False,
) -> None:
    """Replace a model in a running host by another version.

    Args:
        what: A bundle's directory on the host's machine, or the name of a model whose directory has new contents.
        admin: The host's admin plane.
        admin_key_file: File with the admin key; without it SEALHOST_ADMIN_KEY.
        json: Print the host's answer.
    """
    is_directory = "/" in what or Path(what).is_dir()
    body = {"path": str(Path(what).absolute())} if is_directory else {"name": what}
    with answering(as_json=json):
        if not what:  # clause 6.13
            raise UsageError("NAME|DIR", "expected a model's name or a directory, got an empty text", "name one")
        client = AdminClient(admin, admin_key_file)
        with operation_shown(client):
            change = client.post("/admin/swap", body, patient=True)
        _print(change, "already serving", as_json=json)


def rollback(
    name: str,
    directory: Path | None = None,
    /,
    *,
    admin: AdminUrl = DEFAULT_ADMIN,
    admin_key_file: AdminKeyFile = None,
    json: Json = False,
) -> None:
    """Return to the version of a model that a running host served before.

    Args:
        name: The model.
        directory: A bundle's directory on the host's machine to go back to, instead of the previous one.
        admin: The host's admin plane.
        admin_key_file: File with the admin key; without it SEALHOST_ADMIN_KEY.
        json: Print the host's answer.
    """
    body: dict[str, Any] = {"name": name} | ({"path": str(directory.absolute())} if directory is not None else {})
    with answering(as_json=json):
        client = AdminClient(admin, admin_key_file)
        with operation_shown(client):
            change = client.post("/admin/rollback", body, patient=True)
        _print(change, "still serving", as_json=json)


def drain(
    *,
    undo: Annotated[bool, Parameter(negative="")] = False,
    wait: float = 60.0,
    admin: AdminUrl = DEFAULT_ADMIN,
    admin_key_file: AdminKeyFile = None,
    json: Json = False,
) -> None:
    """Stop a running host from taking new requests, and wait until the running ones have ended.

    Args:
        undo: Take new requests again.
        wait: Seconds to wait for running requests to end; 0 does not wait.
        admin: The host's admin plane.
        admin_key_file: File with the admin key; without it SEALHOST_ADMIN_KEY.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        if not wait >= 0:
            raise UsageError("--wait", f"expected 0 seconds or more, got {wait}", "choose another")
        client = AdminClient(admin, admin_key_file)
        load = client.post("/admin/drain", {"undo": undo})
        if not undo:
            load = _wait_until_idle(lambda: client.get("/admin/models"), load, wait)
        facts = {"phase": load["phase"], "requests": load["requests"]}
        if json:
            print_facts(facts, as_json=True)
        else:
            say(harmless(f"{facts['phase']}: {_requests(facts['requests'])} running"))


def _wait_until_idle(look: Callable[[], dict[str, Any]], load: dict[str, Any], seconds: float) -> dict[str, Any]:
    deadline, told = time.monotonic() + seconds, None
    while load["requests"] and time.monotonic() < deadline:
        if watched() and load["requests"] != told:
            told = load["requests"]
            note(f"waiting for {_requests(told)}")
        time.sleep(min(DRAIN_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        load = look()
    return load


def _print(change: dict[str, Any], unchanged: str, *, as_json: bool) -> None:
    if as_json:
        print_facts(change, as_json=True)
        return
    name, version, digest = change["name"], change["version"], change["digest"]
    if not change["changed"]:
        say(harmless(f"{name}: {unchanged} version {version}, sha256 {digest}"))
        return
    before = change["was"]["version"]
    say(harmless(f"{name}: version {before} → {version}, sha256 {digest}"))
    running = change["still_running"]
    if running:
        say(harmless(f"{_requests(running)} running to the end on version {before}"))


def _requests(count: int) -> str:
    return f"{count or 'no'} request{'s' * (count != 1)}"
