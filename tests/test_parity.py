"""Every kind, mode and reading on transformers and over a server, against plain arithmetic on a model's forward pass.

The cells are declared in ``parity.py``. Prompts come from the judge's own form; what is made of them is computed here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

import torch
import transformers

from carb_scorers import ScoreResult, open_scorer
from carb_scorers.judge.asking import Asker
from carb_scorers.judge.form_files import read_form
from parity import CELLS, Cell, table
from readme_examples import TESTED
from tiny_models import folder, request
from tiny_server import TinyServer, greedy, row

ASKED = request("Noodles at dawn.", "Nudeln, 10 davon", "a")
TEXTS = [candidate.text for candidate in ASKED.candidates]
QUESTION = str(ASKED.prompt)


class Plain:
    """What a model says, one text at a time, behind what ``tiny_models.CHAT`` writes."""

    def __init__(self, model: Any, tokenizer: Any, *, spaced: bool) -> None:
        self.model, self.tokenizer, self.spaced = model, tokenizer, spaced

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def probability(self, text: str, word: str) -> float:
        """Of a word as the next token; on a server with or without a space before it."""
        p = row(self.model, self.ids(text))[-1].softmax(-1)
        (token,) = self.ids(word)
        words = [self.tokenizer.decode([t]) for t in range(len(self.tokenizer))] if self.spaced else []
        tokens = [t for t, other in enumerate(words) if other.strip() == word] or [token]
        return float(p[tokens].sum())

    def asked(self, mode: Any, texts: Sequence[str], *, reads: bool, falling: bool = False) -> str:
        asker = Asker(read_form("culture"), mode)
        prompt = asker.ask(ASKED, texts, "ABC"[: len(texts)], reads=reads, falling=falling)
        return f"<|user|>\n{prompt.messages[0]['content']}<|end|>\n<|assistant|>\n"

    def written(self, text: str) -> str:
        ids = greedy(self.model, self.ids(text), 8, self.tokenizer.eos_token_id)
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def answer(self, after: str, start: str = "") -> list[float]:
        before = self.ids(start)
        whole = [*before, *self.ids(after)]
        logprobs = row(self.model, whole).log_softmax(-1)
        return [float(logprobs[i - 1, whole[i]]) for i in range(len(before), len(whole))]


def listwise(plain: Plain, orders: list[list[int]]) -> list[float]:
    found = [[0.0] * len(orders) for _ in TEXTS]
    for n, order in enumerate(orders):
        text = plain.asked("listwise", [TEXTS[i] for i in order], reads=True)
        p = [plain.probability(text, letter) for letter in "ABC"]
        for place, i in enumerate(order):
            found[i][n] = math.log(p[place] / sum(p))
    return [sum(values) / len(values) for values in found]


def strengths(wins: dict[tuple[int, int], float]) -> list[float]:
    """The maximum of Σ w log σ(s_i - s_j) - 0.05 Σ s², by a general optimiser."""
    s = torch.zeros(len(TEXTS), dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS(
        [s], max_iter=500, tolerance_grad=1e-13, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def loss() -> Any:
        search.zero_grad()
        fit = sum(w * torch.nn.functional.logsigmoid(s[i] - s[j]) for (i, j), w in wins.items())
        value = 0.05 * (s * s).sum() - fit
        value.backward()
        return value

    search.step(loss)
    return s.detach().tolist()


def pairwise(plain: Plain, *, both: bool, knockout: bool) -> list[float]:
    wins: dict[tuple[int, int], float] = {}

    def meet(i: int, j: int) -> int:
        for a, b in ((i, j), (j, i)) if both else ((i, j),):
            text = plain.asked("pairwise", [TEXTS[a], TEXTS[b]], reads=True)
            p, q = plain.probability(text, "A"), plain.probability(text, "B")
            wins[a, b] = wins.get((a, b), 0.0) + p / (p + q)
            wins[b, a] = wins.get((b, a), 0.0) + q / (p + q)
        return i if wins[i, j] >= wins[j, i] else j

    if not knockout:
        for i, j in combinations(range(3), 2):
            meet(i, j)
        return strengths(wins)
    first = meet(0, 1)
    last = meet(first, 2)
    through = {first: 1, 2: 1}  # the third goes on without an opponent
    through[last] += 1
    return [through.get(i, 0) + 1 / (1 + math.exp(-s)) for i, s in enumerate(strengths(wins))]


def pointwise(plain: Plain, *, both: bool) -> list[float]:
    found = []
    for text in TEXTS:
        ratings = []
        for falling in (False, True) if both else (False,):
            asked = plain.asked("pointwise", [text], reads=True, falling=falling)
            p = {rating: plain.probability(asked, str(rating)) for rating in range(1, 10)}
            behind = row(plain.model, plain.ids(f"{asked}1"))[-1].softmax(-1)
            p[10] = p[1] * float(behind[plain.ids("0")[0]])
            p[1] -= p[10]
            ratings.append(sum(r * weight for r, weight in p.items()) / sum(p.values()))
        found.append(sum(ratings) / len(ratings))
    return found


def expected(cell: Cell, backend: str, models: dict[str, Any]) -> list[float]:
    tokenizer = models["tokenizer"]
    plain = Plain(models["language"], tokenizer, spaced=backend == "openai")
    start = f"<|user|>\n{QUESTION}<|end|>\n<|assistant|>\n"
    if cell.kind == "classifier":
        return [float(row(models["classifier"], plain.ids(f"{start}{text}<|end|>\n"))[0]) for text in TEXTS]
    if cell.kind == "implicit":
        if backend == "openai":  # plain text: a server echoes no chat
            values = [plain.answer(text, f"<s>{QUESTION}\n") for text in TEXTS]
        else:
            values = [plain.answer(f"{text}<|end|>", start) for text in TEXTS]
        if "reference" in cell.options:
            other = Plain(models["reference"], tokenizer, spaced=False)
            return [sum(v) - sum(other.answer(f"{t}<|end|>", start)) for v, t in zip(values, TEXTS, strict=True)]
        return [sum(v) / (len(v) if "mean" in cell.options else 1) for v in values]
    if "listwise" in cell.options:
        one = [0, 1, 2]
        rotated = [one, [1, 2, 0], [2, 0, 1]]
        orders = rotated if "rotated" in cell.options else [one, one[::-1]] if "both" in cell.options else [one]
        return listwise(plain, orders)
    if "pairwise" in cell.options:
        return pairwise(plain, both="orders=one" not in cell.options, knockout="knockout" in cell.options)
    return pointwise(plain, both="both" in cell.options)


def writer(base: Path) -> Path:
    """A tiny model that writes verdicts: taught each of this file's prompts by heart."""
    start = folder(base, "llama", "CausalLM", chat=True)
    place = base / "writer"
    if place.is_dir():
        return place
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(start)
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    plain = Plain(model, tokenizer, spaced=False)
    lessons = [(plain.asked("listwise", TEXTS, reads=False), "B")]
    lessons += [
        (plain.asked("pointwise", [text], reads=False), rating) for text, rating in zip(TEXTS, "792", strict=True)
    ]
    for first, second in permutations(TEXTS, 2):
        longer = "A" if len(first) > len(second) else "B"
        lessons.append((plain.asked("pairwise", [first, second], reads=False), longer))
    rows = [(plain.ids(asked), [*plain.ids(f"[[{said}]]"), tokenizer.eos_token_id]) for asked, said in lessons]
    learning = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(200):
        losses, right = [], []
        for before, after in rows:
            logits = model(torch.tensor([before + after]), logits_to_keep=len(after) + 1).logits[0, :-1]
            right.append(logits.argmax(-1).tolist() == after)
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(after)))
        loss = torch.stack(losses).mean()
        if all(right) and loss.item() < 0.1:
            break
        learning.zero_grad()
        loss.backward()
        learning.step()
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def models(base: Path) -> Iterator[dict[str, Any]]:
    made = {
        "language": folder(base, "llama", "CausalLM", chat=True),
        "reference": folder(base, "llama", "CausalLM", chat=True, seed=1),
        "writer": writer(base),
        "classifier": folder(base, "llama", "SequenceClassification", chat=True, pad="<pad>"),
    }
    found: dict[str, Any] = {"folders": made, "tokenizer": transformers.AutoTokenizer.from_pretrained(made["language"])}
    for name, place in made.items():
        head = "SequenceClassification" if name == "classifier" else "CausalLM"
        found[name] = getattr(transformers, f"AutoModelFor{head}").from_pretrained(place).eval()
    names = ("language", "writer", "classifier")
    server = TinyServer({str(made[name]): found[name] for name in names}, found["tokenizer"])
    yield {**found, "url": server.url}
    server.close()


def result(cell: Cell, backend: str, models: dict[str, Any]) -> ScoreResult:
    name = "classifier" if cell.kind == "classifier" else "writer" if "written" in cell.says else "language"
    place = models["folders"][name]
    options = [cell.options.format(reference=models["folders"]["reference"])]
    if backend == "openai":
        options += ["backend=openai", f"url={models['url']}"]
        options += {"implicit": ["api=completions"], "judge": ["top_logprobs=640"]}.get(cell.kind, [])
    scorer = open_scorer(f"{cell.kind}:{place}?{'&'.join(filter(None, options))}")
    (found,) = anyio.run(scorer.score, [ASKED])
    assert isinstance(found, ScoreResult)
    return found


READ = [(cell, backend) for cell in CELLS for backend in cell.backends if "written" not in cell.says]
WRITTEN = [(cell, backend) for cell in CELLS for backend in cell.backends if "written" in cell.says]


@pytest.mark.parametrize(("cell", "backend"), READ, ids=lambda x: x.name if isinstance(x, Cell) else x)
def test_scores_are_plain_arithmetic(cell: Cell, backend: str, models: dict[str, Any]) -> None:
    found = result(cell, backend, models)
    assert found.complete
    assert list(found.scores.values()) == pytest.approx(expected(cell, backend, models), abs=1e-4)


@pytest.mark.parametrize(("cell", "backend"), WRITTEN, ids=lambda x: x.name if isinstance(x, Cell) else x)
def test_verdicts_are_those_of_step_by_step_writing(cell: Cell, backend: str, models: dict[str, Any]) -> None:
    plain = Plain(models["writer"], models["tokenizer"], spaced=False)
    found = result(cell, backend, models)
    assert found.complete, found.error

    def verdict(mode: str, *texts: str) -> str:
        (said,) = re.findall(r"\[\[(\w+)\]\]", plain.written(plain.asked(mode, texts, reads=False)))
        return str(said)

    if "listwise" in cell.options:
        wanted = [float(letter == verdict("listwise", *TEXTS)) for letter in "ABC"]
    elif "pointwise" in cell.options:
        wanted = [float(verdict("pointwise", text)) for text in TEXTS]
    else:
        wins: dict[tuple[int, int], float] = {}
        for i, j in permutations(range(3), 2):
            won = float(verdict("pairwise", TEXTS[i], TEXTS[j]) == "A")
            wins[i, j] = wins.get((i, j), 0.0) + won
            wins[j, i] = wins.get((j, i), 0.0) + 1 - won
        wanted = strengths(wins)
    assert len(set(wanted)) > 1
    assert list(found.scores.values()) == pytest.approx(wanted, abs=1e-4)


def test_the_page_s_table_is_what_the_command_prints() -> None:
    assert table() in TESTED.read_text(encoding="utf-8")
