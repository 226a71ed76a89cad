"""The fingerprint stands for the content: blind to order, keen on everything else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from carb_data import BonSet, Dataset
from carb_data.models import Domain, Kind


@given(dataset=st.from_type(Dataset), data=st.data())
def test_the_order_of_sets_and_responses_does_not_matter(dataset, data):
    shuffled = [
        item.model_copy(
            update={
                "responses": tuple(data.draw(st.permutations(item.responses))),
                "perturbed": tuple(data.draw(st.permutations(item.perturbed))),
            }
        )
        for item in data.draw(st.permutations(list(dataset)))
    ]
    assert Dataset(shuffled).fingerprint == dataset.fingerprint


def changed_versions(item: BonSet):
    yield item.model_copy(update={"id": item.id + "x"})
    yield item.model_copy(update={"prompt": item.prompt_text + " "})
    yield item.model_copy(update={"family": (item.family or "") + "x"})
    other = None if item.kind is Kind.CONTROL else Kind.CONTROL
    yield item.model_copy(update={"kind": other})
    yield item.model_copy(update={"topic": (item.topic or "") + "x"})
    yield item.model_copy(update={"domain": next(d for d in Domain if d != item.domain)})
    yield item.model_copy(update={"culture": "thai" if item.culture != "thai" else "german"})
    yield item.model_copy(update={"provenance": item.provenance.model_copy(update={"license": "other"})})
    first, *others = item.responses
    longer = first.model_copy(update={"text": first.text + "."})
    yield item.model_copy(update={"responses": (longer, *others)})
    swapped = [first.model_copy(update={"text": others[0].text}), others[0].model_copy(update={"text": first.text})]
    if first.text != others[0].text:
        yield item.model_copy(update={"responses": (*swapped, *others[1:])})


@given(item=st.from_type(BonSet))
def test_any_change_of_content_changes_it(item):
    seen = {Dataset([item]).fingerprint}
    for version in changed_versions(item):
        if version == item:
            continue
        seen.add(Dataset([version]).fingerprint)
    assert len(seen) == 1 + sum(version != item for version in changed_versions(item))
