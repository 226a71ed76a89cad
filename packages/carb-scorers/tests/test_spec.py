"""Spec strings: what they mean, and what is said when they are wrong."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError, MissingExtraError, install_line
from carb_scorers import ScorerSpec, open_scorer
from carb_scorers.integrations import as_inspect_scorer
from carb_scorers.spec import (
    ENTRY_POINTS,
    ParsedSpec,
    identity,
    needs,
    parse_spec,
    plan_of,
    provider,
)
from fake_scorer import request

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(
    st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="?"),
        min_size=1,
        max_size=20,
    ).filter(lambda target: target == target.strip()),
    st.dictionaries(words, words, max_size=3),
)
def test_a_spec_survives_being_written_and_read(
    kind: str, target: str, options: dict[str, str]
) -> None:
    spec = ParsedSpec(kind=kind, target=target, options=options)
    assert parse_spec(str(spec)) == spec


def test_a_name_of_the_users_own() -> None:
    spec = parse_spec("my 8B, v2=judge:m?mode=pairwise&retries=3")
    assert (spec.name, spec.kind, spec.target) == ("my 8B, v2", "judge", "m")
    assert parse_spec(str(spec)) == spec
    assert open_scorer("short one=baseline:length").spec.name == "short one"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("length", "KIND:TARGET"),
        (":length", "KIND:TARGET"),
        ("", "KIND:TARGET"),
        ("baseline:length?seed", "key=value"),
        ("bseline:length", "Did you mean 'baseline'"),
        ("baseline:lenght", "There are random, length"),
        ("baseline:random?sede=1", "did you mean 'seed'"),
        ("classifier:a/b/c", "no model folder 'a/b/c'"),
        ("judge:../there", "no model folder '../there'"),
        ("baseline:random?seed=x&sede=1", "got 'x'; 'sede' is unknown, did you mean 'seed'"),
    ],
)
def test_mistakes_are_explained(spec: str, said: str) -> None:
    with pytest.raises(CarbError) as caught:
        open_scorer(spec)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "option", ["key", "api_key", "token", "password", "Authorization", "a=1&key"]
)
def test_a_key_in_a_spec_is_refused_and_not_repeated(option: str) -> None:
    with pytest.raises(CarbError, match="key_env=") as caught:
        open_scorer(f"judge:m?{option}=sk-very-secret&key=2")
    assert "secret" not in str(caught.value)


def test_how_a_server_is_asked_is_no_part_of_a_scorers_name() -> None:
    spec = parse_spec(
        "judge:m?backend=openai&concurrency=2&timeout=9&mode=listwise&price_in=1&key_env=MINE"
    )
    assert spec.name == "judge:m?backend=openai&mode=listwise"
    assert spec.options["concurrency"] == "2"
    one, two = (
        ScorerSpec(name="n", kind="judge", parameters={"mode": mode, "retries": rpm})
        for mode, rpm in (("listwise", 5), ("listwise", 6))
    )
    assert identity(one) == identity(two)
    assert identity(one).parameters == {"mode": "listwise"}


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path that registers kinds as an installed package does."""
    folder = tmp_path / "third-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.2\n")
    points = [
        "fine = third_kinds:fine",
        "broken = third_kinds:nothing",
        "absent = no_such_module:x",
        "odd = sys:path",
    ]
    points += ["strict = third_kinds:strict", "reader = third_kinds:reader"]
    (folder / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINTS}]", *points]))
    code = "def fine(name, target, options):\n    return (name, target, options)\n"
    code += "def strict(name):\n    return name\n"
    code += "from carb_scorers import Kind\n"
    code += "reader = Kind(fine, fine, reads_language=lambda spec: spec.model == 'polyglot')\n"
    (tmp_path / "third_kinds.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("third_kinds", None)


def test_other_packages_register_kinds(registered: Path) -> None:
    assert open_scorer("fine:x?b=1&a=2") == ("fine:x?a=2&b=1", "x", {"a": "2", "b": "1"})
    assert provider("fine") == "third 1.2"
    assert plan_of(parse_spec("fine:x")) is None  # it does not say how it asks


@pytest.mark.parametrize(("model", "read"), [("polyglot", ("language",)), ("mute", ())])
def test_a_kind_of_another_package_may_read_the_language(
    registered: Path, model: str, read: tuple[str, ...]
) -> None:
    spec = ScorerSpec(name="x", kind="reader", model=model, revision="1", comparative=False)
    assert needs(spec) == read


@pytest.mark.parametrize("kind", ["broken", "absent", "odd", "strict"])
def test_a_broken_plugin_is_named(registered: Path, kind: str) -> None:
    with pytest.raises(CarbError, match=kind):
        open_scorer(f"{kind}:x")


def test_two_packages_with_one_kind_are_refused(kind: Callable[[str, object], None]) -> None:
    kind("fine", open_scorer, "one")
    kind("fine", open_scorer, "two")
    with pytest.raises(CarbError, match=r"Several packages.*(one:opener, two|two:opener, one)"):
        open_scorer("fine:x")


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("vllm", "vllm", lambda: open_scorer("judge:m?backend=vllm")),
        ("vllm", "vllm", lambda: open_scorer("classifier:m?backend=vllm")),
        (
            "httpx",
            "api",
            lambda: open_scorer("judge:m?backend=openai&read=generate&url=http://127.0.0.1:1/v1"),
        ),
        ("inspect_ai", "inspect", lambda: as_inspect_scorer("baseline:length")),
    ],
)
def test_a_missing_extra_is_named(
    module: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    line = install_line(f"carb-scorers[{extra}]")
    with pytest.raises(MissingExtraError, match=re.escape(line)):
        use()


@pytest.mark.parametrize(
    ("spec", "calls", "longest"),
    [
        ("baseline:length", 0, 0),
        ("classifier:m", 3, 0),
        ("implicit:m", 3, 0),
        ("implicit:m?ref=other", 6, 0),
        ("judge:m", 1, 1),
        ("judge:m?mode=pairwise&read=generate&max_tokens=9", 6, 9),
        ("judge:m?form=rm-r1", 6, 8192),
        ("judge:m?mode=pointwise&facts=carb-seed", 3, 1),
        ("think:m?orders=one&max_new_tokens=7", 3, 7),
    ],
)
def test_a_kind_says_how_its_scorers_ask_before_a_model_is_opened(
    spec: str, calls: int, longest: int
) -> None:
    if spec.startswith("think"):
        pytest.importorskip("tal_rlvr", reason="needs tal-rlvr, which registers the kind")
    planned = plan_of(parse_spec(spec))
    assert planned is not None
    asked = [] if planned.asks is None else list(planned.asks(request("ONE", "TWO", "THREE")))
    assert (len(asked), planned.longest) == (calls, longest)
    assert all("How?" in "".join(texts) for texts in asked)


@pytest.mark.parametrize("kind", ["classifier", "implicit", "judge", "think"])
@pytest.mark.parametrize("option", ["moed=x", "backend=vlm", "dtype=tall", "backend=openai&page=1"])
def test_a_plan_refuses_the_options_that_a_scorer_refuses(kind: str, option: str) -> None:
    """`carb run --dry-run` printed a plan, and the same command without it was refused."""
    if kind == "think":
        pytest.importorskip("tal_rlvr", reason="needs tal-rlvr, which registers the kind")
    with pytest.raises(CarbError, match=option.split("&")[-1].split("=")[0]):
        plan_of(parse_spec(f"{kind}:m?{option}"))


@pytest.mark.parametrize("wrong", [["baseline:length"], None, {"kind": "baseline"}])
def test_a_scorer_that_is_no_string_is_refused_by_its_type(wrong: object) -> None:
    with pytest.raises(CarbError, match=type(wrong).__name__):
        open_scorer(wrong)  # type: ignore[arg-type]
