"""Finds triggers that store their cursor before they yield: killed in between, they lose an event.

Works on the source of ``run()`` alone, so it sees the usual ways to write such a trigger, not every way.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Finding", "check_source", "check_triggers"]

_STORES: Final = frozenset({"asset_store", "asset_state_store"})
_WRITES: Final = frozenset(
    prefix + name
    for name in ("set", "set_many", "compare_and_set", "increment", "update", "advance")
    for prefix in ("", "a")
)
"""Calls that move a cursor. `set_default` is left out: it gives one its first position."""

_DEPTH: Final = 4
"""How deep calls of the trigger's own methods are followed."""


class Finding(NamedTuple):
    """A cursor that is stored too early.

    Args:
        file: The file.
        line: The line that stores it.
        yielded: The line that yields after it.
        trigger: The class.
    """

    file: str
    line: int
    yielded: int
    trigger: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.trigger} stores its cursor here, before it yields in line {self.yielded}; "
            "killed in between, it never sees that event again: yield first, then store the cursor"
        )


def check_triggers(triggers: Iterable[Any]) -> list[Finding]:
    """Look through the classes of triggers, each once.

    Args:
        triggers: The triggers.
    """
    found: dict[Finding, None] = {}
    for cls in dict.fromkeys(type(trigger) for trigger in triggers):
        found.update(dict.fromkeys(_check(cls)))
    return sorted(found)


def _check(cls: type[Any]) -> list[Finding]:
    source = _source(cls.run)
    if source is None:
        return []
    file, first, text = source
    return check_source(text, file=file, first=first, trigger=cls.__name__, cls=cls)


def _source(function: Any) -> tuple[str, int, str] | None:
    """Return file, number of the first line and text of a function; `None` where there is no source of it."""
    try:
        lines, first = inspect.getsourcelines(function)
        return inspect.getsourcefile(function) or "?", first, "".join(lines)
    except (OSError, TypeError, SyntaxError):
        return None


def _parse(text: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return a function from its source as it stands in its file; `None` if it is no definition, but a lambda or a part.

    The indentation stays, as text in several lines may begin left of it; a line before the first takes it up.
    """
    try:
        body = ast.parse(f"if True:\n{text}" if text[:1].isspace() else f"\n{text}").body
    except SyntaxError:
        return None
    node = body[0].body[0] if isinstance(body[0], ast.If) else body[0]
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def check_source(text: str, *, file: str, first: int, trigger: str, cls: type[Any] | None = None) -> list[Finding]:
    """Look through the source of one ``run()``.

    Args:
        text: The source of the function as it stands in its file; what is no definition of one is not looked at.
        file: Its file.
        first: The number of its first line.
        trigger: The name of the class.
        cls: The class, where calls of its own methods are to be followed.

    Returns:
        What was found, by line.
    """
    function = _parse(text)
    if function is None:
        return []
    before = first - 2  # lines are counted from 1, and `_parse` puts one before them
    walk = _Walk(cls)
    walk.block(function.body, _Path(), loops=0)
    return sorted({Finding(file, write + before, yielded + before, trigger) for write, yielded in walk.found})


@dataclass(slots=True)
class _Path:
    """What happened on the way to a place.

    Args:
        writes: Lines that stored a cursor while nothing had been yielded before them.
        yielded: Whether something was yielded on every way here.
    """

    writes: set[int] = field(default_factory=set)
    yielded: bool = False

    def copy(self) -> _Path:
        return _Path(set(self.writes), self.yielded)


class _Walk:
    """Goes through statements in the order in which they run."""

    def __init__(self, cls: type[Any] | None) -> None:
        self.found: set[tuple[int, int]] = set()
        self._cls = cls
        self._aliases: set[str] = set()

    def block(self, statements: Sequence[ast.stmt], path: _Path | None, *, loops: int) -> _Path | None:
        """Go through statements one after the other; the way out of them, `None` if none leads on."""
        for statement in statements:
            if path is None:
                return None
            path = self._statement(statement, path, loops)
        return path

    def _statement(self, node: ast.stmt, path: _Path, loops: int) -> _Path | None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return path
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, path, loops)
        if isinstance(node, ast.If):
            self._expression(node.test, path)
            return _join(self.block(node.body, path.copy(), loops=loops), self.block(node.orelse, path.copy(), loops=loops))
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self._expression(item.context_expr, path)
            return self.block(node.body, path, loops=loops)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, path, loops)
        if isinstance(node, ast.Match):
            self._expression(node.subject, path)
            out: _Path | None = path.copy()
            for case in node.cases:
                out = _join(out, self.block(case.body, path.copy(), loops=loops))
            return out
        self._expression(node, path)
        self._alias(node)
        return None if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue) else path

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, path: _Path, loops: int) -> _Path:
        self._expression(node.test if isinstance(node, ast.While) else node.iter, path)
        inner = _Path()
        if loops or isinstance(node, ast.For):
            # What is stored right before a loop over what was found is about what the loop yields. Before the loop that
            # never ends, it is the place where the trigger begins.
            inner.writes = set(path.writes)
        after = self.block(node.body, inner, loops=loops + 1)
        for_sure = any(isinstance(part, ast.Yield) for statement in node.body for part in _walk(statement))
        out = path.copy()
        # A loop over what was found yields all of it; over nothing, there is nothing to lose.
        out.yielded = path.yielded or for_sure
        if after is not None and not out.yielded:
            out.writes |= after.writes
        return self.block(node.orelse, out, loops=loops) or out

    def _try(self, node: Any, path: _Path, loops: int) -> _Path | None:
        before = path.copy()
        out = self.block([*node.body, *node.orelse], path, loops=loops)
        for handler in node.handlers:
            out = _join(out, self.block(handler.body, before.copy(), loops=loops))
        return self.block(node.finalbody, out, loops=loops)

    def _expression(self, node: ast.AST, path: _Path) -> None:
        """Take note of what one simple statement or expression does, in the order of evaluation."""
        for part in _walk(node):
            if isinstance(part, ast.Yield):
                self.found |= {(line, part.lineno) for line in path.writes}
                path.writes.clear()
                path.yielded = True
            elif isinstance(part, ast.Call) and self._writes(part, self._cls, _DEPTH) and not path.yielded:
                path.writes.add(part.lineno)

    def _alias(self, node: ast.stmt) -> None:
        """Remember the names under which parts of the asset store are kept."""
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and self._is_store(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self._aliases |= {target.id for target in targets if isinstance(target, ast.Name)}

    def _is_store(self, node: ast.expr) -> bool:
        """Tell whether an expression is the asset store, a part of it, or a name of one."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            return node.id in self._aliases
        return isinstance(node, ast.Attribute) and node.attr in _STORES

    def _is_write(self, node: ast.expr) -> bool:
        """Tell whether an expression is a method of the asset store that moves a cursor."""
        return isinstance(node, ast.Attribute) and node.attr in _WRITES and self._is_store(node.value)

    def _writes(self, call: ast.Call, cls: type[Any] | None, depth: int) -> bool:
        """Tell whether a call stores a cursor, itself or in a method of the trigger."""
        if any(self._is_write(part) for part in (call.func, *call.args)):  # an argument: of asyncio.to_thread and the like
            return True
        target = call.func
        if not isinstance(target, ast.Attribute):
            return False
        if not (isinstance(target.value, ast.Name) and target.value.id == "self") or cls is None or not depth:
            return False
        source = _source(getattr(cls, target.attr, None))
        tree = None if source is None else _parse(source[2])
        if tree is None:
            return False
        inner = _Walk(cls)
        for part in ast.walk(tree):
            if isinstance(part, ast.stmt):
                inner._alias(part)
        return any(isinstance(part, ast.Call) and inner._writes(part, cls, depth - 1) for part in ast.walk(tree))


def _join(one: _Path | None, other: _Path | None) -> _Path | None:
    """Return what two ways to one place have in common: where either may have stored, either may have yielded nothing."""
    if one is None or other is None:
        return one or other
    return _Path(one.writes | other.writes, one.yielded and other.yielded)


def _walk(node: ast.AST) -> Iterable[ast.AST]:
    """Go through a node in the order of evaluation, inner parts first, not into functions that it defines."""
    if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)
    yield node
