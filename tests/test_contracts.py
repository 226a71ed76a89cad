"""The names that the packages promise are exported, and the models have the promised fields."""

from importlib import import_module

import pytest

PROMISED = {
    "carb_data": "Culture cultures Domain Perturbation Response BonSet Fact Provenance Citation Votes Dataset load "
    "ScoreTable",
    "carb_scorers.generate": "construct perturb",
    "carb_scorers": "Scorer ScorerSpec ScoreRequest ScoreResult evaluate open_scorer score",
    "carb_scorers.models": "LanguageModel Generation Choices Continuation",
    "carb_metrics": "bon_accuracy breakdown compare rank correlate perturbation_sensitivity "
    "cross_lingual_consistency agreement surface_floor item_analysis judge_bias",
    "tal_rlvr": "render_prompt parse_judgement Judgement FormatError correctness_reward criteria_reward total_reward "
    "ThinkAsLocalsTrainer TrainingMix check_contamination judge_as_scorer",
}
FIELDS = {
    "carb_data.Response": "id text role language culture generator perturbation original source votes",
    "carb_data.Citation": "url title accessed fact",
    "carb_data.BonSet": "id culture domain topic language prompt responses perturbed provenance family kind place form",
    "carb_data.Fact": "id topic domain culture statement kind source also valid_until",
    "carb_scorers.ScoreRequest": "request_id prompt candidates culture language",
    "carb_scorers.ScoreResult": "request_id scores rationale usage error errors",
    "carb_scorers.ScorerSpec": "name kind model revision parameters comparative in_flight",
}
COMMANDS = (
    "eval run report compare validity bon train serve doctor models "
    "data.list data.show data.check data.build data.fetch data.split data.construct data.perturb "
    "review.serve review.page review.collect review.apply results.add results.check results.site"
)


@pytest.mark.parametrize("module", PROMISED)
def test_promised_names_are_exported(module: str) -> None:
    assert set(PROMISED[module].split()) <= set(import_module(module).__all__)


@pytest.mark.parametrize("model", FIELDS)
def test_promised_fields_are_there(model: str) -> None:
    module, _, name = model.rpartition(".")
    assert set(FIELDS[model].split()) <= set(getattr(import_module(module), name).model_fields)


def test_the_commands_are_those_that_are_promised() -> None:
    from carb_cli.main import COMMANDS as single
    from carb_cli.main import GROUPS

    grouped = {f"{group}.{name}" for group, (own, _) in GROUPS.items() for name in own}
    assert {*single, *grouped} == set(COMMANDS.split())
