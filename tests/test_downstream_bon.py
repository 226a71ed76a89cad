"""Best-of-N with a real language model on the published questions."""

import anyio
import pytest

from carb_data.tasks import open_task
from carb_scorers import open_scorer
from carb_scorers.bon import bon_curve, collect, grade_pool, open_policy, score_pool
from carb_scorers.bon.policy import policy_prompts

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def task(public_data):
    return open_task(f"blend:{public_data / 'blend'}?places=UK,China&distinct=true&limit=4")


def draw(task, spec, n, path):
    async def run():
        policy = open_policy(spec)
        try:
            return await collect(policy, task, n, path)
        finally:
            await policy.aclose()

    return anyio.run(run)


def test_greedy_is_what_transformers_generates(gemma, task, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from carb_scorers.bon.policy import tidy
    from carb_scorers.models.tokens import prompt_ids

    pool = draw(task, f"hf:{gemma}?temperature=0&max_new_tokens=6", 2, tmp_path / "pool.jsonl")
    tokenizer = AutoTokenizer.from_pretrained(gemma)
    model = AutoModelForCausalLM.from_pretrained(gemma, dtype=torch.float32).eval()
    for one in policy_prompts(task)[:2]:
        ids = torch.tensor([prompt_ids(tokenizer, one.prompt)])
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)
        wanted = tidy(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True), one_line=True)
        assert [sample.text for sample in pool.samples[one.id]] == [wanted, wanted]
        assert wanted


def test_samples_differ_and_scorers_pick_among_them(gemma, task, tmp_path):
    pool = draw(task, f"hf:{gemma}?temperature=0.8&max_new_tokens=6", 4, tmp_path / "pool.jsonl")
    assert pool.errors == 0
    assert any(len({sample.text for sample in row}) > 1 for row in pool.samples.values())
    assert all("\n" not in sample.text for row in pool.samples.values() for sample in row)
    grades = grade_pool(pool, task)

    async def score(spec):
        scorer = open_scorer(spec)
        try:
            return await score_pool(pool, task, scorer)
        finally:
            await scorer.aclose()

    for spec in ("baseline:length", f"implicit:{gemma}?ref=none"):
        result = bon_curve(pool, task, anyio.run(score, spec), grades)
        assert (len(result.prompts), result.errors) == (4, 0)
        assert all(0 <= point.picked <= point.best <= 1 for point in result.curve)
