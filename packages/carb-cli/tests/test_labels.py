"""Short names of scorers, as different as the names are."""

from hypothesis import given
from hypothesis import strategies as st

from carb_cli.labels import LONGEST, labels

part = st.text(st.sampled_from("ab-"), min_size=1, max_size=2)
path = st.lists(part | st.sampled_from(["checkpoint", "model"]), min_size=1, max_size=4).map("/".join)


def test_a_path_is_cut_to_what_tells_it_from_the_others() -> None:
    found = labels(["classifier:/x/run-a/checkpoint", "classifier:/x/run-b/checkpoint", "judge:/x/run-a/checkpoint"])
    assert list(found.values()) == [
        "classifier:run-a/checkpoint",
        "classifier:run-b/checkpoint",
        "judge:run-a/checkpoint",
    ]
    assert list(labels(["classifier:orgA/rm-8b", "classifier:orgB/rm-8b"]).values()) == [
        "classifier:orgA/rm-8b",
        "classifier:orgB/rm-8b",
    ]
    assert labels(["classifier:orgA/rm-8b"]) == {"classifier:orgA/rm-8b": "classifier:rm-8b"}


def test_a_folder_name_that_says_nothing_shows_its_parent() -> None:
    assert labels(["think:/x/thai/model"]) == {"think:/x/thai/model": "think:thai/model"}
    assert labels(["classifier:/x/a/checkpoint-100?dtype=bfloat16"]) == {
        "classifier:/x/a/checkpoint-100?dtype=bfloat16": "classifier:a/checkpoint-100?dtype=bfloat16"
    }
    assert labels(["judge:model"]) == {"judge:model": "judge:model"}


def test_hostile_and_long_names() -> None:
    names = ["judge:" + "x" * 100, "judge:" + "x" * 101, "baseline:length", "x\u202ey\x1b"]
    found = labels(names)
    assert len(set(found.values())) == len(names)
    assert max(map(len, found.values())) <= LONGEST + 4
    assert found["x\u202ey\x1b"] == "x\\u202ey\\x1b"


@given(st.lists(st.tuples(st.sampled_from(["judge", "classifier"]), path).map(":".join), unique=True, max_size=6))
def test_labels_differ_and_end_the_name(names: list[str]) -> None:
    found = labels(names)
    assert len(set(found.values())) == len(names)
    for name, label in found.items():
        assert name.endswith(label.partition(":")[2])
