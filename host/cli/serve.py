"""`serve`: takes the port, then verifies and loads while /livez already answers, then serves until a signal.

Rules (clauses 5.6, 5.7 and 6.6 of host/README.md)
* The port comes first, so that a taken one costs nothing.
* A bundle that is refused ends the process with the refusal's line and exit code.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import sys
import threading
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from ...signing import verify
from ...signing.errors import Code, SealhostError
from ..config import usable_cores
from ..errors import HostError, InternalError, UsageError
from .options import DEFAULTS, EngineOptions, Keys, StateFolder, state_in, trust_in
from .terminal import note

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from ...signing import DirectoryTrust, TrustPolicy, VerifiedBundle
    from ...signing.state import State
    from ..app import Host, Opened
    from ..config import EngineConfig
    from ..serving.server import Server
    from ..serving.service import Service

API_KEY_VARIABLE = "SEALHOST_API_KEY"
"""An API key, for those who set no file."""

MAX_KEY_FILE_BYTES = 1 << 20
"""Bytes of a file of API keys; more is a wrong file."""

MIN_KEY_CHARACTERS = 8
"""Letters of an API key: shorter ones can be guessed over the network."""


def serve(  # noqa: PLR0913 — one parameter for each option of the command line
    bundles: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    keys: Keys = None,
    state: StateFolder = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    admin_port: int | None = None,
    api_key_file: Path | None = None,
    allow_origin: Annotated[list[str] | None, Parameter(negative="")] = None,
    grace: float = 10.0,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Serve bundles over HTTP with OpenAI's API.

    Args:
        bundles: Directories of model bundles, each of another name.
        plugin: Directory of a plugin bundle whose samplers requests may name; may be given several times.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        host: Address to listen on.
        port: Port to listen on; 0 takes any free one.
        admin_port: Another port, for health checks alone. [default: none]
        api_key_file: File with one API key a line; without it SEALHOST_API_KEY, else no key is asked for.
        allow_origin: Web origin that a browser lets in, "*" for all; may be given several times.
        grace: Seconds that running answers have after SIGTERM.
        engine: How the model runs.
    """
    from ..serving.app import admin_plane, data_plane  # noqa: PLC0415 — other verbs need no server
    from ..serving.served import Registry  # noqa: PLC0415
    from ..serving.server import Server, bind, in_background  # noqa: PLC0415
    from ..serving.service import Service  # noqa: PLC0415
    from ..serving.workers import Workers  # noqa: PLC0415

    config, api_keys = engine.config(), _api_keys(api_key_file)
    if not 0 <= grace <= MAX_GRACE_S:
        raise UsageError("--grace", f"expected 0 to {MAX_GRACE_S} seconds, got {grace}", "choose another")
    with bind(host, port) as listener, contextlib.ExitStack() as admin:
        if admin_port is not None:
            admin_listener = admin.enter_context(bind(host, admin_port))
        judges = Judges(trust_in(keys), state_in(state))
        _log_to_stderr()
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        note(f"listening on {address}; verifying and loading")
        if not api_keys and not _is_loopback(listener):
            note("anyone who reaches this address can use the models; --api-key-file asks for a key")
        service = Service(Registry(), Workers(threads=usable_cores()))
        app = data_plane(service, keys=api_keys, origins=allow_origin or ())
        server = Server(app, service, grace=grace)
        loading = Loading(bundles, plugin or [], judges, config, service, server, address)
        loading.start()
        if admin_port is not None:
            admin.enter_context(in_background(Server(admin_plane(service), service, grace=0), admin_listener))
        server.run(sockets=[listener])
    service.workers.close()
    loading.finish()


MAX_GRACE_S = 3600.0
"""Seconds: an hour is longer than any supervisor waits."""


class Judges(NamedTuple):
    """Who decides whether a bundle may run: who signed it, and what ran before."""

    trust: DirectoryTrust
    state: State


class Loading:
    """The thread that verifies and loads, and what became of it."""

    def __init__(
        self,
        bundles: Sequence[Path],
        plugins: Sequence[Path],
        judges: Judges,
        config: EngineConfig,
        service: Service,
        server: Server,
        address: str,
    ) -> None:
        self._bundles, self._plugins, self._config = bundles, plugins, config
        self._trust, self._state = judges
        self._service, self._server, self._address = service, server, address
        self._host: Host | None = None
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
        if self._thread.is_alive():
            # a compilation cannot be interrupted, and the signal must not wait for it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        if self._host is not None:
            self._host.close()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._load()
        except SealhostError as error:
            self._error = error
        except Exception as error:
            if os.environ.get("SEALHOST_DEBUG") == "1":
                raise
            self._error = InternalError("loading", f"expected no fault of our own, got {type(error).__name__}: {error}")
        finally:
            if self._error is not None:
                self._server.should_exit = True

    def _load(self) -> None:
        plugins = verify_plugins(self._plugins, self._trust)
        self._state.check(plugins, self._trust)
        opened: dict[str, Opened] = {}
        for root in self._bundles:
            bundle = verify(root, self._trust)
            self._state.check([bundle], self._trust)
            if bundle.manifest.name in opened:
                problem = f"expected bundles of distinct names, got two called {bundle.manifest.name}"
                raise UsageError(str(root), problem, "serve one of them")
            one = self._running_host().open(bundle, plugins=plugins)
            opened[one.served.name] = one
            note(_loaded_line(one))
        # all of them work and none is in use: the marks rise before the first request (signing/README.md, 11.4)
        self._state.record([*plugins, *(one.bundle for one in opened.values())], self._trust)
        self._service.registry.publish([one.served for one in opened.values()])
        note(f"ready: {', '.join(opened)} on {self._address}/v1")

    def _running_host(self) -> Host:
        """The host, made when the first bundle has been accepted."""
        from ..app import Host  # noqa: PLC0415 — brings numba and wasmtime (clause 6.5)

        if self._host is None:
            self._host = Host(self._config, announce=note)
        return self._host


def verify_plugins(roots: Sequence[Path], trust: TrustPolicy) -> list[VerifiedBundle]:
    """Verifies plugin bundles.

    Raises:
        SealhostError: one was refused, or is none of plugins.
    """
    bundles = [verify(root, trust) for root in roots]
    for bundle in bundles:
        if bundle.weights is not None:
            bundle.weights.close()
            problem = "expected a plugin bundle, got one of a model"
            raise UsageError(bundle.manifest.name, problem, "give it without --plugin")
    return bundles


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def _loaded_line(one: Opened) -> str:
    signers = ", ".join(signer[:16] for signer in one.bundle.signers)
    times = f"verified in {one.verify_s:.2f} s, loaded in {one.load_s:.2f} s, first token in {one.first_token_s:.2f} s"
    return f"{one.served.name}: sha256 {one.served.digest}, signed by {signers}; {times}"


def _api_keys(path: Path | None) -> list[str]:
    if path is None:
        given = os.environ.get(API_KEY_VARIABLE, "")
        keys, where = [given.strip()] if given.strip() else [], API_KEY_VARIABLE
    else:
        lines = _key_file(path).splitlines()
        keys, where = [line.strip() for line in lines if line.strip() and not line.startswith("#")], str(path)
        if not keys:
            raise UsageError(where, "expected at least one API key, got none", "write one key a line")
    if any(len(key) < MIN_KEY_CHARACTERS for key in keys):
        raise UsageError(where, f"expected API keys of at least {MIN_KEY_CHARACTERS} letters", "make longer ones")
    return keys


def _key_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE_BYTES + 1)
        if len(data) <= MAX_KEY_FILE_BYTES:
            return data.decode()
        reason = f"got more than {MAX_KEY_FILE_BYTES} bytes"
    except (OSError, UnicodeDecodeError) as error:
        reason = f"got {error.strerror if isinstance(error, OSError) else 'bytes that are no UTF-8'}"
    raise HostError(Code.IO, str(path), f"expected a file of API keys, {reason}", "check --api-key-file")


def _log_to_stderr() -> None:
    import structlog  # noqa: PLC0415 — only the server logs

    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("timestamp=%(asctime)s level=%(levelname)s event=%(message)r logger=%(name)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class OneLine(logging.Formatter):
    """The standard library's log records without tracebacks, unless SEALHOST_DEBUG=1 asks for them."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for one record."""
        if record.exc_info and os.environ.get("SEALHOST_DEBUG") != "1":
            error = record.exc_info[1]
            record.msg, record.args = f"{record.getMessage()}: {type(error).__name__}: {error}", ()
            record.exc_info = record.exc_text = None
        return super().format(record)
