"""The study: planted truths are found, noise is not, and every cell is computed once."""

import csv
import hashlib
import json
import shutil

import anyio
import numpy as np
import pytest
from scipy import stats

from carb_cli.study import read_study, run_study
from carb_cli.study.analysis import mean_of, predict
from carb_cli.study.result import Measured, ScorerRow
from carb_data import BonSet, CarbError, Dataset, Provenance, Response
from carb_metrics import correlate_uncertain
from carb_scorers.contract import ScoreResult, ScorerSpec


def row(name, downstream, **benchmarks):
    return ScorerRow(
        name=name,
        spec=name,
        benchmarks={key: Measured(value=value) for key, value in benchmarks.items()},
        downstream={"o": Measured(value=downstream)},
        curves={},
    )


class TestPlantedTruth:
    """Simulated scorers whose true correlation is known."""

    SCORERS = 15
    STUDIES = 600

    def studies(self, correlation):
        rng = np.random.default_rng(8)
        for _ in range(self.STUDIES):
            x = rng.normal(size=self.SCORERS)
            y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=self.SCORERS)
            yield [row(str(i), 0.5 + 0.1 * b, carb=0.5 + 0.1 * a) for i, (a, b) in enumerate(zip(x, y, strict=True))]

    def test_a_known_correlation_is_recovered(self):
        truth = 0.8
        found = [predict(rows, "o", "carb", influence=False) for rows in self.studies(truth)]
        covered = np.mean([p.pearson.low <= truth <= p.pearson.high for p in found])
        expected = truth * (1 - (1 - truth**2) / (2 * self.SCORERS))  # r is biased by about ρ(1−ρ²)/2n (Fisher 1915)
        assert np.mean([p.pearson.estimate for p in found]) == pytest.approx(expected, abs=0.015)
        assert covered == pytest.approx(0.95, abs=0.03)
        assert np.mean([p.pearson.p < 0.05 for p in found]) > 0.95  # power at 15 scorers

    def test_noise_is_found_at_the_nominal_level(self):
        found = [predict(rows, "o", "carb", influence=False) for rows in self.studies(0.0)]
        for kind in ("pearson", "spearman", "kendall"):
            rate = np.mean([getattr(p, kind).p < 0.05 for p in found])
            assert rate == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / self.STUDIES)), kind
        assert np.mean([p.fit.p < 0.05 for p in found]) == pytest.approx(0.05, abs=0.027)

    def test_another_benchmark_that_predicts_as_well_is_told_apart_at_the_nominal_level(self):
        rng = np.random.default_rng(3)
        ps = []
        for _ in range(300):
            truth = rng.normal(size=self.SCORERS)
            a, b, y = (truth + rng.normal(size=self.SCORERS) for _ in range(3))
            rows = [row(str(i), y[i], carb=a[i], other=b[i]) for i in range(self.SCORERS)]
            against = predict(rows, "o", "carb", ["other"], influence=False).against
            ps.append(against["other"].difference.p)
        assert np.mean(np.array(ps) < 0.05) == pytest.approx(0.05, abs=0.04)

    def test_what_the_covariate_explains_is_taken_out(self):
        """Benchmark and downstream share nothing but general ability."""
        rng = np.random.default_rng(5)
        ability = rng.normal(size=200)
        rows = [
            row(str(i), ability[i] + 0.5 * rng.normal(), carb=ability[i] + 0.5 * rng.normal(), general=ability[i])
            for i in range(200)
        ]
        found = predict(rows, "o", "carb", covariate="general")
        assert found.pearson.estimate > 0.7
        assert found.partial.pearson.low < 0 < found.partial.pearson.high
        assert abs(found.partial.pearson.estimate) < 0.2


class TestAnalysis:
    def test_scorers_with_a_missing_cell_are_left_out_and_said(self):
        rows = [row("a", 1.0, carb=1.0), row("b", 2.0, carb=2.0), row("c", 3.0, carb=3.5), row("d", None, carb=4.0)]
        found = predict(rows, "o", "carb")
        assert (found.n, found.scorers) == (3, ("a", "b", "c"))
        assert [one.label for one in found.without] == ["a", "b", "c"]

    def test_nothing_gives_nulls(self):
        found = predict([row("a", None, carb=0.5)], "o", "carb", ["x"], "y")
        assert (found.n, found.pearson.estimate, found.fit.slope) == (0, None, None)
        assert found.against["x"].difference.estimate is None

    def test_errors_bases_and_a_shared_source(self):
        """The same numbers as the metrics give for standard errors, and relatives count as one."""
        rng = np.random.default_rng(9)
        skill = rng.normal(0.5, 0.1, 12)
        x, y = skill + rng.normal(0, 0.05, 12), skill + rng.normal(0, 0.05, 12)
        half = 0.05 * stats.norm.ppf(0.975)

        def cell(value):
            return Measured(value=value, low=value - half, high=value + half, n=100)

        rows = [
            ScorerRow(name=str(i), spec="", benchmarks={"carb": cell(a)}, downstream={"o": cell(b)}, curves={})
            for i, (a, b) in enumerate(zip(x, y, strict=True))
        ]
        bases = {str(i): str(i // 2) for i in range(12)}
        found = predict(rows, "o", "carb", bases=bases, shared_source=True).uncertain
        error = [0.05] * 12
        expected = correlate_uncertain(x, y, error, error, [i // 2 for i in range(12)], shared_source=True)
        assert found.model_dump(exclude={"observed", "corrected"}) == pytest.approx(
            expected.model_dump(exclude={"observed", "corrected"})
        )
        assert found.corrected.model_dump() == pytest.approx(expected.corrected.model_dump())
        assert found.clusters == 6
        assert found.corrected.estimate > found.observed.estimate
        assert predict(rows, "o", "carb").uncertain is None

    def test_mean_with_clusters_by_hand(self):
        """Two clusters with means 0 and 1 of two prompts each say nothing, and a quality stays between 0 and 1."""
        found = mean_of([0, 0, 1, 1], ["a", "a", "b", "b"], 0.95, 3)
        assert (found.value, found.n, found.errors) == (0.5, 4, 3)
        assert (found.low, found.high) == (0.0, 1.0)
        assert mean_of([], [], 0.95, 1) == Measured(value=None, errors=1)


def skilled(name, text):
    """A scorer's opinion of a text: its truth, blurred by noise that shrinks with the scorer's skill."""
    skill = float(name.rpartition("-")[2])
    truth = float(text.rpartition(" ")[2])
    unit = int.from_bytes(hashlib.sha256(f"{name}|{text}".encode()).digest()[:6], "big") / 2**48
    return skill * truth + (1 - skill) * (2 * unit - 1)


class Skilled:
    """A scorer with a known skill, which counts its requests."""

    def __init__(self, spec):
        self.spec = ScorerSpec(name=spec, kind="test", comparative=False)
        self.requests = 0

    async def score(self, requests):
        self.requests += len(requests)
        return [
            ScoreResult(request_id=r.request_id, scores={c.id: skilled(self.spec.name, c.text) for c in r.candidates})
            for r in requests
        ]

    async def aclose(self):
        pass


class Openers:
    """Opens skilled scorers and remembers them."""

    def __init__(self):
        self.opened = []

    def __call__(self, spec):
        if "broken" in spec:
            raise CarbError("no such model")
        self.opened.append(Skilled(spec))
        return self.opened[-1]

    @property
    def requests(self):
        return sum(scorer.requests for scorer in self.opened)


class Closing(Openers):
    """Counts how many of them are closed."""

    def __init__(self):
        super().__init__()
        self.closed = 0

    def __call__(self, spec):
        scorer = super().__call__(spec)

        async def aclose():
            self.closed += 1

        scorer.aclose = aclose
        return scorer


SKILLS = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]
PROMPTS = 60


@pytest.fixture
def study(tmp_path):
    """A study of ten scorers of known skill: sets, a pool from a file, and a task in BLEnD's form."""
    sets = []
    for n in range(150):
        responses = tuple(
            Response(
                id=f"r{i}", text=f"set {n} answer {i} {int(i == 0)}", role="rejected" if i else "chosen", language="en"
            )
            for i in range(4)
        )
        sets.append(
            BonSet(
                id=f"set-{n}",
                culture="thai",
                domain="values",
                language="en",
                prompt=f"Question {n}?",
                responses=responses,
                provenance=Provenance(source="test", license="CC0-1.0", method="authored"),
            )
        )
    Dataset(sets).save(tmp_path / "sets.jsonl")
    rng = np.random.default_rng(1)
    (tmp_path / "blend" / "annotations").mkdir(parents=True)
    (tmp_path / "blend" / "questions").mkdir()
    items, lines = {}, []
    for n in range(PROMPTS):
        answers = [{"answers": [f"right{n}"], "en_answers": [f"right{n}"], "count": 5}]
        items[f"q{n}"] = {"question": f"Q{n}?", "en_question": f"Q{n}?", "annotations": answers, "idks": {}}
        truths = rng.random(16) < 0.3
        texts = [f"right{n} {i} {1}" if truth else f"wrong {i} {0}" for i, truth in enumerate(truths)]
        lines.append(json.dumps({"prompt_id": f"US/q{n}/en", "responses": texts}))
    (tmp_path / "blend" / "annotations" / "US_data.json").write_text(json.dumps(items))
    with (tmp_path / "blend" / "questions" / "US_questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["ID", "Topic"], *([key, "Food"] for key in items)])
    (tmp_path / "responses.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "general.csv").write_text("scorer,score\n" + "".join(f"s{i},{i % 3}\n" for i in range(len(SKILLS))))
    scorers = "".join(f'[[scorer]]\nname = "s{i}"\nspec = "test:skill-{skill}"\n' for i, skill in enumerate(SKILLS))
    (tmp_path / "study.toml").write_text(
        f"""
out = "out"
covariate = "general"
{scorers}
[[benchmark]]
name = "sets"
data = "sets.jsonl"
limit = 120
[[benchmark]]
name = "general"
file = "general.csv"
[[policy]]
name = "file"
spec = "file:{tmp_path / "responses.jsonl"}"
[[task]]
name = "us"
spec = "blend:{tmp_path / "blend"}?places=US"
"""
    )
    return tmp_path / "study.toml"


class TestRun:
    def test_finds_that_skill_on_sets_is_skill_at_picking(self, study):
        result = run_study(study, open_with=Openers())
        first = result.predictions[0]
        assert (first.benchmark, first.outcome, first.n) == ("sets", "bon/file/us", len(SKILLS))
        assert first.pearson.estimate > 0.9
        assert first.pearson.low > 0.6
        assert first.spearman.estimate > 0.85
        assert list(first.against) == ["general"]
        assert first.covariate == "general"
        assert result.failures == ()
        (outcome,) = result.outcomes
        assert outcome.random == pytest.approx(0.3, abs=0.05)
        assert outcome.best > 0.9
        best = result.scorers[-1]
        assert [point.n for point in best.curves["bon/file/us"]] == [1, 2, 4, 8, 16]
        assert best.downstream["bon/file/us"].value > outcome.random + 0.5
        assert best.curves["bon/file/us"][0].picked == pytest.approx(outcome.random)

    def test_writes_what_carb_validity_reads(self, study):
        result = run_study(study, open_with=Openers())
        out = study.parent / "out"
        assert json.loads((out / "study.json").read_text())["schema"] == "carb.study/1"
        for name in (*result.figures, "table.csv", "curves.csv"):
            assert (out / name).stat().st_size > 0
        assert len(result.figures) == 4
        ranks = (out / "figures" / "rank-correlations.svg").read_text()
        assert all(name in ranks for name in ("bon/file/us", "sets", "general"))
        with (out / "points-bon--file--us.csv").open() as lines:
            rows = list(csv.DictReader(lines))
        assert list(rows[0]) == ["scorer", "benchmark", "downstream", "general"]
        assert len(rows) == len(SKILLS)

    def test_every_cell_is_computed_once(self, study):
        opener = Openers()
        first = run_study(study, open_with=opener)
        assert opener.requests == len(SKILLS) * (120 + PROMPTS)
        again = Openers()
        assert run_study(study, open_with=again) == first
        assert again.opened == []

    def test_it_can_be_called_where_an_event_loop_runs(self, study):
        """As in a notebook."""

        async def cell():
            return run_study(study, open_with=Openers())

        found = anyio.run(cell)
        shutil.rmtree(study.parent / "out")
        assert found == run_study(study, open_with=Openers())
        assert found.failures == ()

    def test_a_new_scorer_is_all_that_is_computed(self, study):
        run_study(study, open_with=Openers())
        study.write_text(study.read_text() + '[[scorer]]\nname = "new"\nspec = "test:new-0.6"\n')
        opener = Openers()
        result = run_study(study, open_with=opener)
        assert [scorer.spec.name for scorer in opener.opened] == ["test:new-0.6"]
        assert opener.requests == 120 + PROMPTS
        assert result.predictions[0].n == len(SKILLS) + 1

    def test_goes_on_after_an_interruption(self, study):
        class Stops(Openers):
            def __call__(self, spec):
                if len(self.opened) == 4:
                    raise KeyboardInterrupt
                return super().__call__(spec)

        with pytest.raises(KeyboardInterrupt):
            run_study(study, open_with=Stops())
        rest = Openers()
        result = run_study(study, open_with=rest)
        assert len(rest.opened) == len(SKILLS) - 4
        assert result.predictions[0].n == len(SKILLS)

    def test_a_broken_scorer_is_a_failure_and_not_the_end(self, study):
        study.write_text(study.read_text() + '[[scorer]]\nname = "bad"\nspec = "test:broken"\n')
        result = run_study(study, open_with=Openers())
        assert {(f.scorer, f.cell) for f in result.failures} == {("bad", "benchmark sets"), ("bad", "bon/file/us")}
        assert result.predictions[0].n == len(SKILLS)

    def test_optimised_policies_are_an_outcome_of_their_own(self, study, tmp_path):
        text = study.read_text()
        for i, skill in enumerate(SKILLS[:5]):
            answers = [
                {"prompt_id": f"US/q{n}/en", "text": f"right{n} 1" if n < 60 * skill else "wrong 0"}
                for n in range(PROMPTS)
            ]
            (tmp_path / f"opt{i}.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
            text += f'[[optimised]]\nname = "grpo"\nscorer = "s{i}"\npolicy = "file:{tmp_path / f"opt{i}.jsonl"}"\n'
        study.write_text(text)
        result = run_study(study, open_with=Openers())
        values = [scorer.downstream["grpo/us"].value for scorer in result.scorers[:5]]
        assert values == pytest.approx(SKILLS[:5])
        found = next(p for p in result.predictions if p.outcome == "grpo/us" and p.benchmark == "sets")
        assert found.n == 5

    def test_a_policy_that_has_changed_is_asked_anew_and_its_old_answers_are_kept(self, study, tmp_path):
        before = run_study(study, open_with=Openers()).outcomes[0].random
        file = tmp_path / "responses.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rows = [{**row, "responses": [f"right{n} {i} 1" for i in range(16)]} for n, row in enumerate(rows)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert run_study(study, open_with=Openers()).outcomes[0].random == 1 > before
        assert len(list((tmp_path / "out" / "samples").glob("file--us.old-*.jsonl"))) == 1

    def test_a_policy_is_opened_once_for_all_tasks(self, study, monkeypatch):
        from carb_cli.study import sampling

        opened, opener = [], sampling.open_policy
        monkeypatch.setattr(sampling, "open_policy", lambda spec: opened.append(spec) or opener(spec))
        text = study.read_text()
        text += text[text.index("[[task]]") :].replace('"us"', '"exact"').replace("places=US", "places=US&match=exact")
        study.write_text(text)
        result = run_study(study, open_with=Openers())
        assert [outcome.id for outcome in result.outcomes] == ["bon/file/us", "bon/file/exact"]
        assert len(opened) == 1

    def test_a_judge_is_asked_once_and_closed(self, study, tmp_path):
        """OMGEval's form, with a judge that prefers what is true."""
        (tmp_path / "omg" / "data").mkdir(parents=True)
        (tmp_path / "omg" / "model_outputs" / "spanish").mkdir(parents=True)
        (tmp_path / "omg" / "data" / "OMGEval_Spanish_local.txt").write_text("A?\nB?\n")
        rows = [{"instruction": text, "output": f"{text} 0.5"} for text in ("A?", "B?")]
        (tmp_path / "omg" / "model_outputs" / "spanish" / "gpt4.json").write_text(json.dumps(rows))
        answers = [{"prompt_id": f"omgeval/spanish/{n}", "responses": ["right 1", "wrong 0"] * 8} for n in range(2)]
        (tmp_path / "responses.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
        text = study.read_text()
        task = f'[[task]]\nname = "omg"\nspec = "omgeval:{tmp_path / "omg"}?languages=spanish&reference=gpt4"\n'
        study.write_text(text[: text.index("[[task]]")] + task + 'judge = "test:judge-1.0"\n')
        opener = Closing()
        result = run_study(study, open_with=opener)
        assert (result.outcomes[0].random, result.outcomes[0].best) == (0.5, 1)
        assert opener.closed == len(opener.opened) == len(SKILLS) + 1
        again = Closing()
        assert run_study(study, open_with=again) == result
        assert again.opened == []

    def test_a_run_folder_can_be_the_benchmark(self, study):
        run_study(study, open_with=Openers())
        folders = sorted((study.parent / "out" / "runs").glob("*/s9-*"))
        study.write_text(study.read_text() + f'[[benchmark]]\nname = "old"\nrun = "{folders[0]}"\n')
        result = run_study(study, open_with=Openers())
        assert result.scorers[9].benchmarks["old"].value == result.scorers[9].benchmarks["sets"].value
        assert len(result.failures) == len(SKILLS) - 1


class TestConfig:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (lambda text: text + "\n[[scorers]]\n", "did you mean 'scorer'"),
            (lambda text: text.replace('name = "s1"', 'name = "s0"'), "several [[scorer]] are named s0"),
            (lambda text: text.replace('covariate = "general"', 'covariate = "x"'), "covariate = 'x'"),
            (lambda text: text.replace('covariate = "general"', 'covariate = "sets"'), "same benchmark"),
            (lambda text: text.replace('data = "sets.jsonl"', ""), "exactly one of data, run and file"),
            (lambda text: text.replace("limit = 120", "limit = 0"), "benchmark.0.limit"),
            (lambda text: text.replace('name = "us"', 'name = "../us"'), "task.0.name"),
            (lambda text: text + '[[optimised]]\nscorer = "s99"\npolicy = "file:x"\n', "s99"),
            (lambda text: text + '[[optimised]]\nscorer = "s1"\n', "needs either run or policy"),
            (lambda text: text + '[[optimised]]\nscorer = "s1"\npolicy = "file:x"\n' * 2, "optimised of s1"),
            (lambda text: "out = ", "is not TOML"),
            (lambda text: text.replace('out = "out"', ""), "out is missing"),
        ],
    )
    def test_mistakes_are_told(self, study, change, told):
        study.write_text(change(study.read_text()))
        with pytest.raises(CarbError) as caught:
            read_study(study)
        assert told in str(caught.value)

    def test_no_file(self, tmp_path):
        with pytest.raises(CarbError, match="Cannot read the study"):
            read_study(tmp_path / "absent.toml")

    def test_a_folder_without_a_finished_run_is_told(self, study, tmp_path):
        study.write_text(study.read_text() + '[[optimised]]\nscorer = "s1"\nrun = "absent"\n')
        with pytest.raises(CarbError, match=r"no policy\.json"):
            run_study(study, open_with=Openers())
        (tmp_path / "absent").mkdir()
        (tmp_path / "absent" / "policy.json").write_text("{}")
        with pytest.raises(CarbError, match="is not a result of"):
            run_study(study, open_with=Openers())

    def test_too_few_samples_are_told(self, study):
        study.write_text("n = 17\n" + study.read_text())
        result = run_study(study, open_with=Openers())
        assert result.predictions[0].n == 0


class TestCommand:
    """``carb validity --study`` with scorers that anyone has."""

    @pytest.fixture
    def plain(self, study):
        text = study.read_text()
        for i, skill in enumerate(SKILLS):
            spec = "baseline:length" if i == 0 else f"baseline:random?seed={i}"
            text = text.replace(f'"test:skill-{skill}"', f'"{spec}"')
        study.write_text(text)
        return study

    def test_shows_and_prints(self, carb, plain):
        shown = carb("validity", "--study", plain, "--quiet")
        assert shown.code == 0, shown.err
        assert "What predicts bon/file/us?" in shown.out
        assert "Against general" in shown.out
        printed = carb("validity", "--study", plain, "--json", "--quiet").json
        assert printed["schema"] == "carb.study/1"
        assert printed["predictions"][0]["n"] == len(SKILLS)

    def test_a_part_that_fails_is_a_failed_check(self, carb, plain):
        plain.write_text(plain.read_text() + '[[scorer]]\nname = "bad"\nspec = "baseline:lenght"\n')
        done = carb("validity", "--study", plain, "--quiet")
        assert done.code == 1
        assert "Missing: bad, benchmark sets: Unknown baseline 'lenght'" in done.out

    def test_wrong_use(self, carb, plain, tmp_path):
        assert carb("validity").code == 2
        assert carb("validity", "x.csv", "--study", plain).code == 2
        assert "Cannot read the study" in carb("validity", "--study", tmp_path / "absent.toml").err
