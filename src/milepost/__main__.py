"""`python -m milepost`."""

from __future__ import annotations

from milepost.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
