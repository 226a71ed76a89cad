"""Imported first by what serves a review: it names the missing extra where the server's libraries are not installed."""

from importlib.util import find_spec

from carb_data import MissingExtraError

for _name in ("starlette", "uvicorn", "limits"):
    if find_spec(_name) is None:
        raise MissingExtraError("carb-cli", "review", _name)
