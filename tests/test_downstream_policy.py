"""From ``carb train-policy`` to a study: tiny policies, optimised against scorers, are cells like any others."""

import csv
import json
import re
from pathlib import Path

import pytest

from carb_cli import main
from carb_cli.study import read_study, run_study
from carb_data import CarbError
from carb_data.tasks import open_task
from carb_scorers import open_scorer
from carb_scorers.bon import open_policy

pytest.importorskip("trl", reason="needs the extra tal-rlvr[train]")

from tal_rlvr.policy.divergence import answer_divergences
from tiny_models import folder

ROOT = Path(__file__).parents[1]
QUESTIONS = 24
SCORERS = {"long": "baseline:length", "luck": "baseline:random", "told": "baseline:label"}


@pytest.fixture(scope="module")
def blend(tmp_path_factory):
    """Questions in BLEnD's form, of which every answer with an "e" is right, so that noise is sometimes right."""
    place = tmp_path_factory.mktemp("blend")
    (place / "annotations").mkdir()
    (place / "questions").mkdir()
    answers = [{"answers": [letter], "en_answers": [letter], "count": 3} for letter in "eaiou"]
    items = {
        f"q{n}": {"question": f"What {n}?", "en_question": f"What {n}?", "annotations": answers, "idks": {}}
        for n in range(QUESTIONS)
    }
    (place / "annotations" / "UK_data.json").write_text(json.dumps(items))
    with (place / "questions" / "UK_questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["ID", "Topic"], *([key, "Food"] for key in items)])
    return f"blend:{place}?places=UK"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("models"), "llama", "CausalLM", chat=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, blend, tiny):
    """A folder with a run for each scorer."""
    place = tmp_path_factory.mktemp("runs")
    for name, spec in SCORERS.items():
        assert main(call(tiny, spec, blend, place / name)) == 0
    return place


def call(policy, scorer, task, out, *more, rate="1e-3"):
    sizes = "--steps 2 --generations 4 --prompts-per-step 1 --max-new-tokens 6 --eval-samples 2 --eval-limit 4"
    fixed = ["--learning-rate", rate, "--no-shots", "--quiet"]
    given = ["--policy", str(policy), "--scorer", scorer, "--task", task, "--out", str(out)]
    return ["train-policy", *given, *sizes.split(), *fixed, *more]


def study_file(place, trained, blend, tiny, extra=""):
    scorers = "".join(f'[[scorer]]\nname = "{name}"\nspec = "{spec}"\n' for name, spec in SCORERS.items())
    runs = "".join(f'[[optimised]]\nname = "grpo"\nscorer = "{n}"\nrun = "{trained / n}"\n' for n in SCORERS)
    (place / "study.toml").write_text(
        f'out = "out"\nn = 2\nshots = false\n{scorers}{runs}'
        '[[benchmark]]\nname = "seed"\ndata = "carb-seed@1"\nlimit = 40\nties = "shared"\n'
        f'[[policy]]\nname = "optimised-long"\nspec = "hf:{trained / "long" / "model"}?max_new_tokens=6"\n'
        f'[[task]]\nname = "uk"\nspec = "{blend}"\n{extra}'
    )
    return place / "study.toml"


@pytest.mark.parametrize("architecture", ["gemma3", "qwen2"])
def test_the_divergence_is_that_of_whole_sequences(tmp_path, architecture):
    """Behind a prompt longer than a sliding window, for answers of different lengths in one pass."""
    import torch
    from transformers import AutoModelForCausalLM

    folders = [folder(tmp_path, architecture, "CausalLM", seed=seed) for seed in (0, 1)]
    model, other = (AutoModelForCausalLM.from_pretrained(f, dtype=torch.float32).eval() for f in folders)
    generator = torch.Generator().manual_seed(0)
    prompt, *answers = (torch.randint(10, 600, (n,), generator=generator).tolist() for n in (70, 7, 3, 1))
    found = answer_divergences(model, other, prompt, answers, [8, 3, 2])
    for kl, answer, count in zip(found, answers, [8, 3, 2], strict=True):
        ids = torch.tensor([[*prompt, *answer]])
        with torch.no_grad():
            p, q = (torch.log_softmax(one(input_ids=ids).logits[0, 69:], -1) for one in (model, other))
        assert kl == pytest.approx(float((p.exp() * (p - q)).sum(-1)[:count].sum()), rel=1e-4)


def test_an_alarm_can_be_raised_from_the_command_line(tmp_path, blend, tiny, capsys):
    """Limits that any move passes, and others that none does."""
    quiet = [f"{name}=1000000" for name in ("length", "language", "repetition", "same", "empty", "grade")]
    strict = ["--alarm-limit", *quiet, "kl=0.000001", "window=4", "--fail-on-alarm"]
    assert main(call(tiny, "baseline:length", blend, tmp_path / "strict", *strict)) == 1
    assert "Alarm (kl, after training)" in capsys.readouterr().out
    result = json.loads((tmp_path / "strict" / "policy.json").read_text())
    assert {alarm["kind"] for alarm in result["alarms"]} == {"kl"}
    assert result["config"]["limits"]["kl"] == 1e-6


def test_a_run_writes_and_shows_what_moved(tmp_path, blend, tiny, capsys):
    more = ["--method", "dpo", "--eval-task", f"{blend}&match=exact"]
    assert main(call(tiny, "baseline:length", blend, tmp_path / "out", *more)) == 0
    shown = capsys.readouterr().out
    for part in ("grade of the task", "match=exact, %", "KL, nats per answer", "In training", "Change of the grade"):
        assert part in shown, shown
    result = json.loads((tmp_path / "out" / "policy.json").read_text())
    assert result["tasks"][0]["after"]["grade"] is not None
    assert result["change"]["low"] is not None
    for name in ("reward", "kl", "length", "repetition"):
        assert (tmp_path / "out" / f"{name}.svg").stat().st_size > 0
    listed = (tmp_path / "out" / "trained-on.txt").read_text().split()
    assert listed == result["train_items"]
    rest = open_task(f"{blend}&without={tmp_path / 'out' / 'trained-on.txt'}")
    assert {p.source_item for p in rest.prompts} == {f"blend:q{n}" for n in range(QUESTIONS)} - set(listed)


def test_an_alarm_can_be_a_failed_check(tmp_path, blend, tiny, capsys):
    """A rate that breaks the policy: answers that differ from before in whatever way."""
    more = ["--fail-on-alarm", "--beta", "0", "--json"]
    code = main(call(tiny, "baseline:length", blend, tmp_path / "out", *more, rate="3"))
    result = json.loads(capsys.readouterr().out)
    assert {alarm["kind"] for alarm in result["alarms"]} & {"kl", "length", "collapse", "repetition", "empty"}
    assert code == 1


def test_optimised_policies_are_cells_of_a_study(tmp_path, trained, blend, tiny, monkeypatch):
    from carb_cli.study import sampling

    result = run_study(study_file(tmp_path, trained, blend, tiny))
    assert result.failures == ()
    assert [(o.id, o.kind) for o in result.outcomes] == [("bon/optimised-long/uk", "bon"), ("grpo/uk", "optimised")]
    seen = {item for name in SCORERS for item in (trained / name / "trained-on.txt").read_text().split()}
    last = result.outcomes[-1]
    assert last.prompts == QUESTIONS - len(seen) > 0
    assert last.start is not None
    for scorer in result.scorers:
        assert (scorer.downstream["grpo/uk"].n, scorer.downstream["grpo/uk"].errors) == (last.prompts, 0)
        assert scorer.downstream["bon/optimised-long/uk"].value is not None
    asked = (tmp_path / "out" / "asked" / "uk.txt").read_text().split()
    assert sorted(asked) == sorted(f"blend:q{n}" for n in range(QUESTIONS))
    pool = (tmp_path / "out" / "samples" / "optimised--grpo--long--uk.jsonl").read_text().splitlines()
    assert not {f"blend:{json.loads(line)['prompt_id'].split('/')[1]}" for line in pool[1:]} & seen

    def never(spec):
        raise AssertionError(f"{spec} was opened again")

    monkeypatch.setattr(sampling, "open_policy", never)
    assert run_study(tmp_path / "study.toml", open_with=never) == result


def test_an_entry_has_its_own_length_of_answers(tmp_path, trained, blend, tiny, monkeypatch):
    """Six tokens in training; one entry answers with two. That entry alone is sampled anew, and the old put aside."""
    from carb_cli.study import sampling

    file = study_file(tmp_path, trained, blend, tiny)
    first = run_study(file)
    given = f'run = "{trained / "luck"}"\n'
    file.write_text(file.read_text().replace(given, f"{given}max_new_tokens = 2\n"))
    opened = []

    def watch(spec):
        opened.append(spec)
        return open_policy(spec)

    monkeypatch.setattr(sampling, "open_policy", watch)
    second = run_study(file)
    assert second.failures == ()
    assert opened == [f"hf:{(trained / 'luck' / 'model').resolve()}?temperature=0&max_new_tokens=2"]
    samples = tmp_path / "out" / "samples"
    lengths = {
        name: json.loads((samples / f"{name}--uk.jsonl").read_text().splitlines()[0])["policy"]["parameters"]
        for name in ("optimised--grpo--long", "optimised--grpo--luck", "start--grpo")
    }
    assert [found["max_new_tokens"] for found in lengths.values()] == [6, 2, 6]
    assert len(list(samples.glob("optimised--grpo--luck--uk.old-*.jsonl"))) == 1
    for was, now in zip(first.scorers, second.scorers, strict=True):
        assert now.name == "luck" or was == now
    assert run_study(file) == second
    assert len(opened) == 1


def test_a_length_beside_a_policy_is_told_where_to_go(tmp_path, trained, blend, tiny):
    wrong = '[[optimised]]\nname = "dpo"\nscorer = "long"\npolicy = "hf:x"\nmax_new_tokens = 4\n'
    with pytest.raises(CarbError, match=r"write it into the spec of policy, as \?max_new_tokens=4"):
        read_study(study_file(tmp_path, trained, blend, tiny, wrong))


def test_a_run_of_another_scorer_is_refused(tmp_path, trained, blend, tiny):
    file = study_file(tmp_path, trained, blend, tiny)
    file.write_text(file.read_text().replace(f'run = "{trained / "luck"}"', f'run = "{trained / "told"}"'))
    with pytest.raises(CarbError, match="optimised against 'baseline:label', and not against scorer 'luck'"):
        run_study(file)


def test_a_policy_that_is_gone_and_prompts_that_are_not_new_are_failures(tmp_path, trained, blend, tiny):
    first = (trained / "long" / "trained-on.txt").read_text().split()[0].removeprefix("blend:")
    known = f'[[task]]\nname = "known"\nspec = "{blend}&ids={first}"\n'
    gone = f'[[optimised]]\nname = "dpo"\nscorer = "long"\npolicy = "hf:{tmp_path / "gone"}"\n'
    result = run_study(study_file(tmp_path, trained, blend, tiny, known + gone))
    told = {(f.scorer, f.cell): f.reason for f in result.failures}
    assert set(told) == {(name, "grpo/known") for name in SCORERS} | {("long", "dpo/uk"), ("long", "dpo/known")}
    assert "shares a source item with training" in told["luck", "grpo/known"]
    assert "no model folder" in told["long", "dpo/uk"]


def test_the_documented_study_is_valid(tmp_path, monkeypatch):
    """Every ``study.toml`` in the documentation is read, and its task specs are known."""
    pages = [ROOT / "docs" / "how-to" / "study.md", ROOT / "docs" / "experiments" / "downstream.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"^```toml study\.toml\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert found
    monkeypatch.setenv("CARB_DATA_DIR", str(tmp_path / "data"))
    for name in ("blend", "omgeval"):
        (tmp_path / "data" / name).mkdir(parents=True)
    kinds, runs = set(), 0
    for number, content in enumerate(found):
        (tmp_path / f"{number}.toml").write_text(content)
        study = read_study(tmp_path / f"{number}.toml")
        assert len(study.scorer) >= 8
        kinds |= {scorer.spec.partition(":")[0] for scorer in study.scorer}
        for task in study.task:
            with pytest.raises(CarbError) as caught:  # its files are not here, and nothing else is wrong
                open_task(task.spec, judge=lambda asked: [None] * len(asked))
            assert "does not hold" in str(caught.value) or "Cannot read" in str(caught.value), caught.value
        judges = [task.judge for task in study.task if task.judge is not None]
        for spec in [*(scorer.spec for scorer in study.scorer), *judges]:
            if not spec.startswith("baseline:"):
                with pytest.raises(CarbError, match="no model folder"):
                    open_scorer(re.sub(r"\b[A-Z]{4,}\b", "./absent", spec))
        runs += sum(entry.run is not None for entry in study.optimised)
    assert runs
    assert {"baseline", "implicit", "judge", "classifier", "think"} <= kinds
