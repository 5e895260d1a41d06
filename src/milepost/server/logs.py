"""Structured logs: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import time
import traceback
from datetime import datetime, timezone
from typing import Final

__all__ = ["OUTAGES", "JsonLines", "Outages", "configuration", "trace_of"]

_log = logging.getLogger("milepost.server")
_SILENT_SECONDS: Final = 10.0

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON: time, level, logger, message, and what the record brings besides."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN and value is not None}
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = trace_of(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def trace_of(error: BaseException) -> str:
    """Return where an exception comes from, and those behind it, without what they say: that may be what is stored."""
    parts: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        kind = type(one)
        said = f": {one}" if isinstance(one, OSError) else ""
        parts.append("".join(traceback.format_tb(one.__traceback__)) + f"{kind.__module__}.{kind.__qualname__}{said}\n")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\nled to\n\n".join(reversed(parts))


class Outages:
    """Logs that the store cannot be used: at once, and again only after a while, however many requests find that out."""

    def __init__(self) -> None:
        self._last = -_SILENT_SECONDS

    def tell(self, error: Exception) -> None:
        """Log an error, unless that was done just now."""
        now = time.monotonic()
        if now - self._last >= _SILENT_SECONDS:
            self._last = now
            _log.warning("requests are answered with 503: %s", error, extra={"action": "outage"})


OUTAGES: Final = Outages()
"""Those of this process."""


def configuration(*, requests: bool) -> dict[str, object]:
    """Return the configuration of logging for a server.

    Args:
        requests: Whether each request gets a line.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "milepost.server.logs.JsonLines"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},  # what libraries say
        "loggers": {
            "milepost": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
            "milepost.server.requests": {"level": "INFO" if requests else "WARNING"},
            "uvicorn": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
            "uvicorn.access": {"level": "WARNING"},
        },
    }
