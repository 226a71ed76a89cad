"""Where a model is loaded from: a local folder or a hub id, and nothing that is looked for in both places."""

from __future__ import annotations

import importlib
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from carb_data import CarbError

__all__ = ["model_source"]

_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+")
_REACH_SECONDS = 5.0


def model_source(target: str) -> str:
    """The name to load a model by: its folder where there is one, else its hub id.

    A name that can be neither is refused before anything asks the network for it.

    Args:
        target: a folder, ``~`` allowed, or a hub id ``owner/name``.

    Raises:
        CarbError: it is not a folder and does not have the form of a hub id, or it is not in the local cache and the
            hub cannot be reached.
    """
    folder = Path(target).expanduser()
    if folder.is_dir():
        return str(folder)
    if target.count("/") == 1 and folder.parent.is_dir():  # of a local folder: no hub is asked for a typing error
        near = sorted(path.name for path in folder.parent.iterdir() if (path / "config.json").is_file())
        held = f" It holds {', '.join(near[:8])}." if near else ""
        raise CarbError(
            f"There is no model folder '{target}': the folder '{folder.parent}' has no '{folder.name}'.{held}"
        )
    if _HUB_ID.fullmatch(target):
        _must_be_within_reach(target)
        return target
    raise CarbError(f"There is no model folder '{target}'. Give a folder with config.json, or a hub id owner/name.")


def _must_be_within_reach(name: str) -> None:
    """Ask once whether the hub answers: its library would try for half a minute before it says so."""
    try:
        constants = importlib.import_module("huggingface_hub.constants")
    except ImportError:  # what needs the library says so
        return
    cached = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}", "snapshots").glob("*/config.json")
    hub = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or any(cached) or hub.scheme in getproxies() or hub.hostname is None:
        return
    try:
        port = hub.port or (80 if hub.scheme == "http" else 443)
        socket.create_connection((hub.hostname, port), _REACH_SECONDS).close()
    except OSError as error:
        raise CarbError(
            f"'{name}' is not in the local cache, and the model hub {constants.ENDPOINT} cannot be reached: {error}. "
            "Check the network, or give a model's folder."
        ) from None
