"""Speed of scoring on transformers, as ratios measured in one run. ``python
benchmarks/bench_scorers.py --help``.

A Llama of 135M parameters (random weights; speed does not depend on them) with Gemma's tokenizer
scores best-of-4 sets (carb-seed: ten languages), float32, one thread, in these ways:

* ``carb``: ``classifier:MODEL`` as it is: what the candidates have in common once.
* ``shared``: the same with ``batching=budget``: items share passes, as on a GPU.
* ``one by one``: the model, as transformers loads it, called with one text at a time.
* ``reference``: what the usual tool does: pairs of chosen and rejected, so that the chosen one is
  scored with each rejected one, in batches of 8 in input order, padded to the longest.

Sets as they are (short texts), and sets of longer texts, each joined from five. The ways take
turns, twice, and the faster turn counts, in CPU seconds: so a busy machine troubles them alike, and
little.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
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

CHAT = (
    "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--items",
        type=int,
        default=18,
        help="best-of-4 sets (default 18), a third as many longer ones",
    )
    parser.add_argument(
        "--data", default="carb-seed", help="where the sets come from (default carb-seed)"
    )
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = make_classifier(Path(temporary))
        for count, join in ((arguments.items, 1), (max(2, arguments.items // 3), 5)):
            bench(folder, best_of_4(arguments.data, count, join))


def best_of_4(data: str, count: int, join: int = 1) -> list[Any]:
    """Requests about sets of four, the chosen response first; ``join`` sets of a culture make one
    of longer texts."""
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
                prompt=" ".join(item.prompt_text for item in block),
                candidates=tuple(
                    Candidate(id=str(place), text=text) for place, text in enumerate(texts)
                ),
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
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), num_labels=1, pad_token_id=0, **SHAPE
    )
    torch.manual_seed(0)
    transformers.LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# the ways beside one another
def bench(folder: Path, requests: Sequence[Any]) -> None:  # noqa: C901
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from carb_scorers import open_scorer
    from carb_scorers.models.chat_tokens import conversation
    from carb_scorers.models.protocol import Prompt, message

    carb, shared = (
        open_scorer(f"classifier:{folder}?batching={way}") for way in ("item", "budget")
    )
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def ids(request: Any, text: str) -> list[int]:
        return list(conversation(tokenizer, Prompt((message("user", request.prompt),)), text)[0])

    def forward(rows: Sequence[Sequence[int]]) -> None:
        width = max(map(len, rows))
        tokens = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        with torch.inference_mode():
            model(input_ids=tokens, attention_mask=mask, use_cache=False)

    def one_by_one() -> None:
        for request in requests:
            for candidate in request.candidates:
                forward([ids(request, candidate.text)])

    def reference() -> None:
        pairs = [
            (r, c.text)
            for r in requests
            for other in r.candidates[1:]
            for c in (r.candidates[0], other)
        ]
        for start in range(0, len(pairs), 8):
            forward([ids(request, text) for request, text in pairs[start : start + 8]])

    ways: dict[str, Callable[[], Any]] = {
        "carb": lambda: anyio.run(carb.score, requests),
        "shared": lambda: anyio.run(shared.score, requests),
        "one by one": one_by_one,
        "reference": reference,
    }
    anyio.run(carb.score, requests[:1])  # warm up
    seconds: dict[str, float] = {}
    for _ in range(2):
        for name, call in ways.items():
            start = time.process_time()
            call()
            spent = time.process_time() - start
            seconds[name] = min(seconds.get(name, spent), spent)
    lengths = [
        len(ids(request, candidate.text))
        for request in requests
        for candidate in request.candidates
    ]
    print(f"{len(requests)} sets of four, {sum(lengths) / len(lengths):.0f} tokens a conversation")
    for name, spent in seconds.items():
        print(f"{name:12} {spent:8.1f} s of CPU, {spent / seconds['carb']:.2f} times carb's")


if __name__ == "__main__":
    main()
