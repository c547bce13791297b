"""The admin plane's endpoints: what runs, how it fares, and which bundle answers.

Rules (chapter 7 of host/README.md)
* What takes long runs as an operation, off every event loop; the answer comes when it is over, and
  GET /admin/operation tells how far it is.
* A refusal is 422 with its stable code; what was served before is served still.

Example:
    curl -X POST 127.0.0.1:8081/admin/swap -d '{"path": "/srv/models/v2"}' -H 'content-type: application/json'
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from ...signing.errors import Code
from ..errors import RequestError
from . import admin_views as views
from .refusal import error_object, http_refusal, refusal
from .schema import wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...signing.errors import SealhostError
    from ..deployment import Deployment
    from ..place import Change
    from .exchange import Exchange
    from .metrics import Metrics
    from .operations import Operations, Tell
    from .service import Service

T = TypeVar("T")
Body = TypeVar("Body", bound=Struct)

_STATUS: Final = {Code.USAGE: 400, Code.INTERNAL: 500}
"""Statuses of refusals; every other code is 422: the request was understood, and what it names is not accepted."""


def admin_refusal(error: SealhostError) -> tuple[int, dict[str, Any]]:
    """Status and body for an error, with the parts that a verb makes its own line of."""
    if isinstance(error, RequestError):
        return refusal(error)
    message = f"{error.where}: " * bool(error.where) + f"{error.problem}; {error.remedy}"
    body = error_object(message, kind="refused", param=error.where or None, code=str(error.code))
    body["error"] |= {"problem": error.problem, "remedy": error.remedy}
    return _STATUS.get(error.code, 422), body


class Admin:
    """What the endpoints share.

    Args:
        service: The data plane's state.
        deployment: Which bundle stands behind each name.
        operations: The place for long work.
        metrics: What Prometheus scrapes.
    """

    def __init__(self, service: Service, deployment: Deployment, operations: Operations, metrics: Metrics) -> None:
        self.service = service
        self.deployment = deployment
        self.operations = operations
        self.metrics = metrics

    async def run(self, kind: str, target: str, work: Callable[[Tell], T]) -> T:
        """Runs an operation and waits for its end without holding up the loop."""
        future = self.operations.start(kind, target, work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:  # only the end of the process cuts a task here
            problem = f"the server is shutting down, and the {kind} was not finished"
            raise http_refusal(503, problem, "see `sealhost status` for what counts", code="shutting_down") from None


Directory = Annotated[str, Meta(max_length=4096)]
"""A path, as long as Linux takes them."""

Name = Annotated[str, Meta(max_length=64)]
"""A bundle's name; none is longer."""


class SwapBody(Struct, forbid_unknown_fields=True):
    """POST /admin/swap: a directory, or a name whose directory is read anew; both: the bundle must have the name."""

    path: Directory | None = None
    name: Name | None = None


class RollbackBody(Struct, forbid_unknown_fields=True):
    """POST /admin/rollback: the model, and a directory to go back to if it is not the one before."""

    name: Name
    path: Directory | None = None


class DrainBody(Struct, forbid_unknown_fields=True):
    """POST /admin/drain: whether to take requests again."""

    undo: bool = False


class EmptyBody(Struct, forbid_unknown_fields=True):
    """POST /admin/keys/reload."""


class Swap:
    """POST /admin/swap."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def __call__(self, exchange: Exchange) -> None:
        """Answers once the new version is served, or was refused."""
        body = await _body(exchange, SwapBody)
        if body.path is None and body.name is None:
            raise RequestError("expected a path or a name, got neither", "name what to swap in", param="path")
        root = Path(body.path) if body.path is not None else None

        def swap(tell: Tell) -> Change:
            return self._admin.deployment.swap(root, body.name, tell)

        change = await self._admin.run("swap", body.path or body.name or "", swap)
        await exchange.answer(views.change(change))


class Rollback:
    """POST /admin/rollback."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def __call__(self, exchange: Exchange) -> None:
        """Answers once the version before is served again, or was refused."""
        body = await _body(exchange, RollbackBody)
        root = Path(body.path) if body.path is not None else None

        def roll_back(tell: Tell) -> Change:
            return self._admin.deployment.rollback(body.name, root, tell)

        change = await self._admin.run("rollback", body.name, roll_back)
        await exchange.answer(views.change(change))


class ReloadKeys:
    """POST /admin/keys/reload."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def __call__(self, exchange: Exchange) -> None:
        """Answers once the trust policy was read, with what it says of what runs."""
        await _body(exchange, EmptyBody)
        deployment = self._admin.deployment
        await self._admin.run("reload", "keys", deployment.reload_keys)
        await exchange.answer(views.trust(deployment))


class Drain:
    """POST /admin/drain."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def __call__(self, exchange: Exchange) -> None:
        """Answers at once with what still runs."""
        body = await _body(exchange, DrainBody)
        registry = self._admin.service.registry
        if body.undo:
            registry.resume()
        else:
            registry.drain()
        await exchange.answer(views.load(self._admin.deployment, registry))


class Models:
    """GET /admin/models."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def __call__(self, exchange: Exchange) -> None:
        """Lists what is loaded: served, kept for a rollback, and about to be freed."""
        await exchange.answer(views.models(self._admin.deployment, self._admin.service.registry))


class Plugins:
    """GET /admin/plugins."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def __call__(self, exchange: Exchange) -> None:
        """Lists the plugins of every loaded model with what they did."""
        await exchange.answer({"plugins": views.plugins(self._admin.deployment)})


class Operation:
    """GET /admin/operation."""

    def __init__(self, admin: Admin) -> None:
        self._operations = admin.operations

    async def __call__(self, exchange: Exchange) -> None:
        """Tells what runs now and how the last one ended."""
        running, last = self._operations.current, self._operations.last
        await exchange.answer({"running": asdict(running) if running else None, "last": asdict(last) if last else None})


class Scrape:
    """GET /metrics."""

    def __init__(self, admin: Admin) -> None:
        self._metrics = admin.metrics

    async def __call__(self, exchange: Exchange) -> None:
        """Answers in Prometheus' text format."""
        await exchange.answer_bytes(self._metrics.text(), self._metrics.content_type)


async def _body(exchange: Exchange, kind: type[Body]) -> Body:
    """The request's body; none at all is an empty object.

    Raises:
        RequestError: 400, 408, 413, 415.
    """
    headers = dict(exchange.scope["headers"])
    empty = headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
    try:
        return msgspec.convert({} if empty else await exchange.body(), kind)
    except msgspec.ValidationError as error:
        raise wrong_type(str(error)) from None
