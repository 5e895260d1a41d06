"""Airflow 3.3's own tables of task and asset state: their rows in, rows out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from milepost.entry import Writer
from milepost.errors import ConfigurationError
from milepost.scopes import AssetScope, TaskScope

__all__ = ["NativeRow", "NativeTables"]

_AT_ONCE = 500


class NativeRow(NamedTuple):
    """One key.

    Args:
        owner: The task instance, or the asset by name and URI.
        key: The key.
        text: The value as Airflow writes it: JSON with spaces, ASCII only.
        expires_at: When Airflow may remove it (aware, UTC); `None`: never.
        writer: Who wrote it last, where Airflow knows: it does for assets.
    """

    owner: TaskScope | AssetScope
    key: str
    text: str
    expires_at: datetime | None = None
    writer: Writer | None = None


class NativeTables:
    """Reads and writes the two tables, in a transaction of Airflow's.

    Args:
        session: A session of Airflow's.

    Raises:
        ConfigurationError: This version of Airflow has no such tables.
    """

    def __init__(self, session: Any) -> None:
        try:
            from airflow.models.asset_state_store import AssetStateStoreModel
            from airflow.models.task_state_store import TaskStateStoreModel
        except ImportError:
            from airflow import __version__ as version

            raise ConfigurationError(f"Airflow {version} has no stores of its own; 3.3 and later have") from None
        from airflow.models.asset import AssetModel

        self._session = session
        self._task, self._asset, self._assets = TaskStateStoreModel, AssetStateStoreModel, AssetModel

    def rows(self, dag_id: str | None = None) -> Iterator[NativeRow]:
        """Give the keys of all task instances, each one's together; then, unless a DAG is named, those of all assets."""
        task = self._task
        order = (task.dag_id, task.run_id, task.task_id, task.map_index, task.key)
        query = self._session.query(*order, task.value, task.expires_at).order_by(*order)
        if dag_id is not None:
            query = query.filter(task.dag_id == dag_id)
        for *scope, key, text, expires_at in query.yield_per(_AT_ONCE):
            yield NativeRow(TaskScope(*scope), key, text, expires_at)
        if dag_id is None:
            yield from self._asset_rows()

    def _asset_rows(self) -> Iterator[NativeRow]:
        row, asset = self._asset, self._assets
        query = self._session.query(row, asset.name, asset.uri).join(asset, asset.id == row.asset_id)
        for one, name, uri in query.order_by(row.asset_id, row.key).yield_per(_AT_ONCE):
            yield NativeRow(AssetScope(name=name, uri=uri), one.key, one.value, None, _writer(one))

    def text(self, owner: TaskScope | AssetScope, key: str) -> str | None:
        """Return the text that is there, if one is."""
        if isinstance(owner, TaskScope):
            row = self._task
            where = {name: getattr(owner, name) for name in ("dag_id", "run_id", "task_id", "map_index")}
        else:
            row = self._asset
            where = {"asset_id": self.asset_id(owner)}
        found = self._session.query(row.value).filter_by(key=key, **where).one_or_none()
        return None if found is None else str(found[0])

    def put(self, row: NativeRow) -> None:
        """Write a key as Airflow does. Its run, or its asset, must be there."""
        from airflow._shared.state import AssetScope as NativeAsset
        from airflow._shared.state import AssetStateStoreWriterKind as Kind
        from airflow._shared.state import TaskScope as NativeTask
        from airflow.state.metastore import MetastoreBackend

        backend, owner, writer = MetastoreBackend(), row.owner, row.writer
        if isinstance(owner, TaskScope):
            scope = NativeTask(owner.dag_id, owner.run_id, owner.task_id, owner.map_index)
            backend.set(scope, row.key, row.text, expires_at=row.expires_at, session=self._session)
            return
        by_task = writer is not None and writer.kind == "task"
        fields = {name: getattr(writer, name) if by_task else None for name in ("dag_id", "run_id", "task_id", "map_index")}
        kind = Kind(writer.kind if writer is not None and writer.kind in ("task", "watcher") else "api")
        asset = NativeAsset(asset_id=self.asset_id(owner))
        backend.set_asset_state_store(asset, row.key, row.text, kind=kind, session=self._session, **fields)

    def asset_id(self, owner: AssetScope) -> int | None:
        """Return Airflow's number of an asset; `None` if it has none, or several that fit."""
        asset = self._assets
        query = self._session.query(asset.id)
        for where in (
            (asset.name == owner.name, asset.uri == owner.uri),
            (asset.name == owner.name,),
            (asset.uri == owner.uri,),
        ):
            found = query.filter(*where).all()
            if len(found) == 1:
                return int(found[0][0])
        return None


def _writer(row: Any) -> Writer | None:
    kind = row.last_updated_by_kind
    if kind == "task":
        names = ("dag_id", "run_id", "task_id", "map_index")
        return Writer("task", attempt=0, **{name: getattr(row, f"last_updated_by_{name}") for name in names})
    return Writer(kind) if kind in ("watcher", "api") else None
