"""Optional dependencies: imported when first used, named exactly when absent."""

from __future__ import annotations

import importlib
from typing import Any

from carb_data.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, *, package: str, extra: str) -> Any:
    """Import ``module``, or raise the error that names the extra that installs it.

    Args:
        module: dotted module name, for example ``"torch"``.
        package: the distribution that declares the extra, for example ``"carb-scorers"``.
        extra: the extra's name, for example ``"hf"``.

    Raises:
        MissingExtraError: the module, or the top-level package that holds it, is not installed. Any other
            import failure (a broken installation) is passed on as it is.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == module.partition(".")[0]:
            raise MissingExtraError(package, extra, module) from None
        raise
