"""``carb eval`` on real architectures: what they are is read from their folders."""

from pathlib import Path

import pytest

from carb_cli import main


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [("llama", "SequenceClassification", "classifier"), ("qwen2", "CausalLM", "judge")],
)
def test_a_model_folder_is_evaluated_as_what_it_is(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, head: str, kind: str
) -> None:
    pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
    import tiny_models

    folder = tiny_models.folder(base, name, head, chat=True)
    out = tmp_path / "run"
    code = main(["eval", str(folder), "--limit", "4", "--quiet", "--no-open", "--out", str(out)])
    printed = capsys.readouterr().out
    # The letters of a random judge may hold too little of the probability to be read.
    assert code == ("failed on every set" in printed)
    assert f"{kind}:" in printed
    assert (out / "report.html").is_file()
