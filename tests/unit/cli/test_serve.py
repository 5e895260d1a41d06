"""`milepost serve` where its packages are not."""

from __future__ import annotations

from importlib import metadata

import pytest

from milepost.cli import main


def test_packages_that_are_missing_or_too_old_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`serve` leaves with 2 and says in one line which packages it needs, which are here, and how to install them."""
    installed = metadata.version

    def version(name: str) -> str:
        if name == "pyjwt":
            raise metadata.PackageNotFoundError(name)
        return {"uvicorn": "0.41.0"}.get(name) or installed(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(SystemExit) as left:
        main(["serve", "--port", "0"])
    err = capsys.readouterr().err
    assert (left.value.code, err.count("\n")) == (2, 1)
    assert "needs pyjwt>=2.8 (is missing), uvicorn>=0.54 (0.41.0 is here): pip install 'milepost[server]'" in err
