"""Export and import: a store as JSON lines.

A file is a header, one line per row, and a footer with the number of rows of each kind and the checksum of their lines.
Exporting a store that was imported gives the same lines again, byte for byte: that is how an import verifies itself.

What a line may hold and in which order lines come is decided in one place, `Book`. An export leaves out what it refuses; an
import reads the whole file with it before anything is written.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import IO, Any, NamedTuple, TypeVar

from milepost import calls
from milepost.abc import Metastore
from milepost.errors import BackendUnsupportedError, ConflictError, InvalidValueError, UnsupportedTypeError
from milepost.metastore.migrations import migrations
from milepost.reports import DamagedRow, TransferReport
from milepost.transfer.rows import FIELDS, OWNER_DAMAGED, Book, Events, malformed, name_of

__all__ = ["FORMAT", "export", "import_", "in_thread", "pages"]

FORMAT = 1
"""The number of the format that this release writes and reads."""

_PAGE_ROWS = 1_000
_PAGE_BYTES = 4 << 20
"""What a page or a batch aims at. The next page is sized by the one before, at most four times as many rows."""

_RESULT_ROWS = 16
"""Results may be large, so that few are read at a time."""

_FIRST = 100
"""The most damaged rows that a report names."""

_MAX_LINE = 1 << 30

Row = tuple[Any, ...]
Check = Callable[[], None]
R = TypeVar("R")


def _go_on() -> None:
    pass


def _line(kind: str, row: Row) -> bytes:
    whole = {"type": kind, **dict(zip(FIELDS[kind], row, strict=True))}
    return (json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _other(**parts: Any) -> bytes:
    return (json.dumps(parts, separators=(",", ":")) + "\n").encode()


class _Tally:
    """Counts and checksum of lines."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(FIELDS, 0)
        self._sum = hashlib.sha256()

    def add(self, kind: str, line: bytes) -> None:
        self.counts[kind] += 1
        self._sum.update(line)

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()


# -- export ---------------------------------------------------------------------------------------------------------------


def export(metastore: Metastore, stream: IO[bytes], check: Check = _go_on) -> TransferReport:
    """Write a store as JSON lines.

    Args:
        metastore: The store.
        stream: Takes bytes.
        check: Called before each page; it stops the export by raising.

    Returns:
        What was written, and which rows were left out because they are damaged.

    Raises:
        BackendUnsupportedError: A ``[state_store] backend`` keeps the entries.
    """
    _binary(stream)
    _whole(metastore, "exported")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    stream.write(_other(type="header", format=FORMAT, schema=len(migrations("sqlite")), at=now))
    report = _rows(metastore, stream.write, check)
    stream.write(_other(type="footer", counts=report.counts, sha256=report.sha256))
    return report


def _whole(metastore: Metastore, what: str) -> None:
    if metastore.call(calls.CollectBackend(dry_run=True)) is not None:
        raise BackendUnsupportedError(
            f"a store whose entries are kept by a [state_store] backend cannot be {what}: they would be missing"
        )


def _rows(metastore: Metastore, write: Callable[[bytes], Any], check: Check) -> TransferReport:
    """Write all lines between header and footer."""
    tally = _Tally()
    damaged: list[DamagedRow] = []
    lost = 0
    with Book() as book:
        for kind in FIELDS:
            numbers = Events()
            for row in pages(metastore, kind, check):
                reason = _refused(book, kind, row)
                if reason is None:
                    line = _line(kind, numbers.renumber(row) if kind == "change" else row)
                    write(line)
                    tally.add(kind, line)
                elif reason:
                    lost += 1
                    if len(damaged) < _FIRST:
                        damaged.append(DamagedRow(kind, *name_of(kind, row), reason))
    return TransferReport(tally.counts, tally.sha256, lost, tuple(damaged))


def _refused(book: Book, kind: str, row: Row) -> str | None:
    """Say why a row is left out; an empty text: it is newer than the lines before it, and no loss."""
    if reason := malformed(kind, row):
        book.mark_damaged(kind, row)
        return reason
    reason = book.place(kind, row)
    return reason if reason in (None, OWNER_DAMAGED) else ""


def pages(metastore: Metastore, kind: str, check: Check = _go_on) -> Iterator[Row]:
    """Give the rows of a kind as they are stored, with the columns of `FIELDS`, a page at a time.

    Args:
        metastore: The store.
        kind: As in `calls.ExportRows`.
        check: Called before each page; it stops by raising.
    """
    most = _RESULT_ROWS if kind == "result" else _PAGE_ROWS
    limit = max(1, most // 10)
    after: Row | None = None
    while True:
        check()
        rows, after = metastore.call(calls.ExportRows(kind, after, limit))
        yield from rows
        if after is None:
            return
        size = sum(len(cell) for row in rows for cell in row if isinstance(cell, str | bytes))
        limit = max(1, min(most, limit * 4, limit * _PAGE_BYTES // max(1, size)))


# -- import ---------------------------------------------------------------------------------------------------------------


def import_(metastore: Metastore, stream: IO[bytes], check: Check = _go_on) -> TransferReport:
    """Fill an empty store from what `export` wrote.

    Args:
        metastore: The store.
        stream: Gives bytes. What cannot be read twice is copied to a temporary file first.
        check: Called before each batch; it stops the import by raising.

    Returns:
        What was read, and found again in the store.

    Raises:
        ConflictError: The store is not empty, or afterwards does not hold what was read.
        InvalidValueError: The file is cut, altered or not an export; nothing was written.
        BackendUnsupportedError: A ``[state_store] backend`` keeps the entries.
    """
    _binary(stream)
    _refuse_full(metastore)  # before minutes are spent on the file
    with checked(stream, check) as file:
        return _fill(metastore, file, check)


class Checked(NamedTuple):
    """An export that was read to its end and found whole.

    Args:
        file: It, at its beginning.
        read: What is in it.
    """

    file: IO[bytes]
    read: TransferReport


@contextmanager
def checked(stream: IO[bytes], check: Check = _go_on) -> Iterator[Checked]:
    """Read the whole of an export, and give it to be read again; arguments and errors as in `import_`."""
    with _twice(stream) as file:
        start = file.tell()
        read = TransferReport(*_read(file, check, _nothing))
        file.seek(start)
        yield Checked(file, read)


def _refuse_full(metastore: Metastore) -> None:
    _whole(metastore, "imported")
    if holds := metastore.call(calls.Holdings()):
        raise ConflictError(f"an import fills an empty store, and this one holds {', '.join(holds)}; name a new one")


def fill(metastore: Metastore, export_: Checked, check: Check = _go_on) -> TransferReport:
    """Fill an empty store from an export that was checked; arguments, answer and errors as in `import_`."""
    _refuse_full(metastore)
    return _fill(metastore, export_, check)


def _fill(metastore: Metastore, export_: Checked, check: Check) -> TransferReport:
    read = export_.read
    batch = _Batch(metastore)
    counts, sha256 = _read(export_.file, check, batch.add)
    batch.flush()
    found = _rows(metastore, lambda _: None, check)
    if (counts, sha256) != (read.counts, read.sha256) or (found.counts, found.sha256) != (read.counts, read.sha256):
        differing = [f"{found.counts[kind]} {kind} rows for {n}" for kind, n in counts.items() if found.counts[kind] != n]
        raise ConflictError(
            f"the store does not hold what was read ({', '.join(differing) or 'the checksums differ'}): something else "
            "wrote to it, or to the file, meanwhile; import into a new store"
        )
    return read


def _binary(stream: Any) -> None:
    if isinstance(stream, io.TextIOBase):
        raise UnsupportedTypeError(f"a stream of bytes is needed, not {type(stream).__name__}; open the file in mode 'b'")


@contextmanager
def _twice(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Give a stream that can be read twice."""
    if stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy)
        copy.seek(0)
        yield copy


def _nothing(_kind: str, _row: Row, _size: int) -> None:
    pass


class _Batch:
    """Rows on their way into a store: some of one kind, a transaction each time."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._kind = ""
        self._rows: list[Row] = []
        self._size = 0
        self._events = Events()

    def add(self, kind: str, row: Row, size: int) -> None:
        """Take a row, and write those before it if they are enough."""
        if kind != self._kind or len(self._rows) >= _PAGE_ROWS or self._size + size > _PAGE_BYTES:
            self.flush()
        self._kind = kind
        self._rows.append(row)
        self._size += size

    def flush(self) -> None:
        """Write what waits."""
        if self._rows:
            events = {}
            if self._kind == "change":
                events = {row[1]: self._events[row[1]] for row in self._rows if row[1] in self._events}
            self._events.update(self._metastore.call(calls.ImportRows(self._kind, self._rows, events)))
        self._rows, self._size = [], 0


def _read(file: IO[bytes], check: Check, take: Callable[[str, Row, int], None]) -> tuple[dict[str, int], str]:
    """Read a whole file and hand its rows on; its counts and checksum.

    Raises:
        InvalidValueError: It is not as an export left it; the message names the line.
    """
    _header(file.readline(4096))
    tally = _Tally()
    number = 1
    with Book() as book:
        numbers = Events()
        while True:
            if number % _PAGE_ROWS == 0:
                check()
            line = file.readline(_MAX_LINE)
            number += 1
            if not line.endswith(b"\n"):
                raise InvalidValueError(f"line {number}: the file is cut off there; export again")
            kind, parts = _parse(line, number)
            if kind == "footer":
                break
            row = _row(kind, parts, line, number)
            if reason := book.place(kind, row):
                raise InvalidValueError(f"line {number}: {reason}")
            if kind == "change" and not numbers.follows(row):
                raise InvalidValueError(f"line {number}: the numbers of the change log are not in order")
            tally.add(kind, line)
            take(kind, row, len(line))
    if isinstance(counts := parts.get("counts"), dict):  # an earlier release knew fewer kinds
        parts = {**parts, "counts": {**dict.fromkeys(FIELDS, 0), **counts}}
    if parts != {"type": "footer", "counts": tally.counts, "sha256": tally.sha256}:
        raise InvalidValueError(f"line {number}: counts or checksum differ from the lines before; the file has been altered")
    if file.read(1):
        raise InvalidValueError(f"line {number + 1}: the file goes on after its end")
    return tally.counts, tally.sha256


def _header(line: bytes) -> None:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("type") != "header" or type(header.get("format")) is not int:
        raise InvalidValueError("line 1: this is not the beginning of what `milepost export` writes")
    if header["format"] != FORMAT:
        raise InvalidValueError(f"line 1: the format {header['format']} is unknown to this release, which reads {FORMAT}")


def _parse(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    try:
        parts = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"line {number}: not JSON: {error}") from error
    kind = parts.get("type") if isinstance(parts, dict) else None
    if not isinstance(kind, str) or (kind != "footer" and kind not in FIELDS):
        raise InvalidValueError(f"line {number}: lines of type {kind!r} are unknown to this release")
    return kind, parts


def _row(kind: str, parts: dict[str, Any], line: bytes, number: int) -> Row:
    row = tuple(parts.get(name) for name in FIELDS[kind])
    if reason := malformed(kind, row):
        raise InvalidValueError(f"line {number}: {reason}")
    try:
        same = _line(kind, row) == line
    except UnicodeEncodeError:
        same = False
    if not same:
        raise InvalidValueError(f"line {number}: not as `milepost export` writes a line of type {kind!r}")
    return row


class _StoppedError(Exception):
    """The caller has gone."""


async def in_thread(work: Callable[[Check], R]) -> R:
    """Run blocking work in a thread. When cancelled, have it stop at its next page and end no sooner than it."""
    import asyncio

    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise _StoppedError

    job = asyncio.ensure_future(asyncio.to_thread(work, check))
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            stopped.set()
            cancelled = error
    if cancelled is not None:
        job.exception()  # else the loop complains that nobody looked at it
        raise cancelled
    return job.result()
