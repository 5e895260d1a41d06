"""Scopes and keys (SPEC 1 and 2)."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import Asset, AssetAlias, AssetRef, AssetScope, InvalidKeyError, TaskScope, UnsupportedTypeError
from milepost.references import asset_scope, is_alias
from milepost.scopes import check_key, key_text, prefix_end, run_hash

GOOD = [
    *("a", "A", "é", "e\u0301", "k ", " k", "k\t", "k\n", "a/b", "/lead", "trail/", "a//b", "a%2Fb", "a b", "a+b"),
    *("d#draft", "d?x=1", "a&b=c", "50%", ";", ".", "..", "👍", "ß", "\ufeff", "\uffff", "\U0010ffff", "\x01", "\x7f"),
]
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


class Name(str):
    """A str that is more than a str."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return something else than the text."""
        return "other"


@pytest.mark.parametrize("key", [*GOOD, "x" * 512, "漢" * 512], ids=lambda key: repr(key)[:12])
def test_s04_s05_s11_s12_ordinary_keys(key: str) -> None:
    """S-04, S-05, S-11, S-12: slashes, URL characters, blanks, accents and emoji are ordinary and stay as they are."""
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "a\0", "\0", "\ud83d", "\udce9.csv", "x" * 513, "漢" * 513], ids=lambda k: repr(k)[:12])
def test_s07_bad_keys(key: str) -> None:
    """S-07: empty and overlong keys, NUL and lone surrogates are InvalidKeyError, which is a ValueError."""
    with pytest.raises(InvalidKeyError, match=r"^key") as caught:
        check_key(key)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 200
    str(caught.value).encode()


@pytest.mark.parametrize("key", [None, 1, b"k", ["k"], 1.5, object()], ids=lambda key: type(key).__name__)
def test_a_key_is_a_str(key: Any) -> None:
    """What is no str is TypeError that names the type."""
    with pytest.raises(UnsupportedTypeError, match=type(key).__name__):
        check_key(key)


def test_str_subclasses_become_plain_text() -> None:
    """An instance of a str subclass is taken for its text, whatever its own __str__ says."""
    for text in ("key", "é", "x" * 512):
        plain = check_key(Name(text))
        assert plain == text
        assert type(plain) is str


@given(KEYS, KEYS)
def test_prefix_end_bounds_exactly_the_prefix(prefix: str, key: str) -> None:
    """A key starts with a prefix if and only if it lies in [prefix, prefix_end(prefix))."""
    end = prefix_end(prefix)
    for text in (key, prefix + key, prefix[:-1] + key):
        assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))
    if end is not None:
        end.encode()


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("", None),
        ("a", "b"),
        ("az", "a{"),
        ("\ud7ff", "\ue000"),
        ("a\ud7ff", "a\ue000"),
        ("\uffff", "\U00010000"),
        ("\U0010ffff", None),
        ("\U0010ffff\U0010ffff", None),
        ("a\U0010ffff", "b"),
        ("\ud7ff\U0010ffff", "\ue000"),
        ("\x7f", "\x80"),
    ],
)
def test_prefix_end_skips_surrogates(prefix: str, end: str | None) -> None:
    """The bound never is a surrogate, and there is none above the last code point."""
    assert prefix_end(prefix) == end


def test_hashes_of_look_alikes_differ() -> None:
    """Scopes whose ids look alike, or whose texts join to the same text, have different hashes."""
    parts = ["a", "ab", "b", "1", "11", "a:b", "1:a", "a1:b", "a/b", "A", "é", "e\u0301", "-1"]
    scopes = [TaskScope(*ids, index) for ids in product(parts, repeat=3) for index in (-1, 0, 1, 11)]
    assert len({scope.hash for scope in scopes}) == len(scopes)
    runs = list(product(parts, repeat=2))
    assert len({run_hash(*run) for run in runs}) == len(runs)
    assert len(scopes[0].hash) == 16
    assets = [AssetScope(number, name) for number in (1, 11, 111) for name in (None, "a", "1")]
    assert len({asset.hash for asset in assets}) == 3
    assert {asset.hash for asset in assets}.isdisjoint(scope.hash for scope in scopes)


def test_hashes_stay_as_they_are() -> None:
    """Rows and users' own backends hold hashes, so no release may change them; an asset without a number has none."""
    assert TaskScope("d", "r", "t", 3).hash.hex() == "9a7a8f27c3e8d219ce5c60ee0e92d70b"
    assert AssetScope(7, "a", "b").hash.hex() == "4407e66d869474473772b81dcbf21d66"
    with pytest.raises(InvalidKeyError, match="asset_id"):
        AssetScope(name="a").hash  # noqa: B018


def test_task_scope_is_a_value() -> None:
    """A TaskScope is frozen, hashable, picklable, equal by its parts and reads well."""
    scope = TaskScope("d", "r", "t", 3)
    assert scope == TaskScope("d", "r", "t", 3)
    assert hash(scope) == hash(TaskScope("d", "r", "t", 3))
    assert pickle.loads(pickle.dumps(scope)) == scope
    assert TaskScope("d", "r", "t").map_index == -1
    assert str(scope) == "d/r/t[3]"
    assert str(TaskScope("d", "r", "t")) == "d/r/t"
    with pytest.raises(AttributeError):
        scope.dag_id = "x"  # type: ignore[misc]


@pytest.mark.parametrize("place", range(3))
def test_ids_obey_the_rules_of_keys(place: int) -> None:
    """Dag, run and task ids are non-empty, at most 250 characters, without NUL and lone surrogates."""
    ids: list[Any] = ["d", "r", "t"]
    for bad in ("", "a\0", "\ud83d", "x" * 251):
        ids[place] = bad
        with pytest.raises(InvalidKeyError, match=("dag_id", "run_id", "task_id")[place]):
            TaskScope(*ids)
    for wrong in (None, 1, b"x"):
        ids[place] = wrong
        with pytest.raises(TypeError, match=("dag_id", "run_id", "task_id")[place]):
            TaskScope(*ids)
    ids[place] = "漢" * 250
    TaskScope(*ids)


def test_s23_map_indices() -> None:
    """S-23: a map index is an int from -1 to 2**31-1."""
    for good in (-1, 0, 2**31 - 1):
        assert TaskScope("d", "r", "t", good).map_index == good
    for bad in (-2, 2**31, 2**63, -(2**63)):
        with pytest.raises(InvalidKeyError, match="map_index"):
            TaskScope("d", "r", "t", bad)
    for wrong in ("x", "1", 1.0, True, None):
        with pytest.raises(TypeError, match="map_index"):
            TaskScope("d", "r", "t", wrong)  # type: ignore[arg-type]


def test_asset_scope_rules() -> None:
    """An AssetScope has at least one of id, name and URI; ids are positive ints, texts at most 1,500 characters."""
    assert AssetScope(1).asset_id == 1
    assert AssetScope(name="x" * 1_500) == AssetScope(name="x" * 1_500)
    with pytest.raises(InvalidKeyError, match="needs"):
        AssetScope()
    for bad in (0, -1, 2**63):
        with pytest.raises(InvalidKeyError, match="asset_id"):
            AssetScope(bad)
    for wrong in (True, "1", 1.0):
        with pytest.raises(TypeError, match="asset_id"):
            AssetScope(wrong)  # type: ignore[arg-type]
    for text in ("", "a\0", "\ud83d", "x" * 1_501):
        for field in ("name", "uri"):
            with pytest.raises(InvalidKeyError, match="asset"):
                AssetScope(**{field: text})
    assert str(AssetScope(1)) == "#1"
    assert str(AssetScope(1, "n", "u")) == "n (u)"
    assert str(AssetScope(1, "n", "n")) == "n"


def test_assets_fill_the_missing_name() -> None:
    """An Asset takes its URI from its name and the reverse; group, extra and watchers have no effect on identity."""
    assert Asset("a") == Asset(uri="a") == Asset("a", "a")
    assert Asset("a", group="x", extra={"k": 1}, watchers=[1]) == Asset("a")
    assert hash(Asset("a", extra={"k": 1})) == hash(Asset("a"))
    assert Asset("a") != Asset("a", "b")
    with pytest.raises(ValueError, match="name or a URI"):
        Asset()
    for bad in ({}, {"name": "a", "uri": "b"}):
        with pytest.raises(ValueError, match="exactly one"):
            AssetRef(**bad)
    assert Asset.ref(name="a") == AssetRef(name="a")


def test_what_counts_as_an_asset() -> None:
    """Assets, references and scopes are assets, and so is what has Airflow's attributes; texts, classes, aliases are not.

    A dataset of Airflow 2 has its URI for a name.
    """

    class Dataset:
        uri = "s3://x"

    class DatasetAlias:
        name = "x"

    assert asset_scope(Asset("a", "b")) == AssetScope(name="a", uri="b")
    assert asset_scope(AssetRef(uri="b")) == AssetScope(uri="b")
    assert asset_scope(AssetScope(7)) == AssetScope(7)
    assert asset_scope(Dataset()) == AssetScope(name="s3://x", uri="s3://x")
    assert is_alias(AssetAlias("x"))
    assert is_alias(DatasetAlias())
    assert not is_alias(Asset("x"))
    for wrong in ("s3://x", Asset, Dataset, AssetAlias("x"), DatasetAlias(), None, 1, TaskScope("a", "b", "c")):
        with pytest.raises(UnsupportedTypeError, match="not an asset"):
            asset_scope(wrong)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("é", "é"), (b"\xc3\xa9", "é"), (b"a\xff", "a\\xff"), (memoryview(b"k"), "k"), (b"", ""), (5, "5"), (None, "None")],
)
def test_a_key_that_someone_damaged_can_be_shown(stored: Any, shown: str) -> None:
    """Whatever stands in the place of a key has a text, and a number does not become as many NULs."""
    assert key_text(stored) == shown
