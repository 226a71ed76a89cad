"""The narrow road, end to end: real data, a real language model, through the public names and the command line."""

import json
import random
from pathlib import Path

import polars as pl
import pytest

from carb_cli import main
from carb_data import BonSet, Dataset, load
from carb_scorers import evaluate


def with_other_label(item: BonSet, shift: int) -> BonSet:
    """The same texts under the same ids, with another one called right, and everything perturbed left out."""
    roles = [r.role for r in item.responses]
    turned = roles[shift:] + roles[:shift]
    responses = tuple(r.model_copy(update={"role": role}) for r, role in zip(item.responses, turned, strict=True))
    return BonSet.model_validate(item.model_copy(update={"responses": responses, "perturbed": ()}).model_dump())


@pytest.mark.real_model
@pytest.mark.parametrize("kind", ["judge:{}?batch_tokens={}", "implicit:{}?ref=none&batch_tokens={}"])
def test_labels_order_and_batches_change_no_score_of_a_real_model(gemma: Path, kind: str) -> None:
    items = [item for item in load("carb-seed") if item.form == "short" or len(item.prompt_text) < 300][::100][:4]
    other = random.Random(0).sample([with_other_label(item, 1) for item in items], len(items))
    together = evaluate(Dataset(with_other_label(item, 0) for item in items), [kind.format(gemma, 4096)]).frame
    alone = evaluate(Dataset(other), [kind.format(gemma, 1)]).frame
    joined = together.join(alone, on=["item_id", "response_id"], suffix="_alone")
    assert joined.height == together.height
    assert together["score"].null_count() == 0
    assert joined.select((pl.col("score") - pl.col("score_alone")).abs().max()).item() <= 1e-5
    assert joined["role"].to_list() != joined["role_alone"].to_list()


def test_blend_through_the_command_line(public_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "blend.jsonl"
    assert main(["data", "build", "blend", "--source", str(public_data / "blend"), "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["skipped"] == sum(report["reasons"].values()) > 0

    dataset = load(out)
    assert len(dataset) == report["built"]
    assert all(item.family and item.rejected and item.provenance.method == "human-vote" for item in dataset)

    runs = tmp_path / "run"
    scorers = ["--scorer", "baseline:length", "--scorer", "baseline:random"]
    assert main(["run", "--data", str(out), "--limit", "200", *scorers, "--out", str(runs)]) == 0
    capsys.readouterr()
    assert main(["report", str(runs), "--json", "-", "--html", str(tmp_path / "r.html")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 190 < found["dataset"]["sets"] <= 200, "families stay whole"
