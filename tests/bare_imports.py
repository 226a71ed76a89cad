"""Imports every public module of an installed package, in an environment that holds nothing but
what it declares.

A module either imports or names the extra that it needs; with that extra installed, it imports. It
needs no pytest.

Usage: python tests/bare_imports.py PACKAGE [EXTRA]
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings


def main(package: str, extra: str | None = None) -> int:
    """0 where every module does what is said above; else 1, with a line for each that does not."""
    warnings.simplefilter("ignore")  # those of other libraries
    root = importlib.import_module(package.replace("-", "_"))
    from carb_data import MissingExtraError

    wrong, waiting = [], 0
    for info in pkgutil.walk_packages(root.__path__, f"{root.__name__}.", onerror=lambda _: None):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        try:
            importlib.import_module(info.name)
        except MissingExtraError as error:
            waiting += 1
            if extra is not None and f"{package}[{extra}]" in str(error):
                wrong.append(f"{info.name}: the extra '{extra}' is installed, and yet: {error}")
        except Exception as error:
            wrong.append(f"{info.name}: {type(error).__name__}: {error}")
    print(
        f"{package}{f'[{extra}]' if extra else ''}: {waiting} modules wait for an extra, "
        f"{len(wrong)} fail"
    )
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
