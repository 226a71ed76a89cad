"""Speed of scoring on transformers, as ratios measured in one run. ``python benchmarks/bench_scorers.py --help``.

Classifier: a Llama of 135M parameters (random weights; speed does not depend on them) with Gemma's tokenizer scores
best-of-4 sets (carb-seed: ten languages), float32, one thread, in these ways:

* ``carb``: ``classifier:MODEL`` as it is: the prompt once, its candidates beside it.
* ``shared``: the same with ``batching=budget&batch_tokens=2048``: items share passes, as on a GPU.
* ``unpacked``: as ``carb`` with ``packing=off``: each conversation alone.
* ``one by one``: the model, as transformers loads it, called with one text at a time.
* ``reference``: what the usual tool does: pairs of chosen and rejected, so that the chosen one is scored with each
  rejected one, in batches of 8 in input order, padded to the longest; the model as transformers loads it.
* ``floor``: forward passes over as many tokens as ``carb`` computes, in full batches without any padding or mask.

Sets as they are (short texts), and sets of longer texts, each joined from five.

Judge: Gemma 3 270M reads a listwise verdict; against the logits of the whole vocabulary at the verdict's place, and
at every place.

The ways take turns, eight sets at a time, twice, and the faster turn counts, in CPU seconds: so a busy machine
troubles them alike, and little.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SHAPE = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
}
"""Of SmolLM2 135M."""

CHAT = "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--items", type=int, default=18, help="best-of-4 sets (default 18), and a third as many of longer texts"
    )
    parser.add_argument("--data", default="carb-seed@2", help="where the sets come from (default carb-seed)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-memory", action="store_true", help="leave out the measurement of memory")
    parser.add_argument("--memory", metavar="FOLDER,TOKENS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    if arguments.memory:
        folder, _, tokens = arguments.memory.rpartition(",")
        print(measure_memory(folder, int(tokens)))
        return
    short = best_of_4(arguments.data, arguments.items)
    long = best_of_4(arguments.data, max(2, arguments.items // 3), join=5)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ways = Ways(make_classifier(folder))
        for requests in (short, long):
            bench_classifier(ways, requests)
        if not arguments.no_memory:
            bench_memory(folder)
    bench_judge(short[: max(2, len(short) // 4)])


def best_of_4(data: str, count: int, join: int = 1) -> list[Any]:
    """Requests about sets of four, the chosen response first; ``join`` sets of a culture make one of longer texts."""
    from carb_data import load
    from carb_scorers import Candidate, ScoreRequest

    items = [item for item in load(data) if len(item.responses) == 4]
    starts = range(0, len(items), max(1, len(items) // count))[:count]
    requests = []
    for start in starts:
        block = [item for item in items[start:] if item.culture == items[start].culture][:join]
        answers = [sorted(item.responses, key=lambda r: r.role != "chosen") for item in block]
        texts = [" ".join(own[place].text for own in answers) for place in range(4)]
        requests.append(
            ScoreRequest(
                request_id=items[start].id,
                prompt=" ".join(item.prompt for item in block),
                candidates=tuple(Candidate(id=str(place), text=text) for place, text in enumerate(texts)),
                culture=items[start].culture,
                language=items[start].language,
            )
        )
    return requests


def make_classifier(folder: Path) -> Path:
    import torch
    import transformers

    from small_models import model_folder

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder("gemma3-270m"))
    tokenizer.chat_template = CHAT
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), num_labels=1, pad_token_id=0, **SHAPE)
    torch.manual_seed(0)
    transformers.LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Stopwatch:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.tokens: dict[str, int] = {}

    def run(self, name: str, tokens: int, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = call()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start
        self.tokens[name] = self.tokens.get(name, 0) + tokens
        return result

    def add_faster(self, turns: Sequence[Stopwatch]) -> None:
        """Of several turns over the same sets the fastest of each way."""
        for name in turns[0].seconds:
            self.seconds[name] = self.seconds.get(name, 0.0) + min(turn.seconds[name] for turn in turns)
            self.tokens[name] = self.tokens.get(name, 0) + turns[0].tokens[name]


class Ways:
    """The ways to score best-of-4 sets with one classifier; ``tokens`` says how many each computes."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification

        from carb_scorers import open_scorer

        opened: Any = open_scorer(f"classifier:{folder}?batching=budget")  # with every short cut tried
        self.spec, items = opened.spec, opened._model._items
        self.carb: Any = self._variant(items)
        self.worker = items.workers[0]
        self.model, self.tokenizer = self.worker.loaded.model, self.worker.loaded.tokenizer
        self.plain = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        self.variants = {
            "unpacked": self._variant(items, packing="off"),
            "shared": self._variant(items, batching="budget", batch_tokens=2048),
        }

    def _variant(self, items: Any, **options: Any) -> Any:
        """The same model in memory under other options."""
        from carb_scorers.classifier import ClassifierScorer
        from carb_scorers.models.transformers.rewards import HFRewardModel, RewardOptions

        model = HFRewardModel("", items.workers, RewardOptions(**options), (1.0,), ())
        return ClassifierScorer(self.spec, model)

    def ids(self, request: Any, text: str) -> tuple[int, ...]:
        from carb_scorers.models.protocol import Prompt, Turn
        from carb_scorers.models.tokens import conversation_ids

        return tuple(conversation_ids(self.tokenizer, Prompt((Turn(role="user", content=request.prompt),)), text))

    def forward(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """The model's own forward pass, padded to the longest."""
        import torch

        width = max(map(len, rows))
        tokens = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for line, row in enumerate(rows):
            tokens[line, : len(row)] = torch.tensor(row)
            mask[line, : len(row)] = 1
        with torch.inference_mode():
            logits = self.plain(input_ids=tokens, attention_mask=mask, use_cache=False).logits
        return [float(value) for value in logits[:, 0]]

    def one_by_one(self, block: Sequence[Any]) -> dict[tuple[str, str], float]:
        return {(r.request_id, c.id): self.forward([self.ids(r, c.text)])[0] for r in block for c in r.candidates}

    def reference(self, block: Sequence[Any]) -> None:
        for batch in self.pair_batches(block):
            self.forward([self.ids(request, text) for request, text in batch])

    def pair_batches(self, block: Sequence[Any]) -> list[list[tuple[Any, str]]]:
        """The chosen response (the first) beside each rejected one, in eights."""
        texts = [(r, text) for r in block for other in r.candidates[1:] for text in (r.candidates[0].text, other.text)]
        return [texts[start : start + 8] for start in range(0, len(texts), 8)]

    def floor(self, rows: int, width: int) -> None:
        import torch

        with torch.inference_mode():
            self.model.model(input_ids=torch.ones((rows, width), dtype=torch.long), use_cache=False)

    def tokens(self, block: Sequence[Any]) -> dict[str, int]:
        from carb_scorers.models.transformers.batching import Row, pack_group
        from carb_scorers.models.transformers.executor import PACK_TOKENS

        rows = [[self.ids(r, c.text) for c in r.candidates] for r in block]
        whole = sum(len(row) for own in rows for row in own)
        packed = sum(
            pack.length
            for own in rows
            for pack in pack_group(
                [Row(row, (len(row) - 1,)) for row in own], cost=self.worker.core.cost, longest=PACK_TOKENS
            )
        )
        padded = sum(len(b) * max(len(self.ids(r, t)) for r, t in b) for b in self.pair_batches(block))
        return {"reference": padded, "one by one": whole, "unpacked": whole, "carb": packed, "shared": packed,
                "floor": packed}  # fmt: skip


def bench_classifier(ways: Ways, requests: Sequence[Any]) -> None:
    watch = Stopwatch()
    furthest = 0.0

    def turn(use: Stopwatch, block: Sequence[Any]) -> float:
        tokens = ways.tokens(block)

        def run(name: str, call: Callable[[], Any]) -> Any:
            return use.run(name, tokens[name], call)

        found = run("carb", lambda: anyio.run(ways.carb.score, block))
        run("floor", lambda: ways.floor(len(block), round(tokens["floor"] / len(block))))
        alone = run("one by one", lambda: ways.one_by_one(block))
        run("reference", lambda: ways.reference(block))
        for name, variant in ways.variants.items():
            run(name, lambda variant=variant: anyio.run(variant.score, block))
        return max(abs(r.scores[key] - alone[r.request_id, key]) for r in found for key in r.scores)

    turn(Stopwatch(), requests[:2])  # warm up
    for start in range(0, len(requests), 8):
        turns = [Stopwatch(), Stopwatch()]
        furthest = max(furthest, *(turn(use, requests[start : start + 8]) for use in turns))
        watch.add_faster(turns)
    sets = len(requests)
    languages = len({request.language for request in requests})
    each = watch.tokens["one by one"] / sets / 4
    print(f"Classifier, 135M Llama, float32: {sets} best-of-4 sets, {languages} languages, {each:.0f} tokens a text")
    print(f"{'way':12} {'tokens':>8} {'CPU s':>8} {'tokens/s':>9} {'ms/set':>8}  carb is faster by")
    for name in ("reference", "one by one", "unpacked", "carb", "shared", "floor"):
        seconds, tokens = watch.seconds[name], watch.tokens[name]
        ratio = seconds / watch.seconds["carb"]
        print(f"{name:12} {tokens:8} {seconds:8.1f} {tokens / seconds:9.0f} {1000 * seconds / sets:8.0f}  {ratio:.2f}")
    print(f"largest difference between carb and one by one: {furthest:.1e}")
    for name in ("carb", "shared"):
        faster = watch.seconds["reference"] / watch.seconds[name]
        share = watch.seconds["floor"] / watch.seconds[name]
        print(f"{name}: {faster:.2f} times the reference (goal 2.5), {share:.2f} of the floor (goal 0.9)")
    print()


def bench_memory(folder: Path) -> None:
    """Peak memory above the loaded model, by token budget, each in a process of its own."""
    print("Peak memory above the loaded model, batching=budget:")
    for tokens in (1024, 2048, 4096, 8192):
        command = [sys.executable, __file__, "--memory", f"{folder},{tokens}"]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print(f"  batch_tokens={tokens}: {found}")


def measure_memory(folder: str, tokens: int) -> str:
    from carb_scorers import open_scorer

    scorer = open_scorer(f"classifier:{folder}?batching=budget&batch_tokens={tokens}")
    requests = best_of_4("carb-seed@2", max(8, tokens // 96))
    page = resource.getpagesize()
    done = threading.Event()
    peak = [0]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    def sample() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], resident())

    anyio.run(scorer.score, requests[:1])
    before = resident()
    sampler = threading.Thread(target=sample)
    sampler.start()
    anyio.run(scorer.score, requests)
    done.set()
    sampler.join()
    return f"{(peak[0] - before) / 2**20:.0f} MiB, {(peak[0] - before) / tokens / 2**10:.0f} KiB a token"


def bench_judge(requests: Sequence[Any]) -> None:
    import torch

    from carb_scorers import open_scorer
    from carb_scorers.judge.form import read_form
    from carb_scorers.judge.prompt import Asker
    from carb_scorers.models.tokens import prompt_ids
    from small_models import model_folder

    judge: Any = open_scorer(f"judge:{model_folder('gemma3-270m')}")
    worker = judge._model._items.workers[0]
    asker = Asker(read_form("culture"), "listwise")
    watch = Stopwatch()

    def logits(request: Any, keep: int) -> None:
        texts = [candidate.text for candidate in request.candidates]
        ids = prompt_ids(worker.loaded.tokenizer, asker.ask(request, texts, "ABCD"[: len(texts)], reads=True))
        with torch.inference_mode():
            worker.loaded.model(input_ids=torch.tensor([ids]), logits_to_keep=keep, use_cache=False)

    def turn(use: Stopwatch, request: Any) -> None:
        (result,) = use.run("carb", 0, lambda: anyio.run(judge.score, [request]))
        tokens = result.usage.input_tokens
        use.tokens["carb"] += tokens
        use.run("verdict's logits", tokens, lambda: logits(request, 1))
        use.run("all logits", tokens, lambda: logits(request, 0))

    turn(Stopwatch(), requests[0])  # warm up
    for request in requests:
        turns = [Stopwatch(), Stopwatch()]
        for use in turns:
            turn(use, request)
        watch.add_faster(turns)
    print(f"\nJudge, Gemma 3 270M, float32, mode=listwise&read=logprob: {len(requests)} sets")
    for name in ("all logits", "verdict's logits", "carb"):
        seconds, tokens = watch.seconds[name], watch.tokens[name]
        ratio = seconds / watch.seconds["carb"]
        print(f"{name:17} {tokens / seconds:6.0f} tokens/s {1000 * seconds / len(requests):6.0f} ms/set  {ratio:.2f}")


if __name__ == "__main__":
    main()
