"""Lengths are checked before the first step."""

from __future__ import annotations

import random

import pytest

from carb_data import CarbError
from tal_rlvr import parse_judgement, run
from tal_rlvr.lengths import check_targets, fitting
from tal_rlvr.mix import Parts
from tal_rlvr.pairs import Pair, both_orders
from tal_rlvr.warmup import WarmupConfig, warmup_target

pytest.importorskip("trl", reason="needs tal-rlvr[train]")


def pair(n, words):
    return Pair(
        id=str(n), source_item=str(n), prompt="w " * words, chosen="c", rejected="r", culture="x", language="en"
    )


PARTS = Parts([pair(n, n) for n in range(1, 101)], [pair(n, n) for n in (10, 200)])


def count(rows):
    return [len(row.pair.prompt.split()) for row in rows]


def test_pairs_that_do_not_fit_are_left_out_and_counted():
    kept, lengths = fitting(PARTS, count, max_new_tokens=10, context=105)
    assert [len(part) for part in kept] == [95, 1]
    assert (lengths.room, lengths.train_pairs, lengths.train_pairs_fit, lengths.too_long) == (95, 100, 95, 5)
    assert (lengths.held_out_pairs, lengths.held_out_pairs_fit, lengths.longest_prompt) == (2, 1, 200)
    assert len(fitting(PARTS, count, max_new_tokens=10, context=None, max_prompt_tokens=20)[0].train) == 20
    assert fitting(PARTS, count, max_new_tokens=10, context=None)[1].room is None


def test_too_few_that_fit_are_refused_with_the_numbers():
    with pytest.raises(CarbError, match=r"30 of 100 training pairs fit in 30 tokens .*40 tokens less .* = 10.* 200"):
        fitting(PARTS, count, max_new_tokens=10, context=40)
    with pytest.raises(CarbError, match=r"0 of 100 .*max_prompt_tokens = 0"):
        fitting(PARTS, count, max_new_tokens=10, context=None, max_prompt_tokens=0)
    check_targets([10] * 90 + [500] * 10, 10)
    check_targets([], 10)
    with pytest.raises(CarbError, match=r"89 of 100 warm-up targets fit in max_new_tokens = 10 .*median is 10 .*500"):
        check_targets([10] * 89 + [500] * 11, 10)


def test_demo_cpu_on_carb_seed_says_that_it_cannot_learn_before_anything_is_trained(tiny_folder, tmp_path):
    overrides = {"model": str(tiny_folder), "out": str(tmp_path / "out"), "max_new_tokens": 40}
    overrides |= {"mix": {"sources": [{"form": "carb", "path": "carb-seed@2"}]}}
    with pytest.raises(CarbError, match=r"\d+ of \d+ training pairs fit in 472 tokens .*512 tokens less"):
        run("demo-cpu", overrides=overrides)  # the model takes 512 tokens
    with pytest.raises(CarbError, match=r"\d+ of 320 warm-up targets fit in max_new_tokens = 40 \(their median"):
        run("demo-cpu", overrides={**overrides, "max_prompt_tokens": 450, "out": str(tmp_path / "out2")})
    assert not (tmp_path / "out2" / "warmup").exists()


def test_a_quotation_is_short_and_shows_the_difference():
    long = pair(0, 1).model_copy(update={"chosen": "In Oslo the people eat " + "herring " * 20,
                                         "rejected": "In Oslo the people drink tea " * 9})  # fmt: skip
    for row in both_orders(long):
        for verdict in ("A", "B"):
            text = warmup_target(row, verdict, random.Random(0), WarmupConfig(steps=1, quote=True))
            (criterion,) = parse_judgement(text).criteria
            own = row.first if verdict == "A" else row.second
            assert criterion.name.endswith(f" = {verdict}")
            assert criterion.name.removesuffix(f" = {verdict}") in own
            assert criterion.name.startswith("eat" if own == long.chosen else "drink")
            assert len(criterion.name) <= 24 + 4
