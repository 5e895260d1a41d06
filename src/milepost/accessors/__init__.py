"""What tasks and people hold: the accessors of one task instance, of one asset, and of a task's assets."""

from __future__ import annotations

from milepost.accessors.asset import AssetStoreAccessor
from milepost.accessors.mapping import AssetStoreAccessors
from milepost.accessors.task import PastRunView, TaskStoreAccessor

__all__ = ["AssetStoreAccessor", "AssetStoreAccessors", "PastRunView", "TaskStoreAccessor"]
