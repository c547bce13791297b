"""Shows how far a host's operation is, while its answer is waited for; only when a person is looking.

Example:
    with operation_shown(client):
        client.post("/admin/swap", {"path": "/srv/models/v2"}, patient=True)
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from ...signing.errors import SealhostError, escape_for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .admin_client import AdminClient

POLL_SECONDS: Final = 0.2
"""Between two questions: a bar that moves, and no load on the host."""


@contextlib.contextmanager
def operation_shown(client: AdminClient) -> Iterator[None]:
    """Draws the running operation's stage while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    over = threading.Event()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        watcher = threading.Thread(target=_watch, args=(client, progress, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _watch(client: AdminClient, progress: Progress, over: threading.Event) -> None:
    task, stage = None, ""
    while not over.wait(POLL_SECONDS):
        with contextlib.suppress(SealhostError, KeyError, TypeError):  # the answer itself will tell what is wrong
            running: dict[str, Any] | None = client.get("/admin/operation")["running"]
            if running is None:
                continue
            if task is None or running["stage"] != stage:
                if task is not None:
                    progress.remove_task(task)
                stage = running["stage"]
                task = progress.add_task(escape_for_terminal(stage), total=None)
            progress.update(task, completed=running["done"], total=running["total"] or None)
