"""What every request must pass, and what every response carries: host, origin, size, and the policy of the page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

__all__ = ["POLICY", "Guard", "origins_of"]

LARGEST = 512 * 1024
"""Bytes of a request's body."""
_DRAINED = 8 * LARGEST
"""Bytes read of a refused request, so that its sender gets to the reason and not to a broken connection."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
    "cache-control": "no-store",
}


def origins_of(port: int, public_url: str | None) -> frozenset[str]:
    """The origins at which the page may be opened: this machine's, and the public one."""
    own = {f"http://127.0.0.1:{port}", f"http://localhost:{port}"}
    if public_url:
        parts = urlsplit(public_url)
        own.add(f"{parts.scheme}://{parts.netloc}")
    return frozenset(own)


class Guard:
    """ASGI middleware. A request for another host is refused (DNS rebinding), so is a write from another origin.

    Writes are JSON with an ``Origin`` of ours, which no form and no other site can send; together with the cookie's
    ``SameSite=Strict`` this closes cross-site request forgery.
    """

    def __init__(self, app: Any, origins: Collection[str], prefix: str = "") -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._hosts = frozenset(urlsplit(origin).netloc for origin in origins)
        self._prefix = prefix

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope["method"], headers)
        if self._prefix and scope["path"].startswith(self._prefix + "/"):  # a proxy that keeps the prefix
            scope = scope | {"path": scope["path"][len(self._prefix) :], "raw_path": None}

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                extra = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in present]
                message = message | {"headers": [*message["headers"], *extra]}
            await send(message)

        if refused is None:
            await self._app(scope, receive, with_headers)
            return
        await _drain(receive)
        status, reason = refused
        await with_headers(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]}
        )
        await with_headers({"type": "http.response.body", "body": reason.encode()})

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host") not in self._hosts:
            return 421, "This review is not served under this name. Start it with --public-url."
        if method in ("GET", "HEAD"):
            return None
        if headers.get("origin") not in self._origins or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "Requests from other sites are refused."
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "Send JSON."
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            return 413, f"Send at most {LARGEST} bytes, with their number."
        return None


async def _drain(receive: Any) -> None:
    read, more = 0, True
    while more and read < _DRAINED:
        message = await receive()
        read += len(message.get("body", b""))
        more = message.get("more_body", False)
