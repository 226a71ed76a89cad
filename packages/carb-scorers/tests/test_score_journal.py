"""The journal of results: what is kept, which of several results counts, and what is refused."""

from pathlib import Path

import pytest

from carb_data import CarbError
from carb_scorers import ScoreError, ScoreResult, ScorerSpec, Usage
from carb_scorers.run.score_journal import JournalHead, ScoreJournal, check_journals, journal_path, read_journals

HEAD = JournalHead(fingerprint="f", seed=0, spec=ScorerSpec(name="s", kind="test"), version="carb-scorers 1")


def result(number: int, score: float = 0.1) -> ScoreResult:
    return ScoreResult(
        request_id=f"i{number}", scores={"1": score}, rationale="ก\n\u2028[[A]]", usage=Usage(input_tokens=number)
    )


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    error = ScoreResult(request_id="e", error=ScoreError(kind="http", message="503"))
    with ScoreJournal(tmp_path, HEAD) as journal:
        journal.append([result(1, 1 / 3), error])
        journal.append([])
        journal.append(result(n) for n in (2, 3))
    with ScoreJournal(tmp_path, HEAD) as journal:
        assert list(journal.results.values()) == [result(1, 1 / 3), error, result(2), result(3)]
        assert journal.spent == Usage(input_tokens=6)
    ((head, found),) = read_journals(tmp_path)
    assert head == HEAD
    assert list(found) == ["i1", "e", "i2", "i3"]
    assert journal_path(tmp_path, "s").read_bytes().count(b"\n") == 3


def test_of_several_results_the_first_that_is_complete_counts(tmp_path: Path) -> None:
    """Errors may be retried, and all attempts were paid for."""
    spent = Usage(input_tokens=5)
    errors = [
        ScoreResult(request_id="i5", error=ScoreError(kind=k, message=""), usage=spent) for k in ("http", "timeout")
    ]
    for one in (*errors, result(5, 1.0), result(5, 2.0), errors[0]):
        with ScoreJournal(tmp_path, HEAD) as journal:
            journal.append([one])
            if one is errors[1]:
                assert journal.results["i5"] == errors[1]
    with ScoreJournal(tmp_path, HEAD) as journal:
        assert journal.results["i5"].scores == {"1": 1.0}
        assert journal.spent == Usage(input_tokens=25)


def test_the_result_with_most_scores_counts() -> None:
    error = ScoreError(kind="http", message="503")
    two = ScoreResult(request_id="a", scores={"1": 1.0, "2": 2.0}, errors={"3": error})
    one = ScoreResult(request_id="a", scores={"1": 1.0}, errors={"2": error, "3": error})
    with ScoreJournal(None, HEAD) as journal:
        for attempt in (one, two, one):
            journal.append([attempt])
        assert journal.results["a"] == two


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fingerprint": "other"}, "another data set"),
        ({"seed": 1}, "another seed"),
        ({"spec": ScorerSpec(name="s", kind="test", revision="r")}, "another scorer"),
        ({"version": "carb-scorers 2"}, "another version of the scorer's package"),
    ],
)
def test_results_of_something_else_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    journals = tmp_path / "journal"
    with ScoreJournal(journals, HEAD) as journal:
        journal.append([result(1)])
    before = journal_path(journals, "s").read_bytes()
    with pytest.raises(CarbError, match=f"{tmp_path} holds results of {said} for 's'.*--fresh"):
        ScoreJournal(journals, HEAD.model_copy(update=change))
    assert journal_path(journals, "s").read_bytes() == before


def test_other_journals_of_a_folder_are_looked_at_first(tmp_path: Path) -> None:
    with ScoreJournal(tmp_path, HEAD):
        pass
    (tmp_path / "torn.jsonl").write_text('{"format"')
    check_journals(tmp_path, fingerprint="f", seed=0)
    check_journals(tmp_path / "nowhere", fingerprint="f", seed=0)
    for changed in ({"fingerprint": "g"}, {"seed": 7}):
        with pytest.raises(CarbError, match="holds results of another"):
            check_journals(tmp_path, **{"fingerprint": "f", "seed": 0, **changed})


def test_names_become_files_of_their_own(tmp_path: Path) -> None:
    names = ["judge:a/b?x=1", "judge:a_b?x=1", "../../etc/passwd", "ก" * 300, "x" * 300, "", "a", "A"]
    paths = [journal_path(tmp_path, name) for name in names]
    assert len({str(path).lower() for path in paths}) == len(names)
    assert all(path.parent == tmp_path and len(path.name) < 100 for path in paths)
