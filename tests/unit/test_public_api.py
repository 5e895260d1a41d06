"""What is public is what is promised."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import milepost
from milepost import public

EXPECTED = [
    "NEVER_EXPIRE",
    "NOT_FOUND",
    "AccessError",
    "Archive",
    "ArchiveNotFoundError",
    "Asset",
    "AssetAlias",
    "AssetChanges",
    "AssetNotActiveError",
    "AssetNotFoundError",
    "AssetRecord",
    "AssetRef",
    "AssetReference",
    "AssetScope",
    "AssetStoreAccessor",
    "AssetStoreAccessors",
    "Assets",
    "AuthenticationError",
    "BackendUnsupportedError",
    "BaseStateBackend",
    "BaseStoreBackend",
    "CleanReport",
    "Clock",
    "ConfigurationError",
    "ConflictError",
    "DamagedEntryError",
    "DamagedRow",
    "DamagedStoreError",
    "DamagedValue",
    "DueKey",
    "Entry",
    "ForbiddenError",
    "InstanceNotFoundError",
    "InstanceRecord",
    "InstanceStateError",
    "Instances",
    "InvalidKeyError",
    "InvalidValueError",
    "JobConflictError",
    "JobDecision",
    "ManualClock",
    "Metastore",
    "MetastoreStateBackend",
    "MilepostError",
    "MissingDependencyError",
    "NewToken",
    "NotFoundError",
    "Outcome",
    "OutcomeUnknownError",
    "PastEntry",
    "PastRunView",
    "ResumableJobMixin",
    "RunHeldError",
    "RunNotFoundError",
    "RunEvent",
    "RunRecord",
    "Runs",
    "SchemaOutdatedError",
    "SchemaTooNewError",
    "Settings",
    "StaleAttemptError",
    "Store",
    "StoreClosedError",
    "StoreError",
    "StoreStats",
    "StoreUnreachableError",
    "SystemClock",
    "TaskOptions",
    "TaskScope",
    "TaskStoreAccessor",
    "TokenRecord",
    "Tokens",
    "TransferReport",
    "UnsupportedTypeError",
    "ValueTooLargeError",
    "VersionConflictError",
    "Writer",
    "aconnect",
    "connect",
]

# Optional parts that need an extra; their own tests import them.
EXTRAS = ("milepost.metastore.engines.", "milepost.server", "milepost.airflow")


def modules() -> list[str]:
    """Return the names of all modules of the package."""
    walk = pkgutil.walk_packages(milepost.__path__, "milepost.", onerror=lambda _: None)
    return ["milepost", *(found.name for found in walk if not found.name.endswith("__main__"))]


def test_the_names_are_exactly_these() -> None:
    """`milepost.__all__` is sorted, complete and has nothing else; every name is there."""
    assert sorted(milepost.__all__) == sorted(EXPECTED)
    constants = [name for name in milepost.__all__ if name.isupper()]
    classes = [name for name in milepost.__all__ if name[0].isupper() and not name.isupper()]
    functions = [name for name in milepost.__all__ if name[0].islower()]
    assert milepost.__all__ == [*sorted(constants), *sorted(classes), *sorted(functions)]
    assert public.__all__ == milepost.__all__
    for name in milepost.__all__:
        assert getattr(milepost, name) is getattr(public, name)
    assert set(milepost.__all__) < set(dir(milepost))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = milepost.nothing
    assert milepost.BaseStoreBackend is milepost.BaseStateBackend


@pytest.mark.parametrize("name", modules())
def test_every_module_says_what_is_public(name: str) -> None:
    """Every module has an `__all__` of names that exist, and a docstring."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if not name.startswith(EXTRAS):
            raise
        pytest.skip(f"an extra is not installed: {error}")
    assert len(set(module.__all__)) == len(module.__all__)
    assert [missing for missing in module.__all__ if not hasattr(module, missing)] == []
    assert module.__doc__
