"""Export and import between any two stores (SPEC section 10)."""

from __future__ import annotations

from milepost.transfer.files import FORMAT, checked, export, fill, import_, in_thread, pages

__all__ = ["FORMAT", "checked", "export", "fill", "import_", "in_thread", "pages"]
