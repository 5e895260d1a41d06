"""Every error that Milepost raises, in one tree.

::

    MilepostError
    ├── InvalidKeyError (ValueError)            a key or an id that breaks the rules
    ├── InvalidValueError (ValueError)          a value that JSON or the store cannot hold
    │   └── ValueTooLargeError                  more bytes than ``max_value_bytes``
    ├── UnsupportedTypeError (TypeError)        a Python type that would not come back as itself
    ├── ConfigurationError (ValueError)         a setting that is unknown or out of range
    ├── NotFoundError (KeyError)
    │   ├── InstanceNotFoundError               no such task instance
    │   ├── RunNotFoundError                    no such run
    │   ├── ArchiveNotFoundError                nothing to restore
    │   └── AssetNotFoundError                  no such asset, or not one of this task's
    ├── ConflictError
    │   ├── VersionConflictError                compare-and-set met another version
    │   ├── StaleAttemptError                   a newer attempt, a clear or a new run took over
    │   ├── InstanceStateError                   the state of the instance does not allow the call
    │   ├── RunHeldError                        another runner holds the run
    │   ├── JobConflictError                    an external job that a person has to look at
    │   └── AssetNotActiveError                 a write to a deactivated asset
    ├── DamagedEntryError                       a stored row that cannot be read
    ├── BackendUnsupportedError                 the configured backend cannot do this call
    ├── MissingDependencyError (ImportError)    an extra that is not installed
    ├── AccessError                             a server refuses the caller
    │   ├── AuthenticationError                 no credential, or one that is unknown or has expired
    │   └── ForbiddenError                      the credential does not open this
    └── StoreError                              the store as a whole
        ├── StoreUnreachableError               it cannot be opened or stays busy
        │   └── OutcomeUnknownError             the connection went in mid-commit
        ├── StoreClosedError                    used after ``close()``
        ├── SchemaTooNewError                   written by a newer Milepost
        ├── SchemaOutdatedError                 an upgrade is needed first
        └── DamagedStoreError                   not a Milepost store, or a broken one
"""

from __future__ import annotations

__all__ = [
    "AccessError",
    "ArchiveNotFoundError",
    "AssetNotActiveError",
    "AssetNotFoundError",
    "AuthenticationError",
    "BackendUnsupportedError",
    "ConfigurationError",
    "ConflictError",
    "DamagedEntryError",
    "DamagedStoreError",
    "ForbiddenError",
    "InstanceNotFoundError",
    "InstanceStateError",
    "InvalidKeyError",
    "InvalidValueError",
    "JobConflictError",
    "MilepostError",
    "MissingDependencyError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RunHeldError",
    "RunNotFoundError",
    "SchemaOutdatedError",
    "SchemaTooNewError",
    "StaleAttemptError",
    "StoreClosedError",
    "StoreError",
    "StoreUnreachableError",
    "UnsupportedTypeError",
    "ValueTooLargeError",
    "VersionConflictError",
]


class MilepostError(Exception):
    """The base of every error of this package."""


class InvalidKeyError(MilepostError, ValueError):
    """A key, an id or an asset name is empty, too long, or has a NUL or a lone surrogate."""


class InvalidValueError(MilepostError, ValueError):
    """A value cannot be stored; the message names the path of the bad element."""


class ValueTooLargeError(InvalidValueError):
    """A value has more bytes than ``max_value_bytes``, or than the database can take.

    Args:
        size: Bytes of the compact JSON text in UTF-8.
        limit: The limit in force, in bytes.
        whose: What sets the limit.
        remedy: How to raise it; `None` if it is fixed.
    """

    def __init__(
        self, size: int, limit: int, whose: str = "max_value_bytes", remedy: str | None = "raise max_value_bytes"
    ) -> None:
        self.size = size
        self.limit = limit
        self.whose = whose
        self.remedy = remedy
        super().__init__(
            f"the value has {size:,} bytes as JSON and the limit is {limit:,} ({whose}); "
            "the way out is a worker-side backend ([workers] state_backend), which keeps big payloads elsewhere and a "
            f"reference here; until there is one: {f'{remedy}, or ' if remedy else ''}keep the payload elsewhere and "
            "store its path or URL"
        )

    def __reduce__(self) -> tuple[type[ValueTooLargeError], tuple[int, int, str, str | None]]:
        return (type(self), (self.size, self.limit, self.whose, self.remedy))


class UnsupportedTypeError(MilepostError, TypeError):
    """A Python object would not come back as what it was; the message names the cast to use."""


class ConfigurationError(MilepostError, ValueError):
    """A setting is unknown or out of range; the message names the place it came from."""


class NotFoundError(MilepostError, KeyError):
    """Something that was asked for by name does not exist."""

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else ""


class InstanceNotFoundError(NotFoundError):
    """No task instance is recorded under this scope."""


class RunNotFoundError(NotFoundError):
    """No run is recorded under these ids."""


class ArchiveNotFoundError(NotFoundError):
    """There is no such archive of this instance."""


class AssetNotFoundError(NotFoundError):
    """No such asset is known here, or it is not one of this task's; then the message names those that are."""


class ConflictError(MilepostError):
    """The state has moved on, or another party holds it. HTTP 409, exit code 5."""


class VersionConflictError(ConflictError):
    """A compare-and-set met another version than the one it was made for."""


class StaleAttemptError(ConflictError):
    """The attempt is no longer the current one: a later attempt, a clear or a new run took over."""


class InstanceStateError(ConflictError):
    """The state of the instance does not allow the call: an attempt runs, it has ended, or live keys are in the way."""


class RunHeldError(ConflictError):
    """Another runner holds this run."""


class JobConflictError(ConflictError):
    """What became of an external job, or which one is wanted, is not clear; nothing was submitted."""


class AssetNotActiveError(ConflictError):
    """A write to a deactivated asset."""


class DamagedEntryError(MilepostError):
    """A stored row cannot be read; it can be overwritten, deleted and cleared.

    Args:
        key: The key of the row.
        reason: What is wrong with it.
    """

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"the stored entry {key!r} is damaged: {reason}; overwrite or delete the key to go on")

    def __reduce__(self) -> tuple[type[DamagedEntryError], tuple[str, str]]:
        return (type(self), (self.key, self.reason))


class BackendUnsupportedError(MilepostError):
    """The configured ``[state_store] backend`` has no means for this call."""


class MissingDependencyError(MilepostError, ImportError):
    """An optional part is not installed; the message is the install command."""


class AccessError(MilepostError):
    """A server refuses the caller."""


class AuthenticationError(AccessError):
    """There is no credential, or the server does not know it, or it has expired; the message says where it is from.

    HTTP 401.
    """


class ForbiddenError(AccessError):
    """The credential does not open what was asked for, whether or not that exists. HTTP 403."""


class StoreError(MilepostError):
    """The store as a whole is not usable as it is."""


class StoreUnreachableError(StoreError):
    """The store cannot be opened, or stays locked beyond the time-out."""


class OutcomeUnknownError(StoreUnreachableError):
    """The connection was lost in mid-commit; the call may or may not have taken effect."""


class StoreClosedError(StoreError):
    """The store was used after ``close()``, or a ``memory://`` store after a fork."""


class SchemaTooNewError(StoreError):
    """The store was written by a newer release of Milepost."""


class SchemaOutdatedError(StoreError):
    """The store was written by an older release; the message names the upgrade command."""


class DamagedStoreError(StoreError):
    """The file is not a Milepost store, or the database reports it as corrupt."""
