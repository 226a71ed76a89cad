"""Scalar students: a Bradley-Terry head on preferences of people or of a Think-as-Locals judge.

Both give ordinary one-label sequence classifiers that ``classifier:FOLDER`` scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from carb_data import CarbError
from carb_data.extras import require
from carb_data.models import Frozen
from carb_data.waiting import wait_for
from carb_scorers import Candidate, ScoreRequest, ScoreResult
from carb_scorers.models import Prompt
from carb_scorers.models.tokens import conversation_ids
from tal_rlvr.pairs import Pair
from tal_rlvr.scorer import judge_as_scorer


class StudentConfig(Frozen):
    """How a Bradley-Terry head is trained. All values are ours."""

    steps: int = Field(default=100, ge=1)
    batch_size: int = Field(default=8, ge=1)
    """Pairs in a step."""
    learning_rate: float = Field(default=1e-5, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_length: int = Field(default=1024, ge=8)
    """Longest prompt and response, in tokens; pairs with a longer one are left out and counted."""
    seed: int = 0


class JudgedPair(Frozen):
    """A pair with how probable it is that the response called ``chosen`` is the better one."""

    pair: Pair
    probability: float = Field(ge=0, le=1)


class StudentResult(Frozen):
    """What training a student did."""

    model: str
    """Folder: ``classifier:MODEL`` scores with it."""
    pairs: int
    left_out: int
    """Pairs that were too long, or on which the judge wrote no judgement in either order."""
    losses: tuple[float, ...]
    """Mean loss of each step, nats."""


def train_bradley_terry(
    model: str | Path, pairs: Sequence[Pair | JudgedPair], out: str | Path, config: StudentConfig | None = None
) -> StudentResult:
    """Train a scalar head so that sigmoid(score(chosen) - score(rejected)) is the preference's probability.

    The loss is the cross-entropy ``-p log sigmoid(d) - (1 - p) log sigmoid(-d)`` with d the difference of the scores;
    for p = 1 that is the Bradley-Terry loss of reward modelling (Ouyang et al. 2022, arXiv 2203.02155, equation 1).

    Args:
        model: folder or hub id of a causal language model or of a sequence classifier.
        pairs: the pairs to learn from: p is 1 for a ``Pair``, and the judge's probability for a ``JudgedPair``.
        out: folder for the trained model.

    Raises:
        CarbError: the model cannot be loaded, or no pair is short enough.
    """
    torch = require("torch", package="tal-rlvr", extra="train")
    transformers = require("transformers", package="tal-rlvr", extra="train")
    config = config or StudentConfig()
    transformers.set_seed(config.seed)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        student = transformers.AutoModelForSequenceClassification.from_pretrained(
            model, num_labels=1, dtype=torch.float32
        )
    except (OSError, ValueError) as error:
        raise CarbError(f"Cannot load '{model}' as a classifier: {str(error).splitlines()[0]}") from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    student.config.pad_token_id = tokenizer.pad_token_id
    rows: list[tuple[list[int], list[int], float]] = []
    for entry in pairs:
        pair = entry.pair if isinstance(entry, JudgedPair) else entry
        chosen, rejected = (_encode(tokenizer, pair.prompt, text) for text in (pair.chosen, pair.rejected))
        if max(len(chosen), len(rejected)) <= config.max_length:
            rows.append((chosen, rejected, entry.probability if isinstance(entry, JudgedPair) else 1.0))
    if not rows:
        raise CarbError("No pair is left to train on; raise max_length or give more pairs.")
    losses = _fit(student, rows, config, torch)
    student.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return StudentResult(model=str(out), pairs=len(rows), left_out=len(pairs) - len(rows), losses=tuple(losses))


def distil_to_classifier(
    judge: str | Path, model: str | Path, pairs: Sequence[Pair], out: str | Path, config: StudentConfig | None = None
) -> StudentResult:
    """Train a Bradley-Terry head on what a Think-as-Locals judge prefers after writing its criteria.

    The labels of ``pairs`` are not used: the probability of either response is the judge's own, averaged over both
    orders of showing them.

    Args:
        judge: folder of a trained judge (``TrainResult.model``).
        model: the model from which the student starts: a folder or a hub id.
    """
    judged = judge_pairs(judge, pairs)
    result = train_bradley_terry(model, judged, out, config)
    return result.model_copy(update={"left_out": result.left_out + len(pairs) - len(judged)})


def judge_pairs(judge: str | Path, pairs: Sequence[Pair]) -> list[JudgedPair]:
    """The judge's probability that ``chosen`` is better, over both orders; pairs without a judgement are left out."""
    scorer = judge_as_scorer(judge)

    async def ask() -> list[ScoreResult]:
        try:
            return [result for pair in pairs for result in await scorer.score([_request(pair)])]
        finally:
            await scorer.aclose()

    found = []
    for pair, result in zip(pairs, wait_for(ask), strict=True):
        shares = [presentation.scores["chosen"] for presentation in result.presentations]
        if shares:
            found.append(JudgedPair(pair=pair, probability=sum(shares) / len(shares)))
    return found


def _request(pair: Pair) -> ScoreRequest:
    shown = (Candidate(id="chosen", text=pair.chosen), Candidate(id="rejected", text=pair.rejected))
    return ScoreRequest(
        request_id=pair.id, prompt=pair.prompt, candidates=shown, culture=pair.culture, language=pair.language
    )


def _fit(
    student: Any, rows: Sequence[tuple[list[int], list[int], float]], config: StudentConfig, torch: Any
) -> list[float]:
    optimizer = torch.optim.AdamW(student.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    generator = torch.Generator().manual_seed(config.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    student.to(device).train()
    losses: list[float] = []
    order: list[int] = []
    for step in range(config.steps):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * (1 - step / config.steps)
        while len(order) < config.batch_size:
            order += torch.randperm(len(rows), generator=generator).tolist()
        batch, order = [rows[i] for i in order[: config.batch_size]], order[config.batch_size :]
        scores = _scores(student, [row for chosen, rejected, _ in batch for row in (chosen, rejected)], device, torch)
        gap = scores[0::2] - scores[1::2]
        target = torch.tensor([probability for _, _, probability in batch], device=device)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(gap, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    student.eval()
    return losses


def _scores(student: Any, rows: Sequence[Sequence[int]], device: str, torch: Any) -> Any:
    """The head's output at each row's last token, ``(rows,)``; rows are padded on the left, so that it is the last."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), student.config.pad_token_id, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, width - len(row) :] = torch.tensor(list(row), dtype=torch.long)
        mask[number, width - len(row) :] = 1
    ids, mask = ids.to(device), mask.to(device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    hidden = student.base_model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
    ).last_hidden_state
    return student.score(hidden[:, -1])[:, 0]


def _encode(tokenizer: Any, prompt: str, text: str) -> list[int]:
    """As ``classifier:`` encodes a prompt and a response, by the same code."""
    return conversation_ids(tokenizer, Prompt(({"role": "user", "content": prompt},)), text)
