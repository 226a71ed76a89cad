"""Checks built files of one package before they are published.

Usage: python tests/check_release.py PACKAGE FILE [FILE ...]
"""

from __future__ import annotations

import email
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEMBERS = ("carb-data", "carb-metrics", "carb-scorers", "tal-rlvr", "carb-cli")


def names(path: Path) -> list[str]:
    """The files in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as sdist:
        return sdist.getnames()


def missing(package: str, path: Path, found: list[str]) -> list[str]:
    """The files of a package's source (modules, forms, phrases, registries) that a built file
    lacks."""
    source = ROOT / "packages" / package / "src"
    before = "" if path.suffix == ".whl" else f"{path.name.removesuffix('.tar.gz')}/src/"
    wanted = [
        file.relative_to(source).as_posix() for file in sorted(source.rglob("*")) if file.is_file()
    ]
    return [name for name in wanted if not name.endswith(".pyc") and f"{before}{name}" not in found]


def problems(package: str, path: Path) -> list[str]:
    """What keeps a file from being published."""
    project = tomllib.loads(
        (ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    found = names(path)
    out = (
        []
        if any(Path(name).name == "LICENSE" for name in found)
        else [f"{path.name}: no licence file in it"]
    )
    if any("__pycache__" in name for name in found):
        out.append(f"{path.name}: compiled files in it")
    out += [f"{path.name}: {name} is not in it" for name in missing(package, path, found)]
    if path.suffix != ".whl":
        return out
    with zipfile.ZipFile(path) as wheel:
        (metadata,) = [name for name in found if name.endswith(".dist-info/METADATA")]
        fields = email.message_from_bytes(wheel.read(metadata))
    if fields["Version"] != project["version"]:
        out.append(
            f"{path.name}: version {fields['Version']}, but pyproject.toml says "
            f"{project['version']}"
        )
    changelog = (ROOT / "packages" / package / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(project['version'])}\b", changelog, flags=re.MULTILINE):
        out.append(f"packages/{package}/CHANGELOG.md: no entry '## {project['version']}'")
    for need in fields.get_all("Requires-Dist", []):
        name = re.match(r"[A-Za-z0-9._-]+", need)
        if (
            name
            and name[0] in MEMBERS
            and name[0] != package
            and ",<1" not in need.replace("<1,", ",<1")
        ):
            out.append(
                f"{path.name}: '{need}' must allow every later 0.x of a member, with an "
                "upper bound of 1"
            )
    if not any(name.endswith("/py.typed") for name in found):
        out.append(f"{path.name}: no py.typed in it")
    return out


def main(package: str, *files: str) -> int:
    """0 where the files can be published; else 1, with a line for each problem."""
    wrong = [problem for file in files for problem in problems(package, Path(file))]
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
