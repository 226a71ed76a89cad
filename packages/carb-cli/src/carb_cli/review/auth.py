"""Access to a review: private links. Tokens are stored as hashes only."""

import hashlib
import secrets
import sqlite3
import time

LINK_SECONDS = 90 * 86_400
"""How long a private link, and the cookie that keeps it, is good for."""


def hashed(token: str) -> bytes:
    """The stored form of a token. It has 256 random bits, so that a plain hash cannot be reversed
    by trying."""
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
