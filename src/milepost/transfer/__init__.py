"""Export and import between any two stores (SPEC section 10)."""

from __future__ import annotations

from milepost.transfer.files import FORMAT, export, import_, in_thread

__all__ = ["FORMAT", "export", "import_", "in_thread"]
