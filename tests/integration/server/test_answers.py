"""What the client makes of answers, as servers and proxies send them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from milepost.remote.connection import Answer, LostError, Pool, parse_url

Serve = Callable[..., Pool]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a server with answers for its connections, and returns a client's pool for it."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    pools: list[Pool] = []

    def work(answers: tuple[list[bytes], ...]) -> None:
        for of_one in answers:
            client, _ = listening.accept()
            with client:
                for answer in of_one:
                    request = b""
                    while not request.endswith(b"{}"):
                        request += client.recv(65_536)
                    client.sendall(answer)

    def start(*answers: list[bytes]) -> Pool:
        threads.append(threading.Thread(target=work, args=(answers,)))
        threads[-1].start()
        pools.append(Pool(parse_url(f"http://127.0.0.1:{listening.getsockname()[1]}/prefix")))
        return pools[-1]

    yield start
    for pool in pools:
        pool.drop()
    for thread in threads:
        thread.join()
    listening.close()


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        CHUNKED,
        b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
        b"HTTP/1.1 200\ncontent-length:2\n\n{}",
    ],
    ids=["length", "chunks", "continue", "bare"],
)
def test_a_connection_goes_on_after_an_answer(serve: Serve, answer: bytes) -> None:
    """An answer that says where it ends is read as a whole, and the next request goes over the same connection."""
    pool = serve([answer, PLAIN])
    assert pool.post("/a", b"{}", b"secret") == Answer(200, b"{}", None, None)
    assert pool.post("/b", b"{}", b"secret") == Answer(200, b"{}", None, None)


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 502 Bad Gateway\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.0 502 Bad\r\n\r\n{}"],
    ids=["said", "until the end"],
)
def test_a_connection_ends_with_an_answer(serve: Serve, answer: bytes) -> None:
    """After an answer that ends the connection, the next request takes another one."""
    pool = serve([answer], [PLAIN])
    assert pool.post("/a", b"{}", b"secret") == Answer(502, b"{}", None, None)
    assert pool.post("/b", b"{}", b"secret") == Answer(200, b"{}", None, None)


def test_headers_of_an_answer(serve: Serve) -> None:
    """Token and note are read whatever the case of their names; 204 has no body."""
    pool = serve([b"HTTP/1.1 204 No Content\r\nMILEPOST-Token:  t1 \r\nmilepost-note: n\r\n\r\n", PLAIN])
    assert pool.post("/a", b"{}", b"secret") == Answer(204, b"", "t1", "n")
    assert pool.post("/b", b"{}", b"secret").status == 200


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\nc: d\r\n" * 60 + b"".join(b"%d: x\r\n" % n for n in range(200)) + b"\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
    ],
)
def test_what_is_no_answer(serve: Serve, answer: bytes) -> None:
    """An answer that is cut off or is none is a lost one: the request may have arrived."""
    pool = serve([answer])
    with pytest.raises(LostError) as caught:
        pool.post("/a", b"{}", b"secret")
    assert caught.value.sent
