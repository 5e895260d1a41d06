"""Who owns a key: task instances and assets; and what a key may look like."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from milepost.errors import InvalidKeyError, UnsupportedTypeError

__all__ = [
    "MAX_ASSET_CHARS",
    "MAX_ID_CHARS",
    "MAX_KEY_CHARS",
    "MAX_MAP_INDEX",
    "AssetScope",
    "Scope",
    "TaskScope",
    "activate_command",
    "check_key",
    "check_text",
    "copy_command",
    "key_text",
    "prefix_end",
    "restore_command",
    "run_hash",
]

MAX_KEY_CHARS = 512
MAX_ID_CHARS = 250
MAX_ASSET_CHARS = 1_500
MAX_MAP_INDEX = 2**31 - 1


def check_text(text: object, what: str, limit: int) -> str:
    """Return ``text`` if it obeys the character rules of keys.

    Args:
        text: What the caller gave.
        what: The name to use in an error, as in ``"key"`` or ``"dag_id"``.
        limit: The most characters allowed.

    Returns:
        The text as an exact `str`.

    Raises:
        TypeError: Not a `str`.
        InvalidKeyError: Empty, too long, or with a NUL or a lone surrogate.
    """
    if not isinstance(text, str):
        raise UnsupportedTypeError(f"{what} must be a str, not {type(text).__name__}")
    if not text:
        raise InvalidKeyError(f"{what} must not be empty")
    if len(text) > limit:
        raise InvalidKeyError(f"{what} has {len(text):,} characters and may have {limit}: {text[:40]!r}…")
    if "\0" in text:
        raise InvalidKeyError(f"{what} must not contain NUL: {text!r}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidKeyError(f"{what} must not contain a lone surrogate (position {error.start}): {text!r}") from None
    return text if type(text) is str else str.__str__(text)


def check_key(key: object) -> str:
    """Return ``key`` if it is a valid key.

    Args:
        key: What the caller gave.

    Returns:
        The key as an exact `str`.

    Raises:
        TypeError: Not a `str`.
        InvalidKeyError: Empty, over 512 characters, or with a NUL or a lone surrogate.
    """
    # The one test that covers nearly every key there is.
    if type(key) is str and 0 < len(key) <= MAX_KEY_CHARS and key.isascii() and "\0" not in key:
        return key
    return check_text(key, "key", MAX_KEY_CHARS)


def key_text(key: object) -> str:
    """Return a stored key or name as text, whatever somebody put there: bytes that are no text are escaped."""
    if isinstance(key, str):
        return key
    return bytes(key).decode("utf-8", "backslashreplace") if isinstance(key, bytes | bytearray | memoryview) else str(key)


def prefix_end(prefix: str) -> str | None:
    """Return the least text above every text that starts with ``prefix``.

    Args:
        prefix: A valid text, possibly empty.

    Returns:
        The exclusive upper bound in code point order, or `None` where there is none.
    """
    for end in range(len(prefix), 0, -1):
        last = ord(prefix[end - 1])
        if last < 0x10FFFF:
            following = 0xE000 if last == 0xD7FF else last + 1
            return prefix[: end - 1] + chr(following)
    return None


def _digest(kind: str, *parts: str) -> bytes:
    """Return 16 bytes that stand for the parts; lengths keep ``("a", "bc")`` and ``("ab", "c")`` apart."""
    whole = "".join(f"{len(part)}:{part}" for part in (kind, *parts))
    return blake2b(whole.encode(), digest_size=16).digest()


def run_hash(dag_id: str, run_id: str) -> bytes:
    """Return the 16 bytes under which a run is unique."""
    return _digest("run", dag_id, run_id)


@dataclass(frozen=True, slots=True)
class TaskScope:
    """One task instance.

    Args:
        dag_id: At most 250 characters, by the character rules of keys; so are the next two.
        run_id: The run of the DAG.
        task_id: The task in the DAG.
        map_index: Position in a mapped task, 0 to 2**31-1; -1 means "not mapped".

    Raises:
        TypeError: An id is not a `str`, or ``map_index`` is not an `int`.
        InvalidKeyError: An id or the index breaks the rules.

    .. versionadded:: 0.1
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __post_init__(self) -> None:
        check_text(self.dag_id, "dag_id", MAX_ID_CHARS)
        check_text(self.run_id, "run_id", MAX_ID_CHARS)
        check_text(self.task_id, "task_id", MAX_ID_CHARS)
        if type(self.map_index) is not int:
            raise UnsupportedTypeError(f"map_index must be an int, not {type(self.map_index).__name__}")
        if not -1 <= self.map_index <= MAX_MAP_INDEX:
            raise InvalidKeyError(f"map_index must be -1 (not mapped) to {MAX_MAP_INDEX}, got {self.map_index}")

    @property
    def hash(self) -> bytes:
        """The 16 bytes under which the instance is unique, the same in every process and every release."""
        return _digest("task", self.dag_id, self.run_id, self.task_id, str(self.map_index))

    def __str__(self) -> str:
        index = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{index}"


@dataclass(frozen=True, slots=True)
class AssetScope:
    """One asset, by any of its three names.

    Args:
        asset_id: The positive number that the store gave it.
        name: At most 1,500 characters, by the character rules of keys; so is the URI.
        uri: The URI, as it was declared.

    Raises:
        TypeError: A part has the wrong type.
        InvalidKeyError: A part breaks the rules.
        ValueError: None of the three is given.

    .. versionadded:: 0.1
    """

    asset_id: int | None = None
    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if self.asset_id is None and self.name is None and self.uri is None:
            raise InvalidKeyError("an asset needs an id, a name or a URI")
        if self.asset_id is not None:
            if type(self.asset_id) is not int:
                raise UnsupportedTypeError(f"asset_id must be an int, not {type(self.asset_id).__name__}")
            if not 0 < self.asset_id < 2**63:
                raise InvalidKeyError(f"asset_id must be positive and below 2**63, got {self.asset_id}")
        if self.name is not None:
            check_text(self.name, "asset name", MAX_ASSET_CHARS)
        if self.uri is not None:
            check_text(self.uri, "asset URI", MAX_ASSET_CHARS)

    @property
    def hash(self) -> bytes:
        """The 16 bytes under which the asset is unique in its database.

        They stand for its number, since names can be added later. They are the same in every process and every release, and
        never those of a task instance.

        Raises:
            ValueError: The scope has no ``asset_id``. Those that a backend gets always have one.
        """
        if self.asset_id is None:
            raise InvalidKeyError(f"asset {self} has a hash only with its asset_id")
        return _digest("asset", str(self.asset_id))

    def __str__(self) -> str:
        if self.name is not None and self.uri is not None and self.name != self.uri:
            return f"{self.name} ({self.uri})"
        return self.name or self.uri or f"#{self.asset_id}"


def activate_command(asset: AssetScope) -> str:
    """Return the command that activates an asset, as it can be typed."""
    return f"milepost assets activate {_typed(asset, '--uri')}"


def copy_command(source: AssetScope, target: AssetScope) -> str:
    """Return the command that copies the state of one asset to another, as it can be typed."""
    return f"milepost asset-store copy {_typed(source, '--uri')} {_typed(target, '--to-uri')}"


def restore_command(scope: TaskScope) -> str:
    """Return the command that brings back what was set aside for a task instance, as it can be typed."""
    import shlex

    index = ["--map-index", str(scope.map_index)] if scope.map_index >= 0 else []
    return shlex.join(["milepost", "task-store", "restore", scope.dag_id, scope.run_id, scope.task_id, *index])


def _typed(asset: AssetScope, option: str) -> str:
    import shlex

    name, uri = asset.name or asset.uri or "", asset.uri
    return shlex.join([name] if uri in (None, name) else [name, option, str(uri)])


Scope = TaskScope | AssetScope
