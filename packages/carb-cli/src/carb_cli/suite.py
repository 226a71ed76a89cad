"""A suite: many models over one data set, each in a process of its own, so that one that dies takes
nothing with it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import anyio
from pydantic import Field, StringConstraints

from carb_cli.display import counted, size
from carb_cli.machine import Gpu, free_memory, gpus
from carb_cli.main import FAILED, OK
from carb_cli.progress import Report, progress
from carb_cli.scoring import exit_code, say_how_to_go_on
from carb_data import CarbError, Dataset, Frozen, closest, home_path, parse_file, require, validate
from carb_scorers import ParsedSpec, RunRecord, parse_spec, provider

LOG = "log.txt"
"""The output of a model's process, in its folder."""
_ENDED = 'exec 3<&0 </dev/null; { read -r _ <&3; kill -KILL 0; } & exec 3<&- "$@"'
"""A shell's program that becomes a model's process, beside one that ends it once nobody holds the
other end of its input: a suite that was killed, or whose terminal was closed, can end none."""
_HINT = (
    "A table takes name (letters, digits and . _ @ -), spec, and perhaps revision, memory_gb "
    "and gpus."
)


class SuiteModel(Frozen):
    """A table ``[[model]]`` of a suite."""

    name: Annotated[str, StringConstraints(pattern=r"^\w[\w.@-]*$", max_length=64)]
    """The scorer's name in tables; its folder has it, too."""
    spec: str
    revision: str | None = None
    """Commit, tag or branch on the hub; by default the spec's."""
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory over all its GPUs, in units of 10^9 bytes; by default nothing is checked."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    """By default one where there are any; none for baselines and for models behind a server."""

    @property
    def scorer(self) -> ParsedSpec:
        """The spec to score."""
        parsed = parse_spec(self.spec)
        pinned = {}
        if self.revision is not None:
            pinned = {"revision": self.revision}
        return parsed.changed(given=self.name, options=parsed.options | pinned)

    def wanted(self, *, any_gpu: bool) -> int:
        """How many GPUs it takes where there are any, or none."""
        if self.gpus is not None:
            return self.gpus
        elsewhere = self.scorer.kind == "baseline" or self.scorer.options.get("backend") == "openai"
        return 0 if elsewhere or not any_gpu else 1


class Outcome(Frozen):
    """The outcome of a model."""

    why: str | None = None
    """Why it was not scored as it should be; null where it was."""
    shown: bool = False
    """Whether its folder holds scores of this command."""


def read_suite(path: Path) -> tuple[SuiteModel, ...]:
    """Read a suite.

    Raises:
        CarbError: it is no TOML, or a table is wrong; the message names the file, the table and the
            field.
    """
    content = parse_file(path, "suite")
    tables = content.pop("model", [])
    if content:
        name = next(iter(content))
        raise CarbError(
            f"{path}: '{name}' is unknown.{closest(name, ['model'])} "
            f"A suite has tables [[model]]. {_HINT}"
        )
    if not isinstance(tables, list) or not tables:
        raise CarbError(
            f"{path} has no table [[model]]. {_HINT} `carb models --suite` writes an example."
        )
    models: dict[str, SuiteModel] = {}
    for number, table in enumerate(tables, 1):
        where = f"{path}, table {number} of [[model]]"
        model = validate(SuiteModel, table, where, _HINT)
        try:
            provider(model.scorer.kind)
        except CarbError as error:
            raise CarbError(f"{where}: spec: {error}") from None
        if parse_spec(model.spec).given is not None:
            raise CarbError(
                f"{where}: spec: leave out the name in '{model.spec}'; it stands in the field name."
            )
        if model.name.lower() in models:
            raise CarbError(
                f"{where}: name: '{model.name}' is taken by an earlier table; give it another one."
            )
        models[model.name.lower()] = model
    return tuple(models.values())


def unfit(model: SuiteModel, there: Sequence[Gpu]) -> str | None:
    """Why a model cannot run on this machine, with the numbers; null where it can."""
    number = model.wanted(any_gpu=bool(there))
    needed = (model.memory_gb or 0.0) * 1e9
    if number == 0:
        free = free_memory()
        if free is None or needed <= free:
            return None
        return f"it needs {size(needed)} of memory; {size(free)} are free"
    if len([gpu for gpu in there if gpu.free >= needed / number]) >= number:
        return None
    have = ", ".join(size(gpu.free) for gpu in there) or "none"
    memory = f"{size(needed)} on " if needed else ""
    return (
        f"it needs {memory}{counted(number, 'GPU')}; free here: {have}. A model on two "
        "takes gpus = 2, and tensor_parallel=2 (vLLM) or device_map=auto in its spec"
    )


@dataclass(frozen=True)
class _Task:
    """The work of one model's process."""

    model: SuiteModel
    folder: Path
    arguments: tuple[str, ...]
    seconds: float
    """How long it may take; infinite where there is no limit."""


class _Bar:
    """Progress of a suite: how many models have ended, and which run."""

    def __init__(self, total: int, report: Report) -> None:
        self._total = total
        self._report = report
        self._ended = 0
        self._running: list[str] = []

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Within, the model runs."""
        self._running.append(name)
        self._show()
        yield
        self._running.remove(name)

    def ended(self) -> None:
        """Count one more model."""
        self._ended += 1
        if self._ended == self._total:  # else the next that runs is shown with it
            self._show()

    def _show(self) -> None:
        names = ", ".join(self._running)
        self._report("models", self._ended, self._total, f"running: {names}" if names else "")


def run_suite(
    models: Sequence[SuiteModel],
    dataset: Dataset,
    out: Path,
    arguments: Callable[[SuiteModel, Path], list[str]],
    seconds: float,
) -> dict[str, Outcome]:
    """Score a data set with each model, in a folder of ``out`` that has its name.

    Results in a folder are not scored again. Models wait for a GPU; without GPUs they take turns.
    Where ``RAY_ADDRESS`` names a Ray cluster, they run on its machines, which share the folder.

    Args:
        models: the models.
        dataset: the sets that ``arguments`` name.
        out: the folder of the suite.
        arguments: the arguments of ``carb`` that score a model into its folder.
        seconds: how long each model may take.

    Returns:
        The outcome of each model, by its name.
    """
    outcomes: dict[str, Outcome] = {}

    async def one(task: _Task, where: _Machine | _Cluster, bar: _Bar) -> None:
        outcome = Outcome(shown=True)
        if not _is_done(task, dataset):
            outcome = await where.score(task, bar)
        outcomes[task.model.name] = outcome
        bar.ended()

    async def work(where: _Machine | _Cluster) -> None:
        with progress(rest=False, every=0.0) as report:
            bar = _Bar(len(models), report)
            async with anyio.create_task_group() as group:
                for model in models:
                    folder = out / model.name
                    task = _Task(model, folder, tuple(arguments(model, folder)), seconds)
                    group.start_soon(one, task, where, bar)

    out.mkdir(parents=True, exist_ok=True)
    with _workplace() as where, _stopping(out):
        anyio.run(work, where)
    return {model.name: outcomes[model.name] for model in models}


def _is_done(task: _Task, dataset: Dataset) -> bool:
    """Whether the same command has scored the same sets. What a command reads from files may have
    changed: a model, a form, names of cultures; then its process looks what is kept."""
    record = _record_of(task)
    if record is None or "CARB_CULTURES" in os.environ:
        return False
    if {"--fresh", "--retry-errors", "--culture-file"} & {*task.arguments}:
        return False
    scorer = task.model.scorer
    if any(map(_is_there, (scorer.target, *scorer.options.values()))):
        return False
    return (
        record.dataset.fingerprint == dataset.fingerprint
        and record.versions.get("carb-scorers") == version("carb-scorers")
        and exit_code(record) == OK
    )


def _is_there(value: str) -> bool:
    """Whether the value of an option names a file or folder."""
    try:
        return home_path(value).exists()
    except OSError:  # too long for a name
        return False


def _record_of(task: _Task) -> RunRecord | None:
    """The record of a finished run of the same command; null where there is none."""
    try:
        record = RunRecord.read(task.folder)
    except CarbError:
        return None
    return record if record.command == ("carb", *task.arguments) else None


class _Machine:
    """This machine, with the GPUs that no model has. Models that need none take turns."""

    def __init__(self, there: Sequence[Gpu]) -> None:
        self._there = there
        self._free = sorted(there, key=lambda gpu: gpu.free)
        self._given_back = anyio.Condition()
        self._without_gpu = anyio.Lock()

    async def score(self, task: _Task, bar: _Bar) -> Outcome:
        """Score with a model when it is its turn."""
        async with self._taken(task.model) as taken:
            with bar.running(task.model.name):
                return await _tried(task, self._there, taken)

    @asynccontextmanager
    async def _taken(self, model: SuiteModel) -> AsyncIterator[list[Gpu]]:
        """Within, the model has its GPUs, the smallest that suffice; none where it needs none or
        cannot have them."""
        number = model.wanted(any_gpu=bool(self._there))
        if number == 0 or unfit(model, self._there):
            async with self._without_gpu:
                yield []
            return
        each = (model.memory_gb or 0.0) * 1e9 / number
        async with self._given_back:
            while len(large := [gpu for gpu in self._free if gpu.free >= each]) < number:
                await self._given_back.wait()
            chosen = large[:number]
            self._free = [gpu for gpu in self._free if gpu not in chosen]
        yield chosen
        async with self._given_back:
            self._free = sorted([*self._free, *chosen], key=lambda gpu: gpu.free)
            self._given_back.notify_all()


class _Cluster:
    """A Ray cluster that this process has joined. A model waits until one of its machines has
    room."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]

    async def score(self, task: _Task, bar: _Bar) -> Outcome:
        """Score with a model on a machine of the cluster. Ray knows main memory; the machine looks
        at its GPUs'."""
        model = task.model
        number = model.wanted(any_gpu=any("GPU" in machine for machine in self._machines))
        memory = 0 if number else int((model.memory_gb or 0.0) * 1e9)
        if not any(
            has.get("GPU", 0) >= number and has.get("memory", 0) >= memory for has in self._machines
        ):
            what = counted(number, "GPU") if number else f"{size(memory)} of memory"
            return Outcome(why=f"it needs {what}; no machine of the Ray cluster has that")
        remote = self._ray.remote(
            num_cpus=1, num_gpus=number, memory=memory, max_retries=0, max_calls=1
        )(_on_a_machine)
        try:
            with bar.running(model.name):
                outcome: Outcome = await remote.remote(task, Path.cwd())
        except self._ray.exceptions.RayError as error:
            return Outcome(why=f"Ray: {str(error).strip().splitlines()[-1]}")
        return outcome


@contextmanager
def _workplace() -> Iterator[_Machine | _Cluster]:
    """Where models run: on the Ray cluster that ``RAY_ADDRESS`` names, else on this machine."""
    if not os.environ.get("RAY_ADDRESS"):
        yield _Machine(gpus())
        return
    ray = require("ray", "carb-cli[ray]")
    with redirect_stdout(
        sys.stderr
    ):  # Ray prints what goes wrong on its machines, and stdout is for the table
        try:
            ray.init(log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError) as error:
            raise CarbError(
                f"RAY_ADDRESS names no cluster that answers; start one or unset it. {error}"
            ) from None
        try:
            yield _Cluster(ray)
        finally:
            ray.shutdown()


def _on_a_machine(task: _Task, here: Path) -> Outcome:
    """Score on a machine of the cluster, in the folder where the suite was started."""
    try:
        os.chdir(here)
    except OSError as error:
        return Outcome(why=f"{error}; the machines of the Ray cluster must share it")
    there = gpus()  # those that Ray gave
    return anyio.run(_tried, task, there, there)


async def _tried(task: _Task, there: Sequence[Gpu], taken: Sequence[Gpu]) -> Outcome:
    """Score with one model on some of the GPUs, if it fits."""
    if why := unfit(task.model, there):
        return Outcome(why=why)
    visible = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.id for gpu in taken),
    }
    try:
        return await _scored(task, {**os.environ, **(visible if there else {})})
    except OSError as error:
        return Outcome(why=str(error))


async def _scored(task: _Task, environment: dict[str, str]) -> Outcome:
    """Score with one model in a process of its own, which is ended when its time has passed."""
    log = task.folder / LOG
    task.folder.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        start = file.tell()
        async with await anyio.open_process(
            ["/bin/sh", "-c", _ENDED, "sh", sys.executable, "-m", "carb_cli", *task.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                with anyio.move_on_after(task.seconds) as limit:
                    await process.wait()
            finally:  # with the processes that it has started
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        code = await process.wait()
    if limit.cancelled_caught:
        return Outcome(why=f"it took more than {task.seconds:g} seconds ({log})")
    printed = log.read_bytes()[start:].decode("utf-8", "replace").strip()
    outcome = _outcome(code, printed, task.folder)
    if outcome.shown and _record_of(task) is None:
        return Outcome(
            why=f"its process ended with exit code {code} before the run was finished ({log})"
        )
    return outcome


def _outcome(code: int, printed: str, folder: Path) -> Outcome:
    if code == OK:
        return Outcome(shown=True)
    if code < 0:
        ended = signal.Signals(-code).name
        perhaps = ", perhaps for want of memory" if ended == "SIGKILL" else ""
        return Outcome(why=f"its process was ended by {ended}{perhaps}")
    if code == FAILED and "Traceback" not in printed:
        return Outcome(
            why=f"more than a tenth of its requests failed: {folder / 'errors.jsonl'}", shown=True
        )
    errors = re.findall(r"^error: (.*(?:\n.+)*)", printed, flags=re.MULTILINE)
    last = printed.rpartition("\n")[2]
    return Outcome(why=errors[-1] if errors else f"{last} ({folder / LOG})")


@contextmanager
def _stopping(out: Path) -> Iterator[None]:
    """Within, SIGTERM is as Ctrl-C, which stops the models' processes, and each prints how to go
    on. A shell starts a script's jobs in the background so that they ignore Ctrl-C; then SIGTERM
    would do nothing."""
    interrupts = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    except KeyboardInterrupt:
        say_how_to_go_on(out)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupts)
