"""nginx before a server, as people set it up."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.private import free_port
from tests.support.servers import wait_until

__all__ = ["nginx"]

_CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr crit;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    client_max_body_size 200m; gzip on; gzip_types application/json; gzip_min_length 1;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {url}; }}
        location /milepost/ {{ proxy_pass {url}/; }}
    }}
}}
"""


@contextlib.contextmanager
def nginx(folder: Path, url: str) -> Iterator[int]:
    """Run nginx and give its port: it hands paths on as they are, and below ``/milepost/`` what follows that, made plain."""
    port = free_port()
    (folder / "nginx.conf").write_text(_CONFIGURATION.format(folder=folder, port=port, url=url))
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
        return False

    try:
        wait_until(answers, "nginx does not answer")
        yield port
    finally:
        proxy.terminate()
        proxy.wait(60)
