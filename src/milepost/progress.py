"""How the key ``progress`` is shown: in the log of a run, on a terminal, by the command line."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["progress_share", "progress_text"]

_WIDTH: Final = 20


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def progress_share(value: Any) -> float | None:
    """Return how much is done, 0 to 1, where both numbers are known.

    Args:
        value: The value under the key ``progress``.
    """
    if not isinstance(value, dict):
        return None
    done: Any = value.get("done")
    total: Any = value.get("total")
    if not _number(done) or not _number(total) or not total > 0:
        return None
    return float(min(max(done / total, 0.0), 1.0))


def progress_text(value: Any, *, bar: bool = False) -> str:
    """Return the value of the key ``progress`` as one line of text.

    Args:
        value: ``{"done": n, "total": m, "message": "…"}``; each part may be missing.
        bar: Whether a bar stands in place of the numbers where both are known.

    Returns:
        The text; empty if the value has none of the documented parts.
    """
    if not isinstance(value, dict):
        return ""
    share, message = progress_share(value), value.get("message")
    parts = []
    if bar and share is not None:
        filled = int(share * _WIDTH)
        parts.append(f"[{'█' * filled}{'·' * (_WIDTH - filled)}] {share:4.0%}")
    elif share is not None:
        parts.append(f"{value['done']}/{value['total']} ({share:.0%})")
    elif _number(value.get("done")):
        parts.append(str(value["done"]))
    if isinstance(message, str) and message:
        parts.append(" ".join(message.splitlines()))
    return " ".join(parts)
