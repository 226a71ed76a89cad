"""Short names of scorers, as different as the names are."""

from hypothesis import given
from hypothesis import strategies as st

from carb_cli.labels import LONGEST, labels

part = st.text(st.sampled_from("ab-"), min_size=1, max_size=2)
path = st.lists(part | st.sampled_from(["checkpoint", "model"]), min_size=1, max_size=4).map("/".join)


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
