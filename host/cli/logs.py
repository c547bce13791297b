"""The server's log: one line of key=value for each event, on standard error."""

from __future__ import annotations

import logging
import os
import sys


def log_to_stderr() -> None:
    """Sends our own events and the libraries' warnings there."""
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
