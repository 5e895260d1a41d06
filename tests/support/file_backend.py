"""A backend as a user would write it, from the documentation of `BaseStateBackend` alone: one file per key in a folder."""
# ruff: noqa: D102  (as the interface says)

from __future__ import annotations

import asyncio
import json
import os
import shutil
import uuid
from collections.abc import Iterable
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from milepost import AssetScope, BaseStateBackend, TaskScope

__all__ = ["CollectingFileBackend", "FileBackend"]

Scope = TaskScope | AssetScope


def _hash(*parts: object) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


class FileBackend(BaseStateBackend):
    """Keeps each value in a file of its own; the name is a hash, for a key may be longer than a file name.

    Args:
        root: The folder; by default the one that the variable ``FILE_BACKEND_ROOT`` names.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = Path(root or os.environ["FILE_BACKEND_ROOT"])

    def _task(self, scope: TaskScope) -> Path:
        return self.root / _hash("task", scope.dag_id, scope.run_id, scope.task_id)

    def _folder(self, scope: Scope) -> Path:
        if isinstance(scope, TaskScope):
            return self._task(scope) / str(scope.map_index)
        return self.root / _hash("asset", scope.name, scope.uri)

    def get(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        try:
            found: str = json.loads((self._folder(scope) / _hash(key)).read_text(encoding="utf-8"))["value"]
        except FileNotFoundError:
            return None
        return found

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        folder = self._folder(scope)
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{uuid.uuid4().hex}"
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({"key": key, "value": value, "expires_at": expires_at and expires_at.isoformat()}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / _hash(key))
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def delete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        (self._folder(scope) / _hash(key)).unlink(missing_ok=True)

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        folder = self._task(scope) if all_map_indices and isinstance(scope, TaskScope) else self._folder(scope)
        if folder.exists():
            shutil.rmtree(folder)

    async def aget(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        return await asyncio.to_thread(self.get, scope, key)

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        await asyncio.to_thread(self.set, scope, key, value, expires_at=expires_at)

    async def adelete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        await asyncio.to_thread(self.delete, scope, key)

    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        await asyncio.to_thread(self.clear, scope, all_map_indices=all_map_indices)


class CollectingFileBackend(FileBackend):
    """The same with both optional methods."""

    def list(self, scope: Scope) -> Iterable[str]:
        folder = self._folder(scope)
        files = folder.iterdir() if folder.exists() else ()
        return [json.loads(file.read_text(encoding="utf-8"))["key"] for file in files if not file.name.startswith(".")]

    def cleanup(self) -> None:
        now = datetime.now(timezone.utc)
        for file in self.root.rglob("*"):
            if file.is_file() and not file.name.startswith("."):
                expires_at = json.loads(file.read_text(encoding="utf-8"))["expires_at"]
                if expires_at is not None and datetime.fromisoformat(expires_at) <= now:
                    file.unlink()
