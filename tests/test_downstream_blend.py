"""The tasks on the published data: BLEnD's scorer against the counts in its own annotations."""

import json
from collections import Counter

from carb_data.sources.blend_files import PLACES
from carb_data.tasks import open_task
from carb_data.tasks.matching import form


def test_every_human_answer_is_right_with_its_weight(public_data):
    """All wordings of all people in all 16 places. A wording of several entries has the weight of the most voted."""
    task = open_task(f"blend:{public_data / 'blend'}?places={','.join(PLACES)}&weighted=true")
    assert len(task.prompts) > 7000
    folder = public_data / "blend" / "data" / "annotations"
    items = {place: json.loads((folder / f"{place}_data.json").read_text("utf-8")) for place in PLACES}
    outcomes: Counter[str] = Counter()
    for prompt in task.prompts:
        place, number, _ = prompt.id.split("/")
        entries = items[place][number]["annotations"]
        most = max(entry["count"] for entry in entries)
        votes: dict[object, int] = {}
        for entry in entries:
            for text in entry["en_answers"]:
                votes[form(text)] = max(votes.get(form(text), 0), entry["count"])
        for entry in entries:
            for text in entry["en_answers"]:
                if not form(text):
                    outcomes["empty"] += 1
                    assert task.grade(prompt.id, text) == 0
                    continue
                graded = task.grade(prompt.id, text)
                assert entry["count"] / most <= graded <= votes[form(text)] / most
                outcomes["right"] += 1
                outcomes["own weight"] += graded == entry["count"] / most
    assert outcomes["right"] > 30_000
    assert outcomes["own weight"] / outcomes["right"] > 0.995
    assert outcomes["empty"] < 10
