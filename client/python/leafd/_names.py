"""Each address of the name in a URL is a daemon."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
import urllib.parse

Daemon = tuple[str, str]  # a URL, and an address of its name; the name itself until that is looked up

_EVERY = 5.0  # seconds, then names are looked up again
_PATIENCE = 0.1  # seconds that a request waits for it


class Names:
    """The daemons of URLs. No lock protects it, which a fork could leave held: a second lookup at once does no harm."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.found: dict[str, set[Daemon]] = {}
        self.looked_up = -math.inf
        for url in map(urllib.parse.urlsplit, addresses):
            if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username or url.port == 0:
                raise ValueError(f"leafd: address {url.geturl()!r}: want a URL such as http://10.0.0.5:8080")
            self.found[url.geturl()] = {(url.geturl(), url.hostname)}

    def daemons(self) -> set[Daemon]:
        if time.monotonic() - self.looked_up >= _EVERY:
            self.looked_up = time.monotonic()
            lookup = threading.Thread(target=self.look_up, name="leafd", daemon=True)  # since it may hang
            with contextlib.suppress(RuntimeError):  # the program ends
                lookup.start()
                lookup.join(_PATIENCE)
        return set().union(*self.found.values())

    def look_up(self) -> None:
        for url in self.found:
            name = urllib.parse.urlsplit(url).hostname
            with contextlib.suppress(OSError, ValueError):  # those from before stay
                self.found[url] = {(url, str(a[4][0])) for a in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
