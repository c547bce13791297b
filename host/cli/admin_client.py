"""Talks to a host's admin plane, with the standard library's HTTP client: one small request at a time.

Rules
* A refusal of the host becomes the same refusal here, with its code and so with its exit code.
* What does not answer, or does not answer as a sealhost does, is E_IO with what to do.

Example:
    with AdminClient("http://127.0.0.1:8081", key=None) as client:
        client.post("/admin/swap", {"path": "/srv/models/v2"})
"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

from ...signing.errors import Code, SealhostError, escape_for_terminal
from ..errors import HostError, UsageError
from .access_keys import ADMIN_KEY_VARIABLE, access_keys

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

QUICK_SECONDS: Final = 10.0
"""For what a host answers from memory."""

MAX_ANSWER_BYTES: Final = 16 << 20
"""Bytes of an answer; a host's longest, of many plugins, is a few hundred kilobytes."""


class AdminClient:
    """Requests to one admin plane.

    Args:
        url: Its address, http or https.
        key_file: File with the admin key; None: SEALHOST_ADMIN_KEY.

    Raises:
        UsageError: the address or the key is none.
        HostError: the key's file cannot be read.
    """

    def __init__(self, url: str, key_file: Path | None) -> None:
        try:
            parts = urlsplit(url)
            scheme, self._host, self._port = parts.scheme, parts.hostname or "", parts.port
        except ValueError:  # brackets without an end, a port that is no number
            scheme = ""
        if scheme not in {"http", "https"} or not self._host:
            raise UsageError("--admin", f"expected http://HOST:PORT, got {url}", "name the host's admin plane")
        self._url = url
        self._tls = scheme == "https"
        keys = access_keys(key_file, ADMIN_KEY_VARIABLE, "--admin-key-file")
        self._headers = {"authorization": f"Bearer {keys[0]}"} if keys else {}

    def get(self, path: str) -> dict[str, Any]:
        """What the host tells.

        Raises:
            SealhostError: see `post`.
        """
        return self._ask("GET", path, None, QUICK_SECONDS)

    def post(self, path: str, body: dict[str, Any], *, patient: bool = False) -> dict[str, Any]:
        """Has the host do something.

        Args:
            path: Of the endpoint.
            body: What it is told.
            patient: Wait without limit, for what loads a model.

        Raises:
            SealhostError: the host refused it, or cannot be reached.
        """
        return self._ask("POST", path, body, None if patient else QUICK_SECONDS)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=QUICK_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(timeout)
            content = None if body is None else json.dumps(body).encode()
            headers = self._headers | ({"content-type": "application/json"} if content is not None else {})
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            remedy = "start one with serve --admin-port, or name it with --admin"
            raise HostError(Code.IO, self._url, f"expected a sealhost's admin plane, got {reason}", remedy) from None
        finally:
            connection.close()
        try:
            value = json.loads(text)
            if status == http.HTTPStatus.OK and isinstance(value, dict):
                return value
            said = value["error"]
            self._refused(status, said if isinstance(said, dict) else {})
        except (ValueError, KeyError, TypeError, RecursionError):
            problem = f"expected a sealhost's admin plane, got an answer with status {status} that is none"
            raise HostError(Code.IO, self._url, problem, "name the admin plane's port with --admin") from None

    @staticmethod
    def _refused(status: int, error: dict[str, Any]) -> NoReturn:
        """Raises the refusal that the host has told."""
        code, where = str(error.get("code")), error.get("param")
        message, remedy = str(error.get("message")), error.get("remedy")
        if code in set(Code):
            problem = str(error.get("problem", message))
            raise SealhostError(Code(code), str(where or ""), problem, escape_for_terminal(str(remedy)))
        problem, _, remedy = message.partition("; ")
        if code == "invalid_admin_key":
            remedy = f"give --admin-key-file or set {ADMIN_KEY_VARIABLE}"
        kind = Code.IO if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR else Code.USAGE
        raise HostError(kind, "host", problem, escape_for_terminal(remedy) or "see the host's log")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is kept open between requests."""
