"""What the execution API makes of requests: good values, bad input, limits."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost import Asset, AssetScope, DamagedEntryError, Store, TaskScope, calls, connect, errors
from milepost.calls import Handle, Item
from milepost.errors import InvalidKeyError, InvalidValueError, UnsupportedTypeError
from milepost.remote.incoming import CALLS, Reader
from milepost.remote.problems import error_of, problem_of, status_of
from milepost.remote.wire import dump_call, dumps
from milepost.server import heads
from milepost.server.logs import OUTAGES
from tests.integration.server.conftest import Ask
from tests.support.serving import SECRET, Served

SCOPE = TaskScope("dag", "manual__2026-01-01T00:00:00.123456+00:00", "task")
ODD_KEYS = [
    "a/b",
    "/lead",
    "trail/",
    "a//b",
    "a",
    "d#draft",
    "d#final",
    "d?x=1",
    "a&b=c",
    "50%",
    "a%2Fb",
    "a b",
    "a+b",
    ";",
    "é",
    ".",
    "..",
]
VALUES: list[Any] = [
    42,
    "42",
    "hello",
    '"quoted"',
    {"a": "1"},
    True,
    1.0,
    -0.0,
    2**70,
    "a\0b",
    "null",
    [None, {"b": 1, "a": 2}],
]
HANDLE = Handle(SCOPE, "python")


def put(text: str, key: str = "k", encoding: int = 0) -> list[Any]:
    """Return the request to write one text."""
    return dump_call(calls.Put(HANDLE, [Item(key, text, encoding, calls.new_version())]))


def test_s02_values_mean_the_same_at_this_door(launcher: Store, behind: Store) -> None:
    """S-02: a value written over HTTP or beside it is the same on the other side, type included."""
    for value in VALUES:
        for writer, reader in ((launcher, behind), (behind, launcher)):
            writer.task_store(SCOPE).set("k", value)
            assert repr(reader.task_store(SCOPE).get("k")) == repr(value)


@pytest.mark.parametrize("run_id", [SCOPE.run_id, "in/2026 01#1"])
def test_s04_s05_keys_never_travel_in_paths(launcher: Store, behind: Store, run_id: str) -> None:
    """S-04, S-05: keys and run ids with slashes and other URL characters are ordinary and distinct."""
    scope = TaskScope("dag", run_id, "task")
    for number, key in enumerate(ODD_KEYS):
        launcher.task_store(scope).set(key, number)
    launcher.task_store(scope).delete("a")
    expected = {key: number for number, key in enumerate(ODD_KEYS) if key != "a"}
    assert dict(behind.task_store(scope).items()) == expected
    assert launcher.task_store(scope).get_many(ODD_KEYS) == expected


@pytest.mark.parametrize("size", [65_534, 65_535])
def test_s10_the_limit_counts_bytes(ask: Ask, launcher: Store, size: int) -> None:
    """S-10: the server itself refuses a value of one byte more than the limit, with the error of every other door."""
    fits = size == 65_534
    answer = ask("/execution/v1/call", put(json.dumps("x" * size)))
    assert answer.status == (200 if fits else 422)
    if not fits:
        assert (answer.body["error"], answer.body["arguments"][:2]) == ("ValueTooLargeError", [65_537, 65_536])
    assert launcher.task_store(SCOPE).get("k") == ("x" * size if fits else None)
    assert ask("/execution/v1/call", put(json.dumps("漢" * 30_000, ensure_ascii=False))).status == 422


def test_s10_without_a_limit(behind: Store, served: Served, tmp_path: Any) -> None:
    """S-10: with the limit off, 8 MiB make the round trip."""
    with connect(f"sqlite:///{tmp_path}/big.db", max_value_bytes=0) as big:
        url = served.add(big)
        with connect(url, secret=SECRET, max_value_bytes=0) as client:
            value = "é" * (4 * 1024 * 1024)
            client.task_store(SCOPE).set("k", value)
            assert client.task_store(SCOPE).get("k") == value


BAD_TEXTS = [
    "NaN", '{"a":NaN}', "[1e400]", "Infinity", '{"a":1,"a":2}', '"\\ud800"', "null", "", "{", "\ufeff1",
    "[" * 300 + "]" * 300, "1 2",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_s06_bad_values_are_refused(ask: Ask, launcher: Store, text: str) -> None:
    """S-06: text that is no value is 422 with one clear error, and the old value stays."""
    launcher.task_store(SCOPE).set("k", "old")
    answer = ask("/execution/v1/call", put(text))
    assert (answer.status, answer.body["error"]) == (422, "InvalidValueError")
    assert launcher.task_store(SCOPE).get("k") == "old"


def test_text_is_stored_in_one_form(ask: Ask, behind: Store) -> None:
    """Values keep no spaces and no escapes from the request, so that their size is that of their compact form."""
    assert ask("/execution/v1/call", put(' {"a" : "\\u00e9" } ')).status == 200
    handle = behind.task_store(SCOPE)._handle
    assert behind.metastore.call(calls.Get(handle, "k")) == ('{"a":"é"}', 0)


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"", "not valid JSON"),
    (b"\xff\xfe", "not UTF-8"),
    (b'\xef\xbb\xbf["Now"]', "byte order mark"),
    (b"{}", "a list of its name"),
    (b'["now"]', "there is no call 'now'"),
    (b'["Now",1]', "Now must be a list of 0"),
    (b'["Get",[["d","r","t",-1],"python",false,null,null,null,null,false]]', "Get must be a list of 2"),
    (b'["Get",[["d","r","t"],"python",false,null,null,null,null,false],"k"]', "handle.scope"),
    (b'["Get",[["d","r","t",-2],"python",false,null,null,null,null,false],"k"]', "map_index"),
    (b'["Get",[["d","r","t",true],"python",false,null,null,null,null,false],"k"]', "whole number"),
    (b'["Get",[["d","r","t",-1],"nobody",false,null,null,null,null,false],"k"]', "writer"),
    (b'["Get",[["d","r","t",-1],"python",false,null,null,null,99999999999999999999,false],"k"]', "64 bits"),
    (b'["Get",[["d","r","t",-1],"python",false,null,null,null,null,false],""]', "must not be empty"),
    (b'["Get",[["d","r","t",-1],"python",false,null,null,null,null,false],"\\u0000"]', "NUL"),
    (b'["Get",[["d","r","t",-1],"python",false,null,null,null,null,false],"\\ud800"]', "surrogate"),
    (b'["Get",[["d","r","t",-1],"python",false,null,null,null,null,false],{"a":1,"a":2}]', "twice"),
    (b"[" * 100_000, "nested"),
]


@pytest.mark.parametrize(("body", "said"), BAD_BODIES)
def test_bad_requests_are_422_with_one_clear_error(ask: Ask, body: bytes, said: str) -> None:
    """A request that is none is answered 422 and says what is wrong."""
    answer = ask("/execution/v1/call", body)
    assert answer.status == 422
    assert said in answer.body["detail"]
    assert set(answer.body) == {"error", "detail"}


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(sorted(CALLS))
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)


@given(name=st.sampled_from(sorted(CALLS)), parts=st.lists(anything, max_size=8))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_no_call_is_made_of_anything(name: str, parts: list[Any]) -> None:
    """Whatever comes in place of fields is a call or a Milepost error, never another exception."""
    with contextlib.suppress(InvalidKeyError, InvalidValueError, UnsupportedTypeError):  # all of them 422
        Reader(100).call([name, *parts])


HANDLES = [HANDLE, Handle(AssetScope(1, "a", "a"), "api:me", owner_id=1, fence=3, instance_id=2, attempt=1)]
EXAMPLES = [
    calls.Put(HANDLES[1], [Item("k", "[1]", 0, "v")], 5),
    calls.Increment(HANDLE, "k", 2**70, "v"),
    calls.Increment(HANDLE, "k", 0.1, "v"),
    calls.Open(SCOPE, 1, inlets=[AssetScope(name="a", uri="b")]),
    calls.BeginRun("d", "r", "me", 30.0),
]


@pytest.mark.parametrize("call", EXAMPLES, ids=lambda call: type(call).__name__)
def test_calls_travel_whole(call: Any) -> None:
    """What a server reads is the call that a client wrote."""
    ((read,), _) = Reader(65_536).body(dumps(dump_call(call)))
    assert type(read) is type(call)
    assert dump_call(read) == dump_call(call)


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_travel_whole(name: str) -> None:
    """Each error comes back as the same class with the same message and parts, and has one status below 500, or 503."""
    cls = getattr(errors, name)
    parts: dict[str, tuple[Any, ...]] = {"ValueTooLargeError": (70_000, 65_536), "DamagedEntryError": ("k", "why")}
    error = cls(*parts.get(name, ("a message",)))
    status = status_of(error)
    copy = error_of(status, json.loads(dumps(problem_of(error))))
    assert (type(copy), str(copy), vars(copy)) == (cls, str(error), vars(error))
    assert status == 503 if isinstance(error, errors.StoreError) else 400 <= status < 500


def test_an_error_of_a_newer_server_is_what_is_nearest() -> None:
    """An error class that a client does not know becomes the one of its status."""
    assert type(error_of(409, {"error": "SomethingNewError", "detail": "x"})) is errors.ConflictError
    assert error_of(502, {"message": "bad gateway"}) is None


def test_calls_whose_parts_do_not_fit(ask: Ask, behind: Store) -> None:
    """A call whose fields are sound one by one, and do not fit each other, is 422 as well."""
    scope, number = AssetScope(name="a", uri="a"), behind.assets.register(Asset("a")).id
    own = Handle(AssetScope(number), "python", owner_id=number)
    item = Item("k", "1", 0, calls.new_version())
    for call in (
        calls.Keys(Handle(scope, "python")),
        calls.Keys(Handle(AssetScope(number), "task:1", owner_id=number)),
        calls.Clear(own, True),
        calls.ReadIntent(own, "k"),
        calls.Intend(own, "k", "v", None, new=True),
        calls.Advance(HANDLE, item),
        calls.RestoreAsset(HANDLE, None, False),
        calls.EntryPage(scope, None, "", -1, None, 0, 1, False),
        calls.ExportRows("nothing", None, 1),
        calls.ImportRows("nothing", [("x",)]),
        calls.ListRuns(state="cleared"),
        calls.RunPage(None, "x", "", None, 1),
        calls.ListInstances(state="upstream_failed"),
        calls.InstancePage("d", "r", None, "x", "", -1, 1),
        calls.Finish(SCOPE, 1, "cleared"),
        calls.HoldRun("d", "r", "me", None, "skipped"),
    ):
        answer = ask("/execution/v1/call", dump_call(call))
        assert (answer.status, answer.body["error"]) == (422, "InvalidValueError"), call


def test_a_batch_is_answered_call_by_call(ask: Ask) -> None:
    """Calls of one request run in order, and each has an answer or an error of its own."""
    get = dump_call(calls.Get(HANDLE, "k"))
    restore = dump_call(calls.Archives(TaskScope("no", "such", "thing")))
    answer = ask("/execution/v1/call", [put("1"), restore, get])
    assert answer.status == 200
    assert [sorted(one) for one in answer.body] == [["answer"], ["detail", "error"], ["answer"]]
    assert (answer.body[1]["error"], answer.body[2]["answer"]) == ("InstanceNotFoundError", ["1", 0])


def test_s16c_a_request_sent_twice(ask: Ask, launcher: Store) -> None:
    """S-16 (c): the same write sent twice, because its first answer was lost, succeeds both times and is one write."""
    request = put("1")
    assert [ask("/execution/v1/call", request).status for _ in range(2)] == [200, 200]
    entry = launcher.task_store(SCOPE).entry("k")
    assert entry is not None
    assert entry.version == request[2][0][3]


def test_damaged_rows_over_http(launcher: Store, behind: Store) -> None:
    """A damaged row is an error that names its key over HTTP too, and the others stay readable."""
    task = launcher.task_store(SCOPE)
    task.set("bad", 1)
    task.set("good", 2)
    engine: Any = behind.metastore.engine  # type: ignore[attr-defined]
    connection = engine.take()
    connection.execute("UPDATE entries SET value = x'ff' WHERE key = 'bad'")
    engine.give(connection)
    with pytest.raises(DamagedEntryError, match="'bad'"):
        task.get("bad")
    assert [key for key, _ in task.items()] == ["bad", "good"]


def test_what_is_not_there(ask: Ask) -> None:
    """Unknown paths are 404, other methods 405, both with the one JSON shape."""
    assert ask("/execution/v1/nothing").status == 404
    assert ask("/execution/v1/call/").status == 404
    answer = ask("/execution/v1/call", method="GET")
    assert (answer.status, sorted(answer.body)) == (405, ["detail", "error"])


def test_a_request_that_is_too_large(behind: Store, served: Served) -> None:
    """A request over the limit is 413, whether or not it says its length, and the client gets one clear error."""
    url = served.add(behind, max_request_bytes=2048)
    parts = urlsplit(url)
    with connect(url, secret=SECRET) as client, pytest.raises(errors.StoreError, match="max_request_bytes"):
        client.task_store(SCOPE).set("k", "x" * 10_000)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as plain_socket:
        head = f"POST {parts.path}/execution/v1/call HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        plain_socket.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        plain_socket.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        assert plain_socket.recv(100).startswith(b"HTTP/1.1 413")


def test_a_request_that_does_not_arrive(behind: Store, served: Served) -> None:
    """A request that stops in the middle is answered 408 after its time, and others are served meanwhile."""
    url = served.add(behind, request_seconds=1)
    parts = urlsplit(url)
    stuck = [socket.create_connection((parts.hostname, parts.port), timeout=30) for _ in range(20)]
    try:
        for number, one in enumerate(stuck):
            head = f"POST {parts.path}/execution/v1/call HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
            one.sendall(head.encode() + (b"Content-Length: 100\r\n\r\n[" if number % 2 else b""))
        with connect(url, secret=SECRET) as client:
            client.task_store(SCOPE).set("k", 1)
            assert client.task_store(SCOPE).get("k") == 1
        assert stuck[1].recv(100).startswith(b"HTTP/1.1 408")
    finally:
        for one in stuck:
            one.close()


def answer_to(url: str, data: bytes, *, ends: bool = False) -> bytes:
    """Send bytes, perhaps with nothing after them, and return what comes back until the server closes."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as plain_socket:
        got = b""
        with contextlib.suppress(ConnectionError):
            plain_socket.sendall(data)
            if ends:
                plain_socket.shutdown(socket.SHUT_WR)
            while part := plain_socket.recv(65_536):
                got += part
        return got


@pytest.mark.parametrize(
    "data",
    [
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 1_000_000,
        b"GET /health HTTP/1.1\r\n" + b"X: a\r\n" * 200_000,
        b"GET /" + b"a" * 1_000_000,
        b"POST /0/execution/v1/call HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n0\r\n" + b"X: a\r\n" * 200_000,
    ],
    ids=["one header", "many headers", "a path", "after the body"],
)
def test_a_head_that_is_too_large(url: str, data: bytes) -> None:
    """A head without an end, in whichever part, is 400 and the end of the connection before it fills the memory."""
    got = answer_to(url, data)
    assert got == b"" or got.endswith(b"has more than 65,536 bytes.")  # what was on its way may take the answer along


def test_a_head_that_does_not_arrive(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that sends nothing, or stops in a head, is closed after its time, also after a request was answered."""
    monkeypatch.setattr(heads, "SECONDS", 0.1)
    for begun in (b"", b"GET /health HTTP/1.1\r\nHo"):
        assert answer_to(url, begun) == b""
    whole = f"GET {urlsplit(url).path}/health HTTP/1.1\r\n\r\n".encode()
    assert answer_to(url, whole + b"GET /he").count(b"200 OK") == 1


def test_a_client_that_goes_away_in_the_middle(url: str, behind: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A request that ends in the middle of its body changes nothing, whatever the part of it means, and is no fault."""
    behind.task_store(SCOPE).set("k", 1)
    token = behind.tokens.create("editor", role="editor").token
    run_id = SCOPE.run_id.replace(":", "%3A").replace("+", "%2B")
    path = f"{urlsplit(url).path}/api/v2/dags/dag/dagRuns/{run_id}/taskInstances/task/state-store/k"
    for line, credential, body in (
        (f"PUT {path}", token, b'{"value": 2}'),
        (f"POST {urlsplit(url).path}/execution/v1/call", SECRET, dumps(put("2"))),
    ):
        head = f"{line} HTTP/1.1\r\nAuthorization: Bearer {credential}\r\nContent-Length: {len(body) + 1}\r\n\r\n"
        answer_to(url, head.encode() + body, ends=True)
    assert behind.task_store(SCOPE).get("k") == 1
    assert caplog.records == []


def test_a_store_that_cannot_be_reached(
    ask: Ask, behind: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests are 503 with a time to wait; who has shown no credential learns nothing more, and the log tells it once."""

    async def unreachable(_: Any) -> Any:
        raise errors.StoreUnreachableError("cannot reach the store postgresql://anna@db.internal/x: refused")

    monkeypatch.setattr(OUTAGES, "_last", -1e9)
    monkeypatch.setattr(type(behind.metastore), "acall", lambda _, call: unreachable(call))
    for _ in range(3):
        strangers = ask("/api/v2/stats", credential="milepost_unknown", method="GET")
        worker = ask("/execution/v1/call", b'["Now"]')
        assert (strangers.status, worker.status, strangers.headers["retry-after"]) == (503, 503, "1")
        assert "internal" not in json.dumps(strangers.body)
        assert (strangers.body["error"], worker.body["error"]) == ("StoreUnreachableError", "StoreUnreachableError")
        assert ask("/ready", method="GET").body == {"status": "unavailable", "detail": "StoreUnreachableError"}
    (said,) = [record.getMessage() for record in caplog.records if record.name == "milepost.server"]
    assert "db.internal" in said


def test_the_openapi_document_names_every_route_and_call(ask: Ask) -> None:
    """The published document has the routes that are there, and every call and error by name."""
    answer = ask("/execution/v1/openapi.json", method="GET", credential=None)
    assert answer.status == 200
    for path, methods in answer.body["paths"].items():
        assert list(methods) == ["post"]
        assert ask(path, credential=None).status == 401
    text = json.dumps(answer.body)
    assert [name for name in (*CALLS, *errors.__all__) if name not in text] == []
