"""Where a model is loaded from: a local folder or a hub id, and nothing that is looked for in both places."""

from __future__ import annotations

import re
from pathlib import Path

from carb_data import CarbError

__all__ = ["model_source"]

_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+")


def model_source(target: str) -> str:
    """The name to load a model by: its folder where there is one, else its hub id.

    A name that can be neither is refused before anything asks the network for it.

    Args:
        target: a folder, ``~`` allowed, or a hub id ``owner/name``.

    Raises:
        CarbError: it is not a folder and does not have the form of a hub id.
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
        return target
    raise CarbError(f"There is no model folder '{target}'. Give a folder with config.json, or a hub id owner/name.")
