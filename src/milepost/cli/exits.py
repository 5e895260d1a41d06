"""Exit codes (SPEC section 10) and which error leads to which."""

from __future__ import annotations

from enum import IntEnum

from milepost import errors

__all__ = ["Exit", "exit_of"]


class Exit(IntEnum):
    """What the process returns."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    BAD_VALUE = 3
    NOT_FOUND = 4
    CONFLICT = 5
    STORE = 6


_EXITS: tuple[tuple[type[errors.MilepostError], Exit], ...] = (
    (errors.ConfigurationError, Exit.USAGE),
    (errors.BackendUnsupportedError, Exit.USAGE),
    (errors.MissingDependencyError, Exit.USAGE),
    (errors.NotFoundError, Exit.NOT_FOUND),
    (errors.ConflictError, Exit.CONFLICT),
    (errors.StoreError, Exit.STORE),
    (errors.InvalidKeyError, Exit.BAD_VALUE),
    (errors.InvalidValueError, Exit.BAD_VALUE),
    (errors.UnsupportedTypeError, Exit.BAD_VALUE),
    (errors.DamagedEntryError, Exit.BAD_VALUE),
)


def exit_of(error: errors.MilepostError) -> Exit:
    """Return the exit code for an error; an error class may bring its own as ``exit_code``."""
    own = getattr(error, "exit_code", None)
    if own is not None:
        return Exit(own)
    return next((code for kind, code in _EXITS if isinstance(error, kind)), Exit.USAGE)
