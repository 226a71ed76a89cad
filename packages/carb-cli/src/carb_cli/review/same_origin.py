"""Checks of every request of the review page, and headers of every response."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carb_scorers.http_server import RefusalError

if TYPE_CHECKING:
    from starlette.requests import Request

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
    "cache-control": "no-store",
}
"""Headers of every response."""


def check(origins: Collection[str], request: Request) -> None:
    """Refuse a request for another host (DNS rebinding), and a write from another origin.

    Writes are JSON with an ``Origin`` of ours, which no form and no other site can send. Together
    with the cookie's ``SameSite=Strict`` this closes cross-site request forgery.

    Raises:
        RefusalError: with the status and the reason.
    """
    headers = request.headers
    if headers.get("host") not in {urlsplit(origin).netloc for origin in origins}:
        raise RefusalError(
            421, "This review is not served under this name. Start it with --public-url."
        )
    if request.method in ("GET", "HEAD"):
        return
    if (
        headers.get("origin") not in origins
        or headers.get("sec-fetch-site", "same-origin") != "same-origin"
    ):
        raise RefusalError(403, "Requests from other sites are refused.")
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RefusalError(415, "Send JSON.")
