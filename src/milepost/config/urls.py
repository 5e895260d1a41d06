"""URLs of stores without their secrets, for messages and logs."""

from __future__ import annotations

import re

__all__ = ["PERCENT_HINT", "mask_url"]

PERCENT_HINT = "in names and passwords write @ : / ? # % as %40 %3A %2F %3F %23 %25"

# What may be shown of a query, by name. All else may be a secret: password, sslpassword, a token, and what is unknown.
_SHOWN = frozenset(
    (
        "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "gssencmode", "host",
        "hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts", "port",
        "ssl_ca", "sslcert", "sslmode", "sslrootcert", "target_session_attrs", "tcp_user_timeout", "unix_socket", "user",
    )
)  # fmt: skip
# Compiled when they are first used: a start does without.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_HOST = r"(?:\[[0-9A-Fa-f:.%]*\]|[\w.%~-]*)(?::\d*)?"
_HOSTS = rf"{_HOST}(?:,{_HOST})*"
_VALUE = r"[\w.,:/%+-]*"


def mask_url(url: str) -> str:
    """Return a URL with stars in place of what is or may be secret.

    It never fails, and shows too little of a malformed URL rather than too much.

    Args:
        url: Any text that was given as a URL.
    """
    scheme, mark, rest = url.partition("://")
    if not mark or not re.fullmatch(_SCHEME, scheme):
        return "***" if re.search(r"[@=\s]|:.*:", url) else url
    if (scheme == "sqlite" and rest.startswith("/")) or scheme == "memory":
        return url
    # The last @ of all: one in a password, or behind a slash that should have been written %2F, must not show the rest.
    before, at, after = rest.rpartition("@")
    match = re.match(r"([^/?#]*)([^?#]*)(.*)", after, re.DOTALL)
    assert match is not None  # it matches any text
    hosts, path, tail = match.groups()
    if not re.fullmatch(_HOSTS, hosts):
        first = hosts.partition(":")[0]
        hosts = f"{first}:***" if re.fullmatch(_HOST, first) else "***"
    if not re.fullmatch(r"[\w./%~+-]*", path):
        path = "/***"
    return f"{scheme}://{_user(scheme, before) if at else ''}{hosts}{path}{_tail(tail)}"


def _user(scheme: str, before: str) -> str:
    """Return what may be shown of what stands before the @; the name alone may be a token for a web server."""
    name, colon, _ = before.partition(":")
    if not re.fullmatch(r"[\w.%~+-]*", name) or (not colon and scheme in ("http", "https")):
        name = "***"
    return f"{name}:***@" if colon else f"{name}@"


def _tail(tail: str) -> str:
    """Return what may be shown of the query and what follows it."""
    if not tail.startswith("?"):
        return "#***" if tail else ""
    return "?" + "&".join(map(_pair, tail[1:].split("&")))


def _pair(pair: str) -> str:
    name, mark, value = pair.partition("=")
    if name in _SHOWN and re.fullmatch(_VALUE, value):
        return pair
    known = name in _SHOWN or re.fullmatch(r"[a-z_]{1,40}", name)
    return f"{name}=***" if mark and known else "***" if pair else ""
