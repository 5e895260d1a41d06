"""How the key ``progress`` is shown."""

from __future__ import annotations

from typing import Any

__all__ = ["progress_text"]

_WIDTH = 20


def progress_text(value: Any) -> str:
    """Return ``{"done": n, "total": m, "message": "…"}`` as a bar; anything else as nothing.

    Args:
        value: The value under the key ``progress``.
    """
    if not isinstance(value, dict):
        return ""
    done, total, message = value.get("done"), value.get("total"), value.get("message")
    parts = []
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        share = min(max(done / total, 0), 1)
        filled = int(share * _WIDTH)
        parts.append(f"[{'█' * filled}{'·' * (_WIDTH - filled)}] {share:4.0%}")
    if isinstance(message, str):
        parts.append(message.replace("\n", " "))
    return " ".join(parts)
