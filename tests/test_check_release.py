"""What is checked before a package is published, on a wheel that is built here."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="builds a wheel")

from hatchling.build import build_wheel

from check_release import ROOT, problems


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT / "packages" / "carb-scorers")
    return tmp_path / str(build_wheel(str(tmp_path)))


def test_a_wheel_holds_the_forms_and_the_known_models(wheel: Path) -> None:
    assert problems("carb-scorers", wheel) == []
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "carb_scorers/resources/known_models.toml" in names
    assert {"carb_scorers/forms/rm-r1.toml", "carb_scorers/forms/mr3.toml"} <= set(names)


def test_a_wheel_without_one_of_its_data_files_is_refused(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "less").mkdir()
    less = tmp_path / "less" / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(less, "w") as archive:
        for name in whole.namelist():
            if not name.endswith("forms/mr3.toml"):
                archive.writestr(name, whole.read(name))
    assert problems("carb-scorers", less) == [
        f"{wheel.name}: carb_scorers/forms/mr3.toml is not in it"
    ]
