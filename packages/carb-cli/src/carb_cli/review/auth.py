"""Who gets in: private links, and what every request must pass. Tokens are stored as hashes
only."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from carb_data import CarbError

LINK_SECONDS = 90 * 86_400
"""How long a private link, and the cookie that keeps it, is good for."""
LARGEST = 512 * 1024
"""Bytes of a request's body."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; "
    "img-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
    "cache-control": "no-store",
}
"""What every response carries."""


class RefusalError(CarbError):
    """A request that is answered with another status than 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def check(method: str, headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Refuse a request for another host (DNS rebinding), and a write from another origin.

    Writes are JSON with an ``Origin`` of ours, which no form and no other site can send; together
    with the cookie's ``SameSite=Strict`` this closes cross-site request forgery.

    Raises:
        RefusalError: with the status and the reason.
    """
    if headers.get("host") not in {urlsplit(origin).netloc for origin in origins}:
        raise RefusalError(
            421, "This review is not served under this name. Start it with --public-url."
        )
    if method in ("GET", "HEAD"):
        return
    if (
        headers.get("origin") not in origins
        or headers.get("sec-fetch-site", "same-origin") != "same-origin"
    ):
        raise RefusalError(403, "Requests from other sites are refused.")
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RefusalError(415, "Send JSON.")
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > LARGEST:
        raise RefusalError(413, f"Send at most {LARGEST} bytes, with their number.")


def hashed(token: str) -> bytes:
    """What is stored of a token. It has 256 random bits, so that a plain hash cannot be reversed by
    trying."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def make_link(db: sqlite3.Connection, reviewer: str) -> str:
    """Make a new private link, in a transaction of the caller; the older one of the same person
    ends, on all devices.

    Returns:
        The token, which is stored nowhere.
    """
    token = secrets.token_urlsafe(32)
    expires = time.time() + LINK_SECONDS
    db.execute(
        "UPDATE reviewer SET link = ?, expires = ? WHERE id = ?", (hashed(token), expires, reviewer)
    )
    return token


def reviewer_of(db: sqlite3.Connection, token: str) -> str | None:
    """Whose link a token is of; null where it is unknown or ended.

    Wrong links are not counted: they would lock out the people behind one address together, and 256
    random bits cannot be guessed.
    """
    row = db.execute(
        "SELECT id FROM reviewer WHERE link = ? AND expires >= ?", (hashed(token), time.time())
    ).fetchone()
    return None if row is None else row["id"]
