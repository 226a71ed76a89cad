"""The tasks on the published data: BLEnD's scorer against the counts in its own annotations."""

import json
from collections import Counter

import pytest

from carb_data.sources.blend_files import PLACES
from carb_data.tasks import open_task
from carb_data.tasks.matching import form


@pytest.mark.parametrize("language", ["english", "local"])
def test_every_human_answer_is_right_with_its_weight(public_data, language):
    """All wordings of all people in all 16 places. A wording of several entries has the weight of the most voted."""
    task = open_task(f"blend:{public_data / 'blend'}?language={language}&places={','.join(PLACES)}&weighted=true")
    assert len(task.prompts) > 7000
    folder = public_data / "blend" / "data" / "annotations"
    items = {place: json.loads((folder / f"{place}_data.json").read_text("utf-8")) for place in PLACES}
    outcomes: Counter[str] = Counter()
    for prompt in task.prompts:
        place, number, spoken = prompt.id.split("/")
        entries = items[place][number]["annotations"]
        most = max(entry["count"] for entry in entries)
        wordings = {"english": ("en_answers",), "local": ("answers", "en_answers")}[language]
        votes: dict[object, int] = {}
        for entry in entries:
            for key in wordings:
                tongue = "en" if key == "en_answers" else spoken
                for text in entry[key]:
                    for read_as in {tongue, "en", spoken}:
                        found = form(text, read_as)
                        votes[read_as, found] = max(votes.get((read_as, found), 0), entry["count"])
        for entry in entries:
            for text in entry[wordings[0]]:
                if not form(text, spoken):
                    outcomes["empty"] += 1
                    assert task.grade(prompt.id, text) == 0
                    continue
                graded = task.grade(prompt.id, text)
                assert entry["count"] / most <= graded <= max(votes[t, form(text, t)] for t in {"en", spoken}) / most
                outcomes["right"] += 1
                outcomes["own weight"] += graded == entry["count"] / most
    assert outcomes["right"] > 30_000
    assert outcomes["own weight"] / outcomes["right"] > 0.995
    assert outcomes["empty"] < 10
