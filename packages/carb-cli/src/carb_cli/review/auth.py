"""Who gets in: private links, sessions, and what every request must pass. Tokens are stored as hashes only."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from carb_cli.review.review_file import now
from carb_data import CarbError

__all__ = ["HEADERS", "LARGEST", "RefusalError", "check", "enter", "make_link", "reviewer_of"]

LINK_DAYS = 90
SESSION_DAYS = 30
_DAY = 86_400.0
LARGEST = 512 * 1024
"""Bytes of a request's body."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
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

    Writes are JSON with an ``Origin`` of ours, which no form and no other site can send; together with the cookie's
    ``SameSite=Strict`` this closes cross-site request forgery.

    Raises:
        RefusalError: with the status and the reason.
    """
    if headers.get("host") not in {urlsplit(origin).netloc for origin in origins}:
        raise RefusalError(421, "This review is not served under this name. Start it with --public-url.")
    if method in ("GET", "HEAD"):
        return
    if headers.get("origin") not in origins or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise RefusalError(403, "Requests from other sites are refused.")
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RefusalError(415, "Send JSON.")
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > LARGEST:
        raise RefusalError(413, f"Send at most {LARGEST} bytes, with their number.")


def hashed(token: str) -> bytes:
    """What is stored of a token. It has 256 random bits, so that a plain hash cannot be reversed by trying."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def make_link(db: sqlite3.Connection, reviewer: str, days: float = LINK_DAYS) -> str:
    """Make a new private link; older ones of the same person end, with the sessions that they opened.

    Args:
        db: the file, in a transaction.
        reviewer: the reviewer's id.
        days: days until the link ends.

    Returns:
        The token, which is stored nowhere.
    """
    db.execute("DELETE FROM link WHERE reviewer = ?", (reviewer,))
    token = secrets.token_urlsafe(32)
    db.execute(
        "INSERT INTO link (hash, reviewer, created, expires) VALUES (?, ?, ?, ?)",
        (hashed(token), reviewer, now(), now() + days * _DAY),
    )
    return token


def enter(db: sqlite3.Connection, token: str) -> str | None:
    """Exchange the token of a link for that of a new session; null where the link is unknown or ended.

    Wrong links are not counted: they would lock out the people behind one address together, and 256 random bits
    cannot be guessed.
    """
    link = db.execute("SELECT * FROM link WHERE hash = ? AND expires >= ?", (hashed(token), now())).fetchone()
    if link is None:
        return None
    session = secrets.token_urlsafe(32)
    db.execute("DELETE FROM session WHERE expires < ?", (now(),))
    db.execute(
        "INSERT INTO session VALUES (?, ?, ?, ?)", (hashed(session), link["hash"], now(), now() + SESSION_DAYS * _DAY)
    )
    return session


def reviewer_of(db: sqlite3.Connection, session: str) -> str | None:
    """Whose session it is; null where there is none."""
    row = db.execute(
        "SELECT link.reviewer FROM session JOIN link ON link.hash = session.link "
        "WHERE session.hash = ? AND session.expires >= ? AND link.expires >= ?",
        (hashed(session), now(), now()),
    ).fetchone()
    return None if row is None else row["reviewer"]
