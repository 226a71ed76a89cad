"""A data set as a collection: access, filters, splits by source item, names, and the fingerprint of
its content."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carb_data import BonSet, CarbError, Dataset, ScoreTable, load
from carb_data.models import Domain, Kind

SEED = load("carb-seed").filter(lambda item: item.family is None)


def renamed(item: BonSet, number: int, source_id: str | None) -> BonSet:
    provenance = item.provenance.model_copy(update={"source": "s", "source_id": source_id})
    return item.model_copy(update={"id": str(number), "provenance": provenance, "family": None})


@given(
    items=st.lists(st.from_type(BonSet), max_size=12),
    sources=st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=12, max_size=12),
    seed=st.integers(0, 9),
)
def test_a_split_divides_everything_and_no_source_item(items, sources, seed):
    dataset = Dataset(renamed(item, n, sources[n]) for n, item in enumerate(items))
    parts = dataset.split({"train": 0.5, "dev": 0.25, "test": 0.25}, seed=seed)
    assert list(parts) == ["train", "dev", "test"]
    assert sorted(item.id for part in parts.values() for item in part) == sorted(
        item.id for item in dataset
    )
    homes: dict[str, set[str]] = {}
    for name, part in parts.items():
        for item in part:
            homes.setdefault(dataset.origins[item.id], set()).add(name)
            homes.setdefault(item.source_item, set()).add(name)
    assert all(len(names) == 1 for names in homes.values())
    assert parts == dataset.split({"train": 0.5, "dev": 0.25, "test": 0.25}, seed=seed)
    half = Dataset(list(dataset)[::2])
    for name, part in half.split({"train": 0.5, "dev": 0.25, "test": 0.25}, seed=seed).items():
        assert all(
            item in parts[name]
            for item in part
            if half.origins[item.id] == dataset.origins[item.id]
        )  # a set stays where it is when others come or go that are not tied to it


@pytest.mark.parametrize("fractions", [{}, {"train": 0.5}, {"train": 1.5, "test": -0.5}])
def test_shares_that_do_not_sum_to_one_are_refused(fractions):
    with pytest.raises(CarbError, match="sum to 1"):
        SEED.split(fractions)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(CarbError, match="Did you mean 'carb-seed'"):
        load("carb-sed")


def test_a_split_keeps_a_family_together():
    sets = [
        item.model_copy(
            update={
                "family": f"family-{n // 4}",
                "responses": tuple(r.model_copy(update={"source": None}) for r in item.responses),
                "perturbed": (),
            }
        )
        for n, item in enumerate(SEED)
    ]  # without their facts, which tie sets of other families
    parts = Dataset(sets).split({"train": 0.5, "test": 0.5}, seed=3)
    families = [{item.family for item in part} for part in parts.values()]
    assert all(families)
    assert not families[0] & families[1]


def test_sets_with_the_same_prompt_and_right_answer_have_one_origin():
    first, second, third = (renamed(item, n, str(n)) for n, item in enumerate(SEED[:3]))
    again = {"id": "copy", "provenance": second.provenance, "prompt": f"{first.prompt.upper()}!"}
    copy = first.model_copy(update=again)
    asked = third.model_copy(update={"id": "asked", "prompt": first.prompt})
    blank = [one.model_copy(update={"id": f"?{one.id}", "prompt": "?"}) for one in (third, asked)]
    origins = Dataset([first, copy, third, asked, *blank]).origins
    assert origins == {
        "0": "s:0",
        "copy": "s:0",
        "2": "s:2",
        "asked": "s:2",
        "?2": "s:2",
        "?asked": "s:2",
    }


def mexican() -> Dataset:
    first, second, *_ = SEED.filter(cultures=["spanish"])
    other = second.model_copy(update={"culture": "spanish-mx", "language": "es-MX"})
    return Dataset([first.model_copy(update={"language": "es"}), other])


def test_a_filter_rolls_up():
    assert len(mexican().filter(cultures=["spanish"], languages=["es"])) == 2
    assert (
        len(mexican().filter(cultures=["spanish-mx"]))
        == len(mexican().filter(languages=["es-MX"]))
        == 1
    )


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"cultures": "spanich"}, "unknown culture 'spanich'. Did you mean 'spanish'"),
        ({"cultures": ["spanich"]}, "unknown culture 'spanich'. Did you mean 'spanish'"),
        ({"domains": ["value"]}, "no domain 'value'. Did you mean 'values'"),
        ({"languages": ["spa"]}, "no language 'spa'"),
    ],
)
def test_a_filter_names_what_it_does_not_know(asked, answer):
    with pytest.raises(CarbError, match=answer):
        mexican().filter(**asked)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("hf://owner/name@v1.2", "v1.2"),
        ("hf://owner/name", None),
        ("hf://owner/name@refs/pr/3", "refs/pr/3"),
    ],
)
def test_a_hub_name_may_say_which_revision(tmp_path, monkeypatch, name, asked):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'hf'")
    mexican().save(tmp_path / "sets.jsonl.gz")
    seen = {}

    def download(repository, **given):
        seen.update(given, repository=repository)
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert len(load(name)) == 2
    assert (seen["repository"], seen["revision"]) == ("owner/name", asked)
    assert "*.jsonl.gz" in seen["allow_patterns"]


def test_a_folder_of_a_hub_repository_is_read_where_another_one_holds_the_same_sets(
    tmp_path, monkeypatch
):
    """A repository with a small configuration beside the whole one was refused, and nobody can
    remove files of the cache."""
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'hf'")
    head = "prompt,chosen,rejected\n"
    for part, rows in (("main", "a?,b,c\nd?,e,f\n"), ("mini", "a?,b,c\n"), ("again", "")):
        (tmp_path / part).mkdir()
        (tmp_path / part / "test.csv").write_text(head + rows)
    (tmp_path / "again" / "test.csv").unlink()
    (tmp_path / "again" / "test.csv").symlink_to(tmp_path / "main" / "test.csv")
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **_given: str(tmp_path))
    with pytest.raises(CarbError, match=r"hf://owner/name/folder"):
        load("hf://owner/name")
    (tmp_path / "again" / "test.csv").unlink()
    with pytest.raises(CarbError, match=r"hf://owner/name/folder"):
        load("hf://owner/name@main")
    assert len(load("hf://owner/name/main@refs/pr/3")) == 2
    assert len(load("hf://owner/name/mini")) == 1


@given(dataset=st.from_type(Dataset), data=st.data())
def test_the_order_of_sets_and_responses_does_not_change_the_fingerprint(dataset, data):
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
    yield item.model_copy(
        update={"provenance": item.provenance.model_copy(update={"license": "other"})}
    )
    first, *others = item.responses
    longer = first.model_copy(update={"text": first.text + "."})
    yield item.model_copy(update={"responses": (longer, *others)})
    swapped = [
        first.model_copy(update={"text": others[0].text}),
        others[0].model_copy(update={"text": first.text}),
    ]
    if first.text != others[0].text:
        yield item.model_copy(update={"responses": (*swapped, *others[1:])})


def plain_digest(item: BonSet) -> bytes:
    """The digest of a set as the format says it: sorted JSON without empty and reporting fields."""
    content = item.model_dump(mode="json", exclude_none=True, exclude={"place", "form"})
    if item.kind is not Kind.CONTROL:
        content.pop("kind", None)
    for group in ("responses", "perturbed"):
        content[group].sort(key=lambda response: response["id"])
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


@given(st.lists(st.from_type(BonSet), max_size=9))
@example([renamed(item, n, f"row-{n}") for n, item in enumerate(SEED[:3])])
@example([renamed(item, 1, 'a "quoted"\n\\ id') for item in SEED[:1]])
@example([renamed(item.model_copy(update={"topic": "5% %s"}), 1, "row") for item in SEED[:1]])
def test_the_fingerprint_is_the_digest_of_sorted_json(items):
    texts = ['the "same"\ttext', "語 é", "b\\"]
    for item in list(items):  # what tables give: sets that differ in ids and texts alone
        bare = [r.model_copy(update={"source": None, "votes": None}) for r in item.responses]
        items += [
            item.model_copy(
                update={
                    "prompt": text,
                    "perturbed": (),
                    "responses": tuple(
                        one.model_copy(update={"text": f"{text} {n}"}) for n, one in enumerate(bare)
                    ),
                }
            )
            for text in texts
        ]
    dataset = Dataset(renamed(item, n, f"row {n}") for n, item in enumerate(items))
    digests = sorted(map(plain_digest, dataset))
    assert dataset.fingerprint == hashlib.sha256(b"".join(digests)).hexdigest()


@given(item=st.from_type(BonSet))
def test_any_change_of_content_changes_the_fingerprint(item):
    versions = [item, *(version for version in changed_versions(item) if version != item)]
    assert len({Dataset([version]).fingerprint for version in versions}) == len(versions)


@pytest.mark.parametrize("wrong", ["carb-seed", ["carb-seed"], [{"id": "a"}], [None]])
def test_a_data_set_of_anything_else_is_refused_with_the_way_to_load_one(wrong):
    with pytest.raises(CarbError, match=r"BonSet.*carb_data\.load"):
        Dataset(wrong)


def test_a_set_that_is_not_there_is_named_with_a_near_id() -> None:
    family = "en-commonsense-birthday-custom"
    with pytest.raises(KeyError) as error:
        load("carb-seed")[family]
    assert isinstance(error.value, CarbError)
    assert f"'{family}'" in str(error.value)
    assert f"Did you mean '{family}/" in str(error.value)


def test_one_name_filters_like_a_list_of_it() -> None:
    assert SEED.filter(cultures="thai") == SEED.filter(cultures=["thai"])


@pytest.mark.parametrize("wrong", ["carb-seed", list(SEED[:2]), None])
def test_a_table_refuses_what_is_no_data_set(wrong: object) -> None:
    empty = ScoreTable.concat([])
    with pytest.raises(CarbError, match=type(wrong).__name__):
        empty.with_items(wrong)  # type: ignore[arg-type]


HOSTILE = "<img src=x onerror=alert(1)> & <script>"


@given(st.from_type(BonSet))
def test_a_notebook_shows_sets_as_tables_whose_texts_are_inert(item):
    chosen = item.chosen.model_copy(update={"text": HOSTILE})
    changed = {"prompt": HOSTILE, "responses": (chosen, *item.rejected), "family": HOSTILE}
    hostile = item.model_copy(update=changed)
    for shown in (hostile, Dataset([hostile])):
        html = shown._repr_html_()
        assert html.count("&lt;script&gt;") >= 2
        assert "<img" not in html
        assert "<script" not in html
        assert html.count("<table>") == html.count("</table>")


def test_a_notebook_shows_the_head_of_a_large_set():
    data = load("carb-seed")
    html = data._repr_html_()
    assert f"{len(data)} sets" in html
    assert [item.id in html for item in data[:9]] == [True] * 8 + [False]
