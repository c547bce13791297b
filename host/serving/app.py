"""The data plane and the admin plane as ASGI applications: routes, and errors for what no route takes.

Example:
    app = data_plane(service, keys=(), origins=())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from . import admin, catalogue, generate
from .access import Access
from .admin_access import AdminAccess
from .bearer import BearerKeys
from .bodies import Bodies
from .endpoint import Endpoint
from .refusal import http_refusal, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from .endpoint import Handler
    from .service import Service


def data_plane(service: Service, *, keys: Sequence[str] = (), origins: Sequence[str] = ()) -> ASGIApp:
    """Builds the application.

    Args:
        service: The models and workers behind it.
        keys: API keys; none: no key is asked for.
        origins: Web origins that a browser lets in, see `access`.
    """

    def work(path: str, handler: Handler, name: str) -> Route:
        count = service.telemetry.endpoint(name)
        return Route(path, Endpoint(handler, count=count, bodies=service.bodies), methods=["POST"])

    routes = [
        work("/v1/chat/completions", generate.Chat(service), "chat"),
        work("/v1/completions", generate.Completions(service), "completions"),
        work("/tokenize", catalogue.Tokenize(service), "tokenize"),
        work("/detokenize", catalogue.Detokenize(service), "detokenize"),
        Route("/v1/models", Endpoint(catalogue.Models(service)), methods=["GET"]),
        Route("/v1/models/{id:path}", Endpoint(catalogue.Model(service)), methods=["GET"]),
        *_health(service),
    ]
    return Access(_routed(routes), keys=keys, origins=origins)


def admin_plane(desk: admin.Admin, *, keys: Sequence[str] = ()) -> ASGIApp:
    """Builds the application that operators use, on a socket of its own.

    Args:
        desk: What its endpoints share.
        keys: Admin keys; none: only requests from this machine, see `admin_access`.
    """
    work: dict[str, Handler] = {
        "/admin/swap": admin.Swap(desk),
        "/admin/rollback": admin.Rollback(desk),
        "/admin/drain": admin.Drain(desk),
        "/admin/keys/reload": admin.ReloadKeys(desk),
    }
    views: dict[str, Handler] = {
        "/admin/models": admin.Models(desk),
        "/admin/plugins": admin.Plugins(desk),
        "/admin/operation": admin.Operation(desk),
        "/metrics": admin.Scrape(desk),
    }
    bodies = Bodies()
    routes = [
        Route(path, Endpoint(handler, refuse=admin.admin_refusal, bodies=bodies), methods=[method])
        for method, handlers in (("POST", work), ("GET", views))
        for path, handler in handlers.items()
    ]
    return AdminAccess(_routed([*routes, *_health(desk.service)]), keys=BearerKeys(keys))


def _health(service: Service) -> list[Route]:
    ready = Endpoint(catalogue.Ready(service))
    return [
        Route("/livez", Endpoint(catalogue.Alive()), methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
        Route("/health", ready, methods=["GET"]),
    ]


def _routed(routes: Sequence[Route]) -> Starlette:
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_route})
    app.router.redirect_slashes = False  # a redirect would be built from the Host header
    return app


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(getattr(error, "headers", None) or {})
    method, path = request.method, request.scope["path"][:200]
    if status == 405:
        allowed = sorted(headers.get("Allow", "another method").split(", "))  # which come in any order
        problem = f"expected {' or '.join(allowed)} on {path}, got {method}"
        refused = http_refusal(405, problem, "use that method", code="method_not_allowed")
    else:
        known = ", ".join(sorted({one.path_format for one in request.app.routes if isinstance(one, Route)}))
        refused = http_refusal(
            status, f"expected a known path, got {method} {path}", f"use one of {known}", code="not_found"
        )
    return Response(msgspec.json.encode(refusal(refused)[1]), status, headers, media_type="application/json")
