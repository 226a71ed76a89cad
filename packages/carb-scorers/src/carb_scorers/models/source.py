"""Where a model is loaded from: a folder, a hub id or a GGUF file, and nothing that is looked for in two places."""

from __future__ import annotations

import re
from pathlib import Path

from carb_data import CarbError

__all__ = ["model_source"]

_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+")


def model_source(target: str, *, gguf: bool = False) -> str:
    """The name to load a model by: its folder or file where there is one, else its hub id.

    A name that can be neither is refused before anything asks the network for it.

    Args:
        target: a folder or a ``.gguf`` file, ``~`` allowed, or a hub id ``owner/name``.
        gguf: whether the caller reads GGUF files.

    Raises:
        CarbError: it is neither of these, or a GGUF file that the caller does not read.
    """
    folder = Path(target).expanduser()
    if folder.is_dir():
        return str(folder)
    if folder.suffix == ".gguf":
        if not gguf:
            raise CarbError(
                f"'{target}' is a GGUF file, which judge:, implicit: and think: read with backend=hf, and nothing else "
                f"does. Give a folder with config.json and safetensors weights, or a hub id owner/name."
            )
        if folder.is_file():
            return str(folder)
        raise CarbError(f"There is no file '{target}'.")
    if target.count("/") == 1 and folder.parent.is_dir():  # of a local folder: no hub is asked for a typing error
        near = sorted(path.name for path in folder.parent.iterdir() if (path / "config.json").is_file())
        held = f" It holds {', '.join(near[:8])}." if near else ""
        raise CarbError(
            f"There is no model folder '{target}': the folder '{folder.parent}' has no '{folder.name}'.{held}"
        )
    if _HUB_ID.fullmatch(target):
        return target
    raise CarbError(f"There is no model folder '{target}'. Give a folder with config.json, or a hub id owner/name.")
