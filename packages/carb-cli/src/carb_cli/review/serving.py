"""Serving a review from this machine until it is stopped."""

from __future__ import annotations

import carb_cli.review._extra  # noqa: F401  # isort: skip  # before starlette: names the missing extra
import socket
from pathlib import Path
from urllib.parse import urlsplit

from carb_cli.review.server import application
from carb_cli.review.store import Store
from carb_data import CarbError

__all__ = ["address", "listen", "serve"]

HOST = "127.0.0.1"


def listen(host: str, port: int, public_url: str | None) -> socket.socket:
    """Take the port. A review is bound beyond this machine only where its public address is named.

    Raises:
        CarbError: the port is in use, or the addresses do not fit together.
    """
    if public_url is not None:
        parts = urlsplit(public_url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise CarbError(f"--public-url must be an address such as https://example.org/review; got '{public_url}'.")
    elif host not in (HOST, "localhost", "::1"):
        raise CarbError(f"--host {host} opens the review to other machines; name its address with --public-url, too.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen(2048)  # who comes before the server is ready waits
    except OSError as error:
        taken.close()
        raise CarbError(f"Cannot listen at {host}:{port}: {error.strerror}. Name another --port.") from None
    return taken


def address(port: int, public_url: str | None) -> str:
    """The address of the page, with a slash at its end."""
    return f"{public_url.rstrip('/')}/" if public_url else f"http://{HOST}:{port}/"


def serve(path: Path, taken: socket.socket, public_url: str | None) -> None:
    """Serve until a signal ends it. No access log is written: it would say who answered when."""
    import uvicorn

    store = Store(path)
    try:
        config = uvicorn.Config(
            application(store, port=taken.getsockname()[1], public_url=public_url),
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=public_url is not None,
            backlog=2048,
            timeout_keep_alive=30,
            lifespan="off",
            ws="none",
        )
        uvicorn.Server(config).run(sockets=[taken])
    finally:
        store.close()
        taken.close()
