"""Backends against the contract that `milepost.testing` hands to their authors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost import BaseStateBackend
from milepost.testing import BackendContract
from tests.docs.pages import DOCS, blocks
from tests.support.backends import DictBackend, ListingBackend
from tests.support.file_backend import CollectingFileBackend, FileBackend


class TestFileBackend(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> FileBackend:
        """A backend with nothing but the eight methods."""
        return FileBackend(tmp_path)


class TestCollectingFileBackend(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> FileBackend:
        """A backend that also lists and collects."""
        return CollectingFileBackend(tmp_path)


class TestDictBackend(BackendContract):
    @pytest.fixture
    def backend(self) -> DictBackend:
        """A backend over one dict."""
        DictBackend.reset()
        return DictBackend()


class TestNeverExpires(BackendContract):
    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch) -> ListingBackend:
        """A backend whose `set` takes `never_expires`; its cleanup() only takes notes, so it counts as none here."""
        DictBackend.reset()
        monkeypatch.setattr(ListingBackend, "cleanup", FileBackend.cleanup)
        return ListingBackend()


class TestDocumentedBackend(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaseStateBackend:
        """The backend that the documentation shows."""
        monkeypatch.chdir(tmp_path)
        page = blocks(DOCS / "howto" / "custom-backend.md")
        names: dict[str, Any] = {}
        exec(next(block.text for block in page if block.mark == "file: folder_backend.py"), names)
        return names["FolderBackend"]()  # type: ignore[no-any-return]
