"""How the arguments of a task function are checked at load and put together at run time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.sdk.context import CONTEXT_KEYS, FOREIGN_KEYS
from milepost.sdk.errors import DagDefinitionError

if TYPE_CHECKING:
    from milepost.sdk.location import Location

__all__ = ["awaited", "call", "check_call", "returns_dict"]

_KEYS = ", ".join(sorted(CONTEXT_KEYS))


def check_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    names: Iterable[str],
    task: str,
    where: Location,
    *,
    complete: bool = True,
) -> None:
    """Check that a function can be called with these arguments and what the context adds.

    Args:
        function: The task's function.
        args: The positional arguments.
        names: The names of the keyword arguments.
        task: The task's id, for messages.
        where: The line of the call, for messages.
        complete: Whether these are all; otherwise missing ones are no fault.

    Raises:
        DagDefinitionError: An argument is missing, unknown, given twice, or a context key that there is not.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*args, **dict.fromkeys(names))
    except TypeError as error:
        raise DagDefinitionError(f"the call of task {task!r} does not fit its function: {error}", where) from None
    for name, parameter in signature.parameters.items():
        if name in bound.arguments or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if name in CONTEXT_KEYS and parameter.kind is not parameter.POSITIONAL_ONLY:
            continue
        if name in FOREIGN_KEYS and parameter.default in (None, parameter.empty):
            raise DagDefinitionError(
                f"task {task!r} asks for {name!r} from the context, which has only {_KEYS}",
                where,
            )
        if complete and parameter.default is parameter.empty:
            raise DagDefinitionError(f"the call of task {task!r} lacks the argument {name!r}", where)


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
    """Call a task's function; what it does not get by name comes from the context.

    Args:
        function: The task's function.
        args: The positional arguments.
        kwargs: The keyword arguments; they win over the context.
        context: The context; ``**name`` in the function gets all of it.

    Returns:
        What the function returned; a coroutine if it is ``async``.
    """
    signature = inspect.signature(function)
    given = signature.bind_partial(*args, **kwargs).arguments
    named = dict(kwargs)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named = {
                **{key: value for key, value in context.items() if key not in signature.parameters},
                **named,
            }
        elif parameter.kind is not parameter.POSITIONAL_ONLY and name in context and name not in given:
            named[name] = context[name]
    return function(*args, **named)


def awaited(result: Any) -> Any:
    """Return a result, of a coroutine what it returns."""
    if not hasattr(result, "__await__"):
        return result
    import asyncio

    return asyncio.run(_wait_for(result))


async def _wait_for(awaitable: Any) -> Any:
    return await awaitable


def returns_dict(function: Callable[..., Any]) -> bool:
    """Tell whether a function says by its annotation that it returns a dict."""
    found = getattr(function, "__annotations__", {}).get("return")
    if isinstance(found, str):
        # Only the head is looked at: to evaluate it could fail on names that are for type checkers only.
        head = found.partition("[")[0].strip().rpartition(".")[2]
        return head in {"dict", "Dict", "Mapping", "MutableMapping"}
    kind = getattr(found, "__origin__", found)
    return isinstance(kind, type) and issubclass(kind, Mapping)
