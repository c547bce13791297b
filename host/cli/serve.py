"""`serve`: takes the ports, then verifies and loads while /livez already answers, then serves until a signal.

Rules (clauses 5.6, 5.7, 6.6 and 7.6 of host/README.md)
* The ports come first, so that a taken one costs nothing.
* A bundle that is refused ends the process with the refusal's line and exit code.
* SIGHUP reads the keys folder again; where the terminal that it was started from has gone, it is a SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from functools import partial
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ...signing import audit, verify
from ...signing.errors import SealhostError
from ..config import DEFAULT_CONNECTIONS, MAX_CONNECTIONS, usable_cores
from ..deployment import Deployment
from ..errors import InternalError, UsageError
from ..folders import AllowedFolders
from ..judges import Judges
from ..serving.operations import Operations, untold
from .access_keys import API_KEY_VARIABLE, access_keys
from .admin_options import NO_ADMIN, AdminOptions, check_guarded, is_loopback
from .fixed_sampler import sampler_choice
from .logs import log_to_stderr
from .options import DEFAULTS, EngineOptions, Keys, StateFolder, state_in, trust_in
from .terminal import note, watched

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

    from ...sandbox import OperatorLimits
    from ..app import Host, Opened
    from ..config import EngineConfig, SamplerChoice
    from ..serving.operations import Tell
    from ..serving.server import Server
    from ..serving.service import Service

MAX_GRACE_S = 3600.0
"""Seconds: an hour is longer than any supervisor waits."""


def serve(  # noqa: PLR0913 — one parameter for each option of the command line
    bundles: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    sampler: str | None = None,
    sampler_config_file: Path | None = None,
    keys: Keys = None,
    state: StateFolder = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    api_key_file: Path | None = None,
    allow_origin: Annotated[list[str] | None, Parameter(negative="")] = None,
    grace: float = 10.0,
    max_connections: int = DEFAULT_CONNECTIONS,
    admin: AdminOptions = NO_ADMIN,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Serve bundles over HTTP with OpenAI's API.

    SIGTERM lets running answers end; SIGHUP reads the keys folder again.

    Args:
        bundles: Directories of model bundles with different names.
        plugin: Directory of a plugin bundle whose samplers requests may name; may be given several times.
        sampler: Name of the sampler to use for every request, whatever the client asks for. [default: clients choose]
        sampler_config_file: File with the configuration of --sampler, a JSON object.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        host: Address to listen on.
        port: Port to listen on; 0 takes any free one.
        api_key_file: File with one API key per line; without it SEALHOST_API_KEY; without both, no key is needed.
        allow_origin: Web origin whose pages may use the server, such as https://example.org, or "*" for all; may be
            given several times. [default: with API keys all, else pages from this machine]
        grace: Seconds that running answers get to finish after SIGTERM.
        max_connections: Most connections at a time; beyond that, idle ones are closed.
        admin: The admin plane.
        engine: How the model runs.
    """
    from ..serving.access import check_origin  # noqa: PLC0415 — other verbs need no server
    from ..serving.app import data_plane  # noqa: PLC0415
    from ..serving.connections import room_for  # noqa: PLC0415
    from ..serving.served import Registry  # noqa: PLC0415
    from ..serving.server import Server, bind  # noqa: PLC0415
    from ..serving.service import Service  # noqa: PLC0415
    from ..serving.workers import Workers  # noqa: PLC0415

    config, api_keys = engine.config(), access_keys(api_key_file, API_KEY_VARIABLE, "--api-key-file")
    admin_keys, choice = admin.keys(api_keys), sampler_choice(sampler, sampler_config_file)
    for origin in allow_origin or ():
        check_origin(origin)
    _check_options(grace, max_connections, admin)
    with bind(host, port) as listener, contextlib.ExitStack() as stack:
        admin_listener = None
        if admin.admin_port is not None:
            admin_listener = stack.enter_context(bind(admin.admin_host, admin.admin_port))
            check_guarded(admin_listener, admin_keys)
        judges = Judges(trust_in(keys), state_in(state), reread=lambda: trust_in(keys))
        log_to_stderr()
        address = _url(host, listener)
        note(f"listening on {address}; verifying and loading")
        if not api_keys and not is_loopback(listener):
            note("anyone who reaches this address can use the models; --api-key-file asks for a key")
        if choice is not None:
            note(f"every request goes through the sampler {choice.name}")
        if (connections := room_for(max_connections)) < max_connections:
            note(
                f"the limit of open files (ulimit -n) leaves room for {connections} connections, not {max_connections}"
            )
        service, operations = Service(Registry(), Workers(threads=usable_cores())), Operations()

        at_a_terminal = watched()

        def hang_up() -> None:
            if at_a_terminal and not watched():  # the terminal itself went away, so nobody wants this server any more
                server.should_exit = True
            else:
                operations.start("reload", "keys", loading.deployment.reload_keys, wait=True)

        app = data_plane(service, keys=api_keys, origins=allow_origin or ())
        server = Server(app, service, grace=grace, connections=connections, hang_up=hang_up)
        loading = Loading(
            bundles,
            plugin or [],
            judges,
            config,
            service,
            server,
            address,
            limits=engine.limits,
            operations=operations,
            reading=engine.reading,
            swap_from=admin.swap_from,
            keep_previous=admin.keep_previous,
            sampler=choice,
        )
        loading.start()
        if admin_listener is not None:
            stack.enter_context(_admin_plane(service, loading.deployment, operations, admin_listener, admin_keys))
            note(f"admin plane on {_url(admin.admin_host, admin_listener)}")
        server.run(sockets=[listener])
    service.workers.close()
    loading.finish()


def _check_options(grace: float, max_connections: int, admin: AdminOptions) -> None:
    if not 0 <= grace <= MAX_GRACE_S:
        raise UsageError("--grace", f"expected 0 to {MAX_GRACE_S:.0f} seconds, got {grace:g}", "choose another")
    if not 1 <= max_connections <= MAX_CONNECTIONS:
        problem = f"expected 1 to {MAX_CONNECTIONS}, got {max_connections}"
        raise UsageError("--max-connections", problem, "choose another")
    if admin.swap_from and admin.admin_port is None:
        problem = "expected --admin-port with it, got none"
        raise UsageError("--swap-from", problem, "add --admin-port: swaps are requested there")


@contextlib.contextmanager
def _admin_plane(
    service: Service, deployment: Deployment, operations: Operations, listener: socket.socket, keys: Sequence[str]
) -> Iterator[None]:
    from ..serving.admin import Admin  # noqa: PLC0415 — prometheus-client comes with it, only where it is asked for
    from ..serving.app import admin_plane  # noqa: PLC0415
    from ..serving.connections import ADMIN_CONNECTIONS  # noqa: PLC0415
    from ..serving.metrics import Metrics  # noqa: PLC0415
    from ..serving.server import Server, in_background  # noqa: PLC0415

    desk = Admin(service, deployment, operations, Metrics(service, deployment, operations))
    server = Server(admin_plane(desk, keys=keys), None, grace=0, connections=ADMIN_CONNECTIONS)
    with in_background(server, listener):
        yield


class Loading:
    """The thread that verifies and loads what is served first, and what became of it."""

    def __init__(  # noqa: PLR0913 — everything that a host is started with
        self,
        bundles: Sequence[Path],
        plugins: Sequence[Path],
        judges: Judges,
        config: EngineConfig,
        service: Service,
        server: Server,
        address: str,
        *,
        limits: Callable[[], OperatorLimits] = DEFAULTS.limits,
        operations: Operations | None = None,
        reading: Literal["ahead", "lazy"] = "ahead",
        swap_from: Sequence[Path] = (),
        keep_previous: bool = True,
        sampler: SamplerChoice | None = None,
    ) -> None:
        self._sampler = sampler
        self._bundles, self._plugins, self._config, self._limits = bundles, plugins, config, limits
        self._server, self._address = server, address
        self._operations = operations or Operations()
        self.deployment = Deployment(
            judges,
            service.registry,
            self._new_host,
            verify=partial(verify, reading=reading),
            audit=audit if reading == "ahead" else None,
            folders=AllowedFolders.beside(bundles, swap_from),
            keep_previous=keep_previous,
        )
        self._error: SealhostError | None = None
        self._thread = threading.Thread(target=self._run, name="loading", daemon=True)

    def start(self) -> None:
        """Starts loading."""
        self._thread.start()

    def finish(self) -> None:
        """Closes what was loaded, after the server has ended.

        Raises:
            SealhostError: what ended the load.
        """
        if self._thread.is_alive() or self._operations.current is not None:
            # a compilation cannot be interrupted, and the signal must not wait for it; the state is whole at any point
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        self.deployment.close()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with self._operations.slot("load", ", ".join(map(str, self._bundles))) as tell:
                self._load(tell)
        except SealhostError as error:
            self._error = error
        except BaseException as error:
            self._error = InternalError("loading", f"expected no fault of our own, got {type(error).__name__}: {error}")
            if os.environ.get("SEALHOST_DEBUG") == "1":
                raise
        finally:
            if self._error is not None:  # whatever it was: a server that will never be ready must not stay
                self._server.should_exit = True

    def _load(self, tell: Tell = untold) -> None:
        self.deployment.start(self._bundles, self._plugins, tell, lambda one: note(_loaded_line(one)))
        note(f"ready: {', '.join(self.deployment.places)} on {self._address}/v1")

    def _new_host(self) -> Host:
        """The host, made when the first bundle has been accepted."""
        from ..app import Host  # noqa: PLC0415 — brings numba and wasmtime (clause 6.5)

        return Host(self._config, limits=self._limits(), announce=note, sampler=self._sampler)


def _url(host: str, listener: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _loaded_line(one: Opened) -> str:
    signers = ", ".join(signer[:16] for signer in one.bundle.signers)
    times = (
        f"verified ({one.verify_s:.2f} s) and loaded in {one.open_s:.2f} s, first token in {one.first_token_s:.2f} s"
    )
    return f"{one.served.name}: sha256 {one.served.digest}, signed by {signers}; {times}"
