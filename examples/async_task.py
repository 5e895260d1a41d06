"""An asynchronous task: eight requests at once, each answer kept as soon as it is there.

Every method of the store that does I/O has a twin whose name starts with ``a`` and which does not block the event loop.
The service fails for one city at first. The attempt fails too, but seven answers are in the task store by then, and the
next attempt asks for the missing one only.

The service is a small HTTP server on the loopback address that stands in for one on the network.

Run it with ``milepost run examples/async_task.py --run-id r1``.
"""

import asyncio

from milepost.sdk import DAG, task

CITIES = ["Accra", "Bergen", "Cusco", "Delhi", "Essen", "Fukuoka", "Galway", "Hanoi"]


async def serve(broken: str | None) -> asyncio.Server:
    """Start the service; it answers with the length of a city's name, or with 503 for the broken city."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        city = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().lstrip("/")
        head = "503 Service Unavailable" if city == broken else "200 OK"
        writer.write(f"HTTP/1.0 {head}\r\n\r\n{len(city)}".encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


async def fetch(port: int, city: str) -> int:
    """Ask the service about one city."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /{city} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    if b" 200 " not in head:
        raise ConnectionError(f"{city}: {head.decode()}")
    return int(body)


with DAG("async_task") as dag:

    @task(retries=2, retry_delay=0.1)
    async def collect(task_store=None, ti=None):
        """Ask about all cities that have no answer yet."""
        known = await task_store.akeys("answer/")
        missing = [city for city in CITIES if f"answer/{city}" not in known]
        print(f"attempt {ti.try_number}: {len(known)} answers are there, {len(missing)} to ask for")

        async def ask(port: int, city: str) -> None:
            await task_store.aset(f"answer/{city}", await fetch(port, city))

        server = await serve(broken="Delhi" if ti.try_number == 1 else None)
        async with server:
            port = server.sockets[0].getsockname()[1]
            ended = await asyncio.gather(*(ask(port, city) for city in missing), return_exceptions=True)
        if errors := [error for error in ended if error is not None]:
            raise errors[0]
        return dict(await task_store.aitems("answer/"))

    @task
    def report(answers):
        """Print what was collected."""
        print(f"{len(answers)} answers, {sum(answers.values())} letters")

    report(collect())
