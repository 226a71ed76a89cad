"""Several seeds: one split, a folder each, and an interval over seeds and items that covers."""

from __future__ import annotations

import json

import pytest

from carb_data import CarbError
from tal_rlvr.seeds import crossed_interval

np = pytest.importorskip("numpy")


def test_the_interval_of_a_small_table_is_that_of_the_formula():
    # rows 1, 3 and columns 2, 2: MS_seeds = 2 * 2 = 4, the others 0; variance 4 / 4 = 1 with 1 degree of freedom
    mean, low, high, p = crossed_interval([[1.0, 1.0], [3.0, 3.0]])
    assert (mean, low, high) == (2.0, pytest.approx(2 - 12.7062, abs=1e-3), pytest.approx(2 + 12.7062, abs=1e-3))
    assert p == pytest.approx(0.2952, abs=1e-3)  # t = 2 with 1 degree of freedom
    assert crossed_interval([[1.0, 2.0]]) == (1.5, None, None, None)
    assert crossed_interval([[0.0, 0.0], [0.0, 0.0]]) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(("between_seeds", "between_items"), [(0.0, 1.0), (1.0, 0.0), (0.3, 0.6), (0.0, 0.0)])
def test_the_interval_covers(between_seeds, between_items):
    rng = np.random.default_rng(0)
    rounds = 400
    covered = 0
    for _ in range(rounds):
        table = rng.normal(0, between_seeds, (5, 1)) + rng.normal(0, between_items, (1, 40)) + rng.normal(0, 1, (5, 40))
        _, low, high, _ = crossed_interval(table.tolist())
        covered += low <= 0 <= high
    assert covered / rounds > 0.95 - 3 * (0.95 * 0.05 / rounds) ** 0.5


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")  # the name every TRL knows
def test_seeds_share_the_split_and_are_run_once(tiny_folder, tmp_path):
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    from tal_rlvr.seeds import seed_table, train_seeds

    rows = [{"prompt": f"{n * 7919}?", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"}
            for n in range(30)]  # fmt: skip
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    overrides = {
        "model": str(tiny_folder),
        "out": str(tmp_path / "out"),
        "max_new_tokens": 36,
        "mix": {"sources": [{"form": "preference", "path": str(tmp_path / "pairs.jsonl")}], "held_out_limit": 4},
        "warmup": {"steps": 1},
        "evaluation": {"decoding": ["greedy"]},
        "grpo": {"max_steps": 1, "save_strategy": "no"},
    }
    seen = []
    results = train_seeds("demo-cpu", 2, overrides=overrides, progress=seen.append)
    assert [result.seed for result in results] == seen == [0, 1]
    held = [json.loads((tmp_path / "out" / f"seed-{n}" / "held-out" / "after-greedy.json").read_text()) for n in (0, 1)]
    assert len({tuple(o["pair"] for o in h["outcomes"]) for h in held}) == 1
    assert train_seeds("demo-cpu", 2, overrides=overrides) == results
    accuracy = seed_table(results)[0]
    assert (accuracy.decoding, accuracy.measure, accuracy.seeds, accuracy.items) == ("greedy", "accuracy", 2, 4)
    assert accuracy.change == pytest.approx(accuracy.after - accuracy.before)
    assert accuracy.change == pytest.approx(sum(accuracy.by_seed) / 2)
    with pytest.raises(CarbError, match="at least one seed"):
        train_seeds("demo-cpu", 0, overrides=overrides)
