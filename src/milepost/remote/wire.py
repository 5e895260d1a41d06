"""How calls, answers and errors travel over HTTP: as JSON, derived from the types of their fields.

A call is ``[name, field, …]``, its fields in the order of the dataclass; records are lists of their fields too. Values
are the JSON text that rows hold, as a string. What comes in at a server is checked field by field: a wrong type, a
missing field or a text that breaks a rule is an `InvalidValueError` that names the place.
"""

from __future__ import annotations

import base64
import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from milepost.calls import PLAIN, Call, Handle, Item
from milepost.clock import MAX_MICROS, MIN_MICROS
from milepost.errors import InvalidKeyError, InvalidValueError
from milepost.scopes import AssetScope, TaskScope
from milepost.values import check_json

__all__ = [
    "NOTE_HEADER",
    "TOKEN_HEADER",
    "Check",
    "Load",
    "Types",
    "answer_reader",
    "dump_answer",
    "dump_call",
    "dumps",
    "name_of",
]

Load = Callable[[Any, str], Any]
Dump = Callable[[Any], Any]
Check = Callable[[Any], Any]

TOKEN_HEADER: Final = "milepost-token"  # noqa: S105  (a name)
"""The header of an answer that brings the token of an attempt that has opened."""

NOTE_HEADER: Final = "milepost-note"
"""The header of an answer that says more than the answer: ``deactivated``, of the asset that was read."""

_INT64: Final = 2**63
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dumps(thing: Any) -> bytes:
    """Return compact JSON in UTF-8."""
    return _compact(thing).encode()


def name_of(call: Call[Any]) -> str:
    """Return the name under which a call travels."""
    return type(call).__name__


# -- types ----------------------------------------------------------------------------------------------------------


def _bad(place: str, wanted: str, given: Any) -> InvalidValueError:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return InvalidValueError(f"{place} must be {wanted}, not {kinds.get(type(given), 'a number')}")


def _load_str(raw: Any, place: str) -> str:
    if type(raw) is not str:
        raise _bad(place, "a text", raw)
    if "\0" in raw:
        raise InvalidKeyError(f"{place} must not contain NUL")
    if not raw.isascii():
        try:
            raw.encode()
        except UnicodeEncodeError as error:
            raise InvalidKeyError(f"{place} must not contain a lone surrogate (position {error.start})") from None
    return raw


def _load_int(raw: Any, place: str) -> int:
    if type(raw) is not int:
        raise _bad(place, "a whole number", raw)
    if not -_INT64 <= raw < _INT64:
        raise InvalidValueError(f"{place} must have at most 64 bits")
    return raw


def _load_float(raw: Any, place: str) -> float:
    if type(raw) not in (int, float):
        raise _bad(place, "a number", raw)
    try:
        number = float(raw)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValueError(f"{place} must be finite")
    return number


def _load_number(raw: Any, place: str) -> int | float:
    """Load a number of either kind, exactly: integers of any size."""
    return raw if type(raw) is int else _load_float(raw, place)


def _load_bool(raw: Any, place: str) -> bool:
    if type(raw) is not bool:
        raise _bad(place, "true or false", raw)
    return raw


def _load_none(raw: Any, place: str) -> None:
    if raw is not None:
        raise _bad(place, "null", raw)


def _load_datetime(raw: Any, place: str) -> datetime:
    from milepost.clock import from_micros

    number = _load_int(raw, place)
    if not MIN_MICROS <= number <= MAX_MICROS:
        raise InvalidValueError(f"{place} is no instant")
    return from_micros(number)


def _dump_datetime(moment: datetime) -> int:
    from milepost.clock import to_micros

    return to_micros(moment)


def _load_cell(raw: Any, place: str) -> Any:
    """Load what a cell of a row holds: also bytes, where somebody damaged it."""
    if type(raw) is dict:
        if list(raw) == ["bytes"] and type(raw["bytes"]) is str:
            try:
                return base64.b64decode(raw["bytes"], validate=True)
            except ValueError:
                raise InvalidValueError(f"{place} holds no base64") from None
        if list(raw) == ["float"] and raw["float"] in ("inf", "-inf"):
            return float(raw["float"])
        raise _bad(place, "a cell of a row", raw)
    if type(raw) is list:
        raise _bad(place, "a cell of a row", raw)
    return raw if raw is None or type(raw) in (bool, str) else _load_number(raw, place)


def _dump_cell(cell: Any) -> Any:
    if type(cell) in (str, int, type(None), bool):
        return cell
    if isinstance(cell, bytes | bytearray | memoryview):
        return {"bytes": base64.b64encode(bytes(cell)).decode()}
    if type(cell) is float and math.isinf(cell):
        return {"float": str(cell)}
    return cell


class Codec(typing.NamedTuple):
    """How the values of one type travel; ``dump`` is `None` where they travel as they are."""

    load: Load
    dump: Dump | None


_SIMPLE: Final[dict[Any, Codec]] = {
    str: Codec(_load_str, None),
    int: Codec(_load_int, None),
    float: Codec(_load_float, None),
    bool: Codec(_load_bool, None),
    type(None): Codec(_load_none, None),
    Any: Codec(_load_cell, _dump_cell),
    datetime: Codec(_load_datetime, _dump_datetime),
}


class Types:
    """Makes the codec of every type that calls and answers are made of.

    Args:
        limit: The most bytes of a value; 0: no limit. `None`: what comes in is an answer, which a server has checked.
        checks: The rules for fields by name, where there is a limit.
    """

    def __init__(self, limit: int | None, checks: Mapping[str, Check] | None = None) -> None:
        self.limit = limit
        self._checks = checks or {}
        self._made: dict[Any, Codec] = {}

    def of(self, hint: Any) -> Codec:
        """Return the codec of a type."""
        if hint in _SIMPLE:
            return _SIMPLE[hint]
        if hint not in self._made:
            self._made[hint] = self._make(hint)
        return self._made[hint]

    def _make(self, hint: Any) -> Codec:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if origin is Literal:
            return _literal(arguments) if self.limit is not None else Codec(_load_cell, None)  # it may be damaged
        if origin in (list, Sequence):
            return self._list(arguments[0], list)
        if origin is tuple:
            return self._list(arguments[0], tuple) if arguments[-1] is ... else self._tuple(arguments)
        if origin in (dict, Mapping):
            return self._dict(*arguments)
        if hint is Handle:
            return self._handle()
        if hint is Item:
            return self._record(Item, self._item)
        if is_dataclass(hint) or hasattr(hint, "_fields"):
            return self._record(hint)
        raise TypeError(f"{hint!r} has no form on the wire")

    def _union(self, options: tuple[Any, ...]) -> Codec:
        some = [option for option in options if option is not type(None)]
        optional = len(some) < len(options)
        if set(some) == {int, float}:
            inner = Codec(_load_number, None)
        elif set(some) == {TaskScope, AssetScope}:
            inner = self._scope()
        elif len(some) == 1:
            inner = self.of(some[0])
        else:
            raise TypeError(f"{options!r} has no form on the wire")
        load, dump = inner
        if not optional:
            return inner
        return Codec(
            lambda raw, place: None if raw is None else load(raw, place),
            None if dump is None else lambda thing: None if thing is None else dump(thing),
        )

    def _scope(self) -> Codec:
        task, asset = self.of(TaskScope), self.of(AssetScope)

        def load(raw: Any, place: str) -> Any:
            return (task if type(raw) is list and len(raw) == 4 else asset).load(raw, place)

        def dump(scope: Any) -> Any:
            if type(scope) is TaskScope:
                return [scope.dag_id, scope.run_id, scope.task_id, scope.map_index]
            return [scope.asset_id, scope.name, scope.uri]

        return Codec(load, dump)

    def _list(self, hint: Any, kind: type) -> Codec:
        load, dump = self.of(hint)

        def load_all(raw: Any, place: str) -> Any:
            if type(raw) is not list:
                raise _bad(place, "a list", raw)
            return kind(load(one, f"{place}[{number}]") for number, one in enumerate(raw))

        return Codec(load_all, list if dump is None else lambda things: [dump(one) for one in things])

    def _tuple(self, hints: tuple[Any, ...]) -> Codec:
        codecs = [self.of(hint) for hint in hints]

        def load(raw: Any, place: str) -> Any:
            if type(raw) is not list or len(raw) != len(codecs):
                raise _bad(place, f"a list of {len(codecs)}", raw)
            return tuple(
                one.load(part, f"{place}[{number}]") for number, (one, part) in enumerate(zip(codecs, raw, strict=True))
            )

        def dump(things: Any) -> Any:
            return [part if one.dump is None else one.dump(part) for one, part in zip(codecs, things, strict=True)]

        return Codec(load, dump)

    def _dict(self, key: Any, value: Any) -> Codec:
        pairs = self._list(tuple[key, value], list)
        assert pairs.dump is not None
        dump = pairs.dump
        return Codec(lambda raw, place: dict(pairs.load(raw, place)), lambda thing: dump(thing.items()))

    def _handle(self) -> Codec:
        scope = self._scope()
        assert scope.dump is not None
        dump_scope = scope.dump
        hints = (str, bool, int | None, int | None, int | None, int | None, bool)
        rest = self._tuple(hints)

        check = self._checks.get("writer")

        def load(raw: Any, place: str) -> Handle:
            if type(raw) is not list or len(raw) != 8:
                raise _bad(place, "a handle: a list of 8", raw)
            writer, logged, instance_id, fence, attempt, owner_id, fixed = rest.load(raw[1:], place)
            if check is not None:
                writer = check(writer)
            return Handle(
                scope.load(raw[0], f"{place}.scope"),
                writer,
                logged=logged,
                instance_id=instance_id,
                fence=fence,
                attempt=attempt,
                owner_id=owner_id,
                fixed=fixed,
            )

        def dump(handle: Handle) -> Any:
            return [
                dump_scope(handle.scope),
                handle.writer,
                handle.logged,
                handle.instance_id,
                handle.fence,
                handle.attempt,
                handle.owner_id,
                handle.fixed,
            ]

        return Codec(load, dump)

    def _item(self, item: Item) -> Item:
        """Check an item that somebody wants to have written; its text is brought into the one form that rows hold."""
        if self.limit is None or item.encoding != PLAIN:
            return item
        return item._replace(text=check_json(item.text, self.limit))

    def _record(self, cls: type, settle: Callable[[Any], Any] | None = None) -> Codec:
        hints = get_type_hints(cls)
        names = cls._fields if hasattr(cls, "_fields") else tuple(field.name for field in fields(cls))
        parts = [(name, self.of(hints[name]), self._checks.get(name)) for name in names]
        dumps_ = [(name, codec.dump) for name, codec, _ in parts]

        def load(raw: Any, place: str) -> Any:
            if type(raw) is not list or len(raw) != len(parts):
                raise _bad(place, f"a list of {len(parts)}: {', '.join(names)}", raw)
            values = []
            for (name, codec, check), part in zip(parts, raw, strict=True):
                value = codec.load(part, f"{place}.{name}")
                values.append(value if check is None or value is None else check(value))
            made = cls(*values)
            return made if settle is None else settle(made)

        def dump(thing: Any) -> Any:
            return [getattr(thing, name) if part is None else part(getattr(thing, name)) for name, part in dumps_]

        return Codec(load, dump)


def _literal(options: tuple[Any, ...]) -> Codec:
    def load(raw: Any, place: str) -> Any:
        if type(raw) is not str or raw not in options:
            raise InvalidValueError(f"{place} must be one of {', '.join(map(str, options))}")
        return raw

    return Codec(load, None)


# -- calls ------------------------------------------------------------------------------------------------------------


_answers = Types(None)
_dumps: dict[type[Call[Any]], Dump] = {}
_results: dict[type[Call[Any]], Codec] = {}


def dump_call(call: Call[Any]) -> list[Any]:
    """Return a call as it travels."""
    cls = type(call)
    if cls not in _dumps:
        dump = _answers.of(cls).dump
        assert dump is not None
        _dumps[cls] = dump
    return [cls.__name__, *_dumps[cls](call)]


def _result(cls: type[Call[Any]]) -> Codec:
    if cls not in _results:
        base = next(base for base in cls.__orig_bases__ if get_origin(base) is Call)  # type: ignore[attr-defined]
        hint = get_args(base)[0]
        _results[cls] = _answers.of(type(None) if hint is None else hint)
    return _results[cls]


def dump_answer(call: Call[Any], answer: Any) -> Any:
    """Return the answer to a call as it travels."""
    dump = _result(type(call)).dump
    return answer if dump is None else dump(answer)


def answer_reader(call: Call[Any]) -> Load:
    """Return what turns the answer to a call back into what the metastore of the server returned."""
    return _result(type(call)).load
