"""``carb run --suite``: a process for each model, which may fail alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from carb_cli.suite import Outcome, read_suite
from carb_data import CarbError
from carb_scorers.known import known_models
from carb_scorers.run import RunRecord
from cli_helpers import Carb

PLUGIN = '''
"""Scorers whose target says what goes wrong.

Each leaves a file with what it was asked and which GPUs it saw.
"""

import os
from pathlib import Path
from signal import SIGKILL

from carb_data import CarbError
from carb_scorers import ScoreResult, ScorerSpec

HERE = Path(__file__).parent


class Frail:
    def __init__(self, name, target):
        self.spec = ScorerSpec(name=name, kind="frail", comparative=False, in_flight=1)
        self.target = target

    async def score(self, requests):
        results = []
        for request in requests:
            with open(HERE / f"{self.spec.name}.asked", "a") as file:
                file.write(f"{request.request_id}\\n")
            scores = {c.id: float(len(c.text)) for c in request.candidates}
            results.append(ScoreResult(request_id=request.request_id, scores=scores))
        (HERE / f"{self.spec.name}.gpus").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
        if self.target == "waits":
            with open(HERE / "fifo", "w") as fifo:
                fifo.write("here\\n")
                fifo.flush()
                os.fork()
                open(HERE / "never").read()
        if self.target.startswith("ends"):
            os._exit(int(self.target[4:]))
        if self.target == "blocks":
            open(HERE / "never").read()
        if self.target in ("r", "w"):  # the reader and the writer wait for each other, once
            open(HERE / "meeting", self.target).close()
            self.target = ""
        died = HERE / "died"
        if self.target == "dies" and self.often_asked() and not died.exists():
            died.touch()
            os.kill(os.getpid(), SIGKILL)
        return results

    def often_asked(self):
        return len((HERE / "dies.asked").read_text().split()) > 4

    async def aclose(self):
        """Nothing to give back."""


def open_frail(name, target, options):
    if target == "gone":
        raise CarbError("There are no weights.")
    return Frail(name, target)
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package that registers the kind ``frail``, here and in the processes that
    begin here.

    There is no nvidia-smi here.
    """
    folder = tmp_path / "plugin"
    about = folder / "frail-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "frail_scorer.py").write_text(PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: frail\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[carb.scorers]\nfrail = frail_scorer:open_frail\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # which an older joblib asks a program for
    return folder


def suite(folder: Path, **tables: str) -> Path:
    path = folder / "suite.toml"
    path.write_text(
        "".join(f'[[model]]\nname = "{name}"\n{lines}\n' for name, lines in tables.items())
    )
    return path


def test_what_can_be_scored_is_scored_and_the_rest_is_named(
    carb: Carb, plugin: Path, data_file: Path, tmp_path: Path
) -> None:
    tables = {
        "short": 'spec = "baseline:length"',
        "gone": 'spec = "frail:gone"',
        "huge": 'spec = "baseline:random"\nmemory_gb = 1e6',
        "dies": 'spec = "frail:dies"',
    }
    out = tmp_path / "out"
    command = [
        "run",
        "--data",
        data_file,
        "--suite",
        suite(tmp_path, **tables),
        "--out",
        out,
        "--window",
        "4",
    ]
    first = carb(*command, "--json")
    assert first.code == 1
    why = {model["name"]: model["why"] for model in first.json["models"]}
    assert why["short"] is None
    assert why["gone"] == "There are no weights."
    assert "needs 1000000.0 GB of memory" in why["huge"]
    assert "SIGKILL" in why["dies"]
    assert list(first.json["report"]["scorers"]) == ["short"]
    assert not (out / "huge").exists()
    assert "There are no weights." in (out / "gone" / "log.txt").read_text()
    kept = RunRecord.read(out / "short")

    again = carb(*command, "--md", tmp_path / "table.md", "--latex", "-")
    assert again.code == 1, "two were not scored"
    assert "There are no weights." in again.out
    assert "SIGKILL" not in again.out
    assert "tabular" in again.out
    assert "| dies |" in (tmp_path / "table.md").read_text()
    assert RunRecord.read(out / "short") == kept, "what is finished is not scored again"
    asked = Counter((plugin / "dies.asked").read_text().split())
    assert sum(asked.values()) - len(asked) <= 4, (
        "no more than the window that was under way is asked again"
    )

    report = carb("report", *sorted(out.iterdir()), "--json", "-")
    assert report.code == 0
    assert sorted(json.loads(report.out)["scorers"]) == ["dies", "short"]
    assert f"Left out, because it holds no finished run: {out / 'gone'}." in report.err

    assert carb(*command, "--limit", 6, "--json").json["report"] is None, "no numbers of other data"


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_result_is_not_kept_where_a_culture_has_another_name(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The command was the same, so that the old result stood in the table."""
    names, rows = tmp_path / "names.json", tmp_path / "rows.csv"
    rows.write_text("culture,prompt,chosen,rejected\nours,Who?,we,they\n")
    model = suite(tmp_path, told='spec = "baseline:label"')
    command = ["run", "--data", rows, "--suite", model, "--out", tmp_path / "out"]
    command += ["--language", "en"]
    if way == "option":
        command += ["--culture-file", names]
    else:
        monkeypatch.setenv("CARB_CULTURES", str(names))
    culture = {"id": "ours", "language": "sw", "script": "Latn"}
    culture |= {"family": "Niger-Congo", "resource_class": 2}
    for name, code in (("Swahili", 0), ("people of Zanzibar", 1)):
        names.write_text(json.dumps([culture | {"name": name}]))
        ended = subprocess.run(
            [sys.executable, "-m", "carb_cli", *map(str, command)], capture_output=True, text=True
        )
        assert ended.returncode == code, ended.stderr
    assert "another set of place names" in " ".join(ended.stdout.split())


def test_what_is_read_from_a_file_is_looked_at_again_however_long_its_path_is(
    plugin: Path, data_file: Path, tmp_path: Path
) -> None:
    """Of a path only the first 255 characters were looked for, and ``~name`` was a traceback."""
    there = tmp_path / ("d" * 120) / ("e" * 200)
    there.mkdir(parents=True)
    targets = {"there": str(there), "long": "x" * 300, "nobody": "~nobody-at-all"}
    tables = {name: f'spec = "frail:{target}"' for name, target in targets.items()}
    command = ["run", "--data", data_file, "--suite", suite(tmp_path, **tables)]
    command += ["--out", tmp_path / "out"]
    written = []
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-m", "carb_cli", *map(str, command)], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        runs = {name: tmp_path / "out" / name / "run.json" for name in targets}
        written.append({name: run.stat().st_mtime_ns for name, run in runs.items()})
    first, then = written
    assert {name for name in targets if first[name] != then[name]} == {"there"}


def test_a_process_that_ends_early_or_takes_too_long_costs_no_table(
    carb: Carb, plugin: Path, data_file: Path, tmp_path: Path
) -> None:
    """One that ended with 0 or 1 without a run cost the table of all; one that hung was waited for
    without an end."""
    os.mkfifo(plugin / "never")
    tables = {
        "quiet": 'spec = "frail:ends0"',
        "hangs": 'spec = "frail:blocks"',
        "fails": 'spec = "frail:ends1"',
        "short": 'spec = "baseline:length"',
    }
    command = ["run", "--data", data_file, "--suite", suite(tmp_path, **tables)]
    ended = carb(*command, "--out", tmp_path / "out", "--timeout-per-model", "15", "--json")
    assert ended.code == 1
    assert list(ended.json["report"]["scorers"]) == ["short"]
    why = {model["name"]: model["why"] for model in ended.json["models"]}
    assert "exit code 0" in why["quiet"]
    assert "exit code 1" in why["fails"]
    assert "more than 15 seconds" in why["hangs"]
    assert why["short"] is None
    assert "running: hangs" in ended.err, "the model that runs, and not the one that has ended"


@pytest.mark.parametrize("seconds", ["nan", "0", "-1", "inf"])
def test_a_time_that_is_none_is_refused(
    carb: Carb, data_file: Path, tmp_path: Path, seconds: str
) -> None:
    path = suite(tmp_path, short='spec = "baseline:length"')
    out = tmp_path / "out"
    ended = carb(
        "run", "--data", data_file, "--suite", path, "--out", out, "--timeout-per-model", seconds
    )
    assert (ended.code, out.exists()) == (2, False)
    assert "--timeout-per-model" in ended.err


def test_code_that_a_model_brings_is_named_before_the_run(
    carb: Carb, data_file: Path, tmp_path: Path
) -> None:
    model = next(m for m in known_models().models if m.remote_code)
    path = suite(tmp_path, own=f'spec = "{model.kind}:{model.id}"\nmemory_gb = 1e9')
    command = ["run", "--data", data_file, "--suite", path, "--out", tmp_path / "out"]
    for options, code in (("--dry-run",), 0), ((), 1):
        ended = carb(*command, *options)
        assert ended.code == code
        assert "own needs code of its own" in ended.err
        assert "trust_remote_code=true" in ended.err


def test_gpus_are_shared_out(
    carb: Carb, plugin: Path, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models that wait for each other have a GPU each at the same time; a third takes both."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    rows = [f"{n}, GPU-{n}, Test GPU, {free}, 24000" for n, free in enumerate((9000, 20000, 23000))]
    tool.write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-2")
    os.mkfifo(plugin / "meeting")
    tables = {
        "reads": 'spec = "frail:r"\nmemory_gb = 18',
        "writes": 'spec = "frail:w"\nmemory_gb = 22',
        "both": 'spec = "frail:x"\ngpus = 2\nmemory_gb = 38.5',
        "big": 'spec = "frail:x"\nmemory_gb = 30',
        "three": 'spec = "frail:x"\ngpus = 3',
        "none": 'spec = "baseline:length"',
    }
    ended = carb(
        "run",
        "--data",
        data_file,
        "--suite",
        suite(tmp_path, **tables),
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert ended.code == 1
    why = {model["name"]: model["why"] for model in ended.json["models"]}
    assert {name for name, reason in why.items() if reason is not None} == {"big", "three"}
    assert "needs 30.0 GB on 1 GPU; free here: 21.0 GB, 24.1 GB." in why["big"]
    assert "needs 3 GPUs;" in why["three"]
    assert [(plugin / f"{name}.gpus").read_text() for name in ("reads", "writes", "both")] == [
        "1",
        "GPU-2",
        "1,GPU-2",
    ]


def test_a_models_process_gets_every_option(
    carb: Carb, plugin: Path, data_file: Path, tmp_path: Path
) -> None:
    """They are written once, as the command takes them; a model's process gets those that are not
    the default."""
    given = [
        "--limit",
        6,
        "--cultures",
        "thai",
        "german",
        "--perturbed",
        "--seed",
        7,
        "--window",
        3,
        "--retry-errors",
    ]
    path = suite(tmp_path, a='spec = "baseline:length"')
    assert (
        carb("run", "--data", data_file, "--suite", path, "--out", tmp_path / "out", *given).code
        == 0
    )
    command = RunRecord.read(tmp_path / "out" / "a").command
    assert list(command[-len(given) :]) == list(map(str, given))


def test_a_cluster_is_asked_for_what_a_model_needs(
    carb: Carb, plugin: Path, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Ray, whose machine has two GPUs; the session ``ray`` has a real one."""
    asked: list[tuple[int, int]] = []
    lost = type("RayError", (Exception,), {})

    def remote(
        *, num_gpus: int, memory: int, **_: int
    ) -> Callable[[Callable[..., Outcome]], SimpleNamespace]:
        async def run(task: Callable[..., Outcome], *arguments: object) -> Outcome:
            asked.append((num_gpus, memory))
            if num_gpus == 2:
                raise lost("A long story.\nThe worker died.")
            return await anyio.to_thread.run_sync(task, *arguments)

        return lambda task: SimpleNamespace(remote=partial(run, task))

    nodes = [
        {"Alive": True, "Resources": {"GPU": 2.0, "memory": 8e9}},
        {"Alive": False, "Resources": {"GPU": 8.0}},
    ]
    calls = {
        "init": lambda **_: sys.stdout.write("Ray says\n"),
        "nodes": lambda: nodes,
        "shutdown": lambda: None,
    }
    calls |= {"remote": remote, "exceptions": SimpleNamespace(RayError=lost)}
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(**calls))
    monkeypatch.setenv("RAY_ADDRESS", "here")
    tables = {
        "short": 'spec = "baseline:length"\nmemory_gb = 0.1',
        "lost": 'spec = "frail:x"\ngpus = 2',
        "many": 'spec = "frail:x"\ngpus = 3',
        "huge": 'spec = "baseline:random"\nmemory_gb = 9',
    }
    command = [
        "run",
        "--data",
        data_file,
        "--suite",
        suite(tmp_path, **tables),
        "--out",
        tmp_path / "out",
    ]
    assert [model["why"] for model in carb(*command, "--json").json["models"]] == [
        None,
        "Ray: The worker died.",
        "it needs 3 GPUs; no machine of the Ray cluster has that",
        "it needs 9.0 GB of memory; no machine of the Ray cluster has that",
    ]
    assert sorted(asked) == [(0, 100_000_000), (2, 0)]


@pytest.fixture
def terminal() -> Iterator[None]:
    """Processes that are started here heed signals as in a terminal, also where the tests
    themselves run under ``nohup`` or in the background."""
    kept = {sent: signal.getsignal(sent) for sent in (signal.SIGINT, signal.SIGHUP)}
    for sent, handler in kept.items():
        if handler is signal.SIG_IGN:
            signal.signal(sent, signal.SIG_DFL)
    yield
    for sent, handler in kept.items():
        signal.signal(sent, handler)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("sent", "shell"),
    [
        (signal.SIGINT, ""),
        (signal.SIGHUP, ""),
        (signal.SIGTERM, ""),
        (signal.SIGTERM, "trap '' INT; "),
        (signal.SIGKILL, ""),
    ],
    ids=["Ctrl-C", "hang-up", "SIGTERM", "SIGTERM of a script's job in the background", "SIGKILL"],
)
def test_ctrl_c_stops_the_children(
    plugin: Path, data_file: Path, tmp_path: Path, sent: signal.Signals, shell: str
) -> None:
    for name in ("fifo", "never"):
        os.mkfifo(plugin / name)
    path = suite(tmp_path, waits='spec = "frail:waits"', later='spec = "baseline:length"')
    command = [
        sys.executable,
        "-m",
        "carb_cli",
        "run",
        "--data",
        str(data_file),
        "--suite",
        str(path),
    ]
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'{shell}exec "$@"', "sh", *command, "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with (plugin / "fifo").open() as fifo:
        assert fifo.readline() == "here\n"
        process.send_signal(sent)  # to the parent alone
        assert fifo.read() == "", "the child is gone, and its own child"
    _, said = process.communicate()
    if sent in (signal.SIGKILL, signal.SIGHUP):
        assert process.returncode == -sent
    else:
        assert process.returncode == 130, said
        assert "run the same command again" in said
    assert not (tmp_path / "out" / "later").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[model]", ("suite.toml is not TOML", "line 1")),
        ("", ("suite.toml has no table [[model]]",)),
        ('[[models]]\nname = "a"', ("suite.toml", "'models' is unknown", "[[model]]")),
        (
            '[[model]]\nname = "a"\nspec = "baseline:length"\n[[model]]\nname = "b"',
            ("table 2", "spec is missing"),
        ),
        (
            '[[model]]\nname = "a"\nspec = "baseline:length"\ngpu = 2',
            ("table 1", "'gpu' is unknown", "'gpus'"),
        ),
        ('[[modle]]\nname = "a"\nspec = "baseline:length"', ("'modle' is unknown", "'model'")),
        ('[[model]]\nname = "../a"\nspec = "baseline:length"', ("table 1", "name", "letters")),
        ('[[model]]\nname = "a"\nspec = "length"', ("table 1", "spec", "KIND:TARGET")),
        ('[[model]]\nname = "a"\nspec = "b=baseline:length"', ("table 1", "spec", "name")),
        (
            2 * '[[model]]\nname = "a"\nspec = "baseline:length"\n',
            ("table 2", "name", "'a'", "another"),
        ),
    ],
)
def test_a_wrong_suite(
    carb: Carb, data_file: Path, tmp_path: Path, text: str, said: tuple[str, ...]
) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    ended = carb("run", "--data", data_file, "--suite", path, "--out", tmp_path / "out")
    assert ended.code == 2
    assert all(part in ended.err for part in said), ended.err
    assert not (tmp_path / "out").exists()


def test_a_suite_from_the_registry(
    carb: Carb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned where a commit is known, and it says how many are not; or the models of which a
    benchmark has figures."""
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra carb-scorers[hf]")
    path = tmp_path / "mine.toml"
    written = carb("models", "--suite")
    path.write_text(written.out)
    models = read_suite(path)
    small = [
        m for m in known_models().models if m.kind == "classifier" and (m.parameters or 1e10) < 1e10
    ]
    assert [model.spec for model in models] == [model.spec() for model in small]
    assert all(
        model.memory_gb > 2 * known.parameters / 1e9
        for model, known in zip(models, small, strict=True)
    )
    assert tomllib.loads(path.read_text()).keys() == {"model"}
    pinned = [model.revision for model in models]
    assert pinned == [model.revision for model in small]
    assert f"{pinned.count(None)} have no revision" in written.err
    assert (
        models[pinned.index("eb2676d20da2f2d41082289d23c59b9f7427f955")].name
        == "armorm-llama3-8b-v0.1"
    )

    gone = pinned.index(None)

    def model_info(name: str, **_: object) -> SimpleNamespace:
        if name == small[gone].id:
            raise hub.errors.RepositoryNotFoundError(
                "404", response=SimpleNamespace(headers={}, request=None)
            )
        return SimpleNamespace(sha="c0ffee1234" * 4)

    monkeypatch.setattr(hub, "model_info", model_info)
    path.write_text(carb("models", "--suite").out)
    found = [model.revision for model in read_suite(path)]
    assert found == [*pinned[: gone + 1], *(one or "c0ffee1234" * 4 for one in pinned[gone + 1 :])]

    path.write_text(carb("models", "carb", "--suite").out)
    assert {model.name for model in read_suite(path)} == {
        m.name for m in known_models().models if "carb" in m.scores
    }
    wrong = carb("models", "carbs", "--suite")
    assert (wrong.code, "'carbs' is no benchmark" in wrong.err) == (2, True)


def test_a_suite_or_scorers(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    path = suite(tmp_path, a='spec = "baseline:length"')
    both = carb(
        "run",
        "--data",
        data_file,
        "--suite",
        path,
        "--scorer",
        "baseline:length",
        "--out",
        tmp_path / "out",
    )
    assert (both.code, carb("run", "--data", data_file, "--out", tmp_path / "out").code) == (2, 2)
    assert "--scorer or --suite" in both.err
    plan = carb(
        "run",
        "--data",
        data_file,
        "--suite",
        path,
        "--out",
        tmp_path / "out",
        "--dry-run",
        "--json",
    )
    assert [scorer["scorer"] for scorer in plan.json["scorers"]] == ["a"]
    with pytest.raises(CarbError, match=r"Cannot read the suite .*none\.toml.*Check"):
        read_suite(tmp_path / "none.toml")
