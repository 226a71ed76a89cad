"""A server of OpenAI's form on this machine that answers with a tiny model's own forward pass, one
text at a time."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import torch


def row(model: Any, ids: list[int]) -> Any:
    """Logits behind each token of one row, float64 ``(tokens, vocabulary)``; of a classifier its
    one output."""
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double()


@cache
def words(tokenizer: Any) -> list[str]:
    """Each token of a vocabulary as text."""
    return [tokenizer.decode([token]) for token in range(len(tokenizer))]


def greedy(model: Any, ids: list[int], tokens: int, end: int) -> list[int]:
    """Token by token, without a cache."""
    out: list[int] = []
    while len(out) < tokens and end not in out:
        out.append(int(row(model, [*ids, *out])[-1].argmax()))
    return out


class TinyServer:
    """``/chat/completions``, ``/completions`` that write greedily or echo, and ``/classify``."""

    def __init__(self, models: dict[str, Any], tokenizer: Any) -> None:
        """Args:
        models: name to model.
        tokenizer: of all of them.
        """
        from openai_server import Server

        self._models, self._tokenizer, self._one = models, tokenizer, threading.Lock()
        self._server = Server(self._answer)
        self.url, self.close = self._server.url, self._server.close

    def _answer(self, number: int, body: dict[str, Any]) -> object:
        from openai_server import reply

        path = self._server.paths[number].removeprefix("/v1/").strip("/").replace("/", "_")
        with self._one:
            if not self._knows(body["model"]):
                return reply({"error": {"message": "no such model"}}, 404)
            return getattr(self, path)(body)

    def _knows(self, name: str) -> bool:
        """Whether a model is here; a mapping may load one when it is asked for."""
        try:
            return self._models[name] is not None
        except KeyError:
            return False

    def ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def chat_completions(self, body: dict[str, Any]) -> dict[str, Any]:
        template = {"add_generation_prompt": True, "tokenize": False}
        ids = self.ids(self._tokenizer.apply_chat_template(body["messages"], **template))
        model = self._models[body["model"]]
        written = greedy(model, ids, body["max_tokens"], self._tokenizer.eos_token_id)
        content = []
        for place, token in enumerate(written if body.get("logprobs") else []):
            logprobs = row(model, [*ids, *written[:place]])[-1].log_softmax(-1)
            top = [
                {"token": t, "logprob": v}
                for t, v in zip(words(self._tokenizer), logprobs.tolist(), strict=False)
            ]
            content.append({**top[token], "top_logprobs": top})
        text = self._tokenizer.decode(written, skip_special_tokens=True)
        message = {"role": "assistant", "content": text}
        choice = {"message": message, "logprobs": {"content": content}, "finish_reason": "stop"}
        return {
            "choices": [choice],
            "usage": {"prompt_tokens": len(ids), "completion_tokens": len(written)},
        }

    def completions(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = self.ids(body["prompt"])
        model, end = self._models[body["model"]], self._tokenizer.eos_token_id
        if not body.get("echo"):
            text = self._tokenizer.decode(
                greedy(model, ids, body["max_tokens"], end), skip_special_tokens=True
            )
            return {"choices": [{"text": text, "finish_reason": "stop"}]}
        start = self._tokenizer.bos_token_id
        read = ids if start is None else [start, *ids]
        before = row(model, read).log_softmax(-1)
        values = [None, *(float(before[i, token]) for i, token in enumerate(read[1:]))]
        tokens = [words(self._tokenizer)[token] for token in read]
        return {"choices": [{"text": "", "logprobs": {"tokens": tokens, "token_logprobs": values}}]}

    def classify(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["use_activation"] is False
        text = self._tokenizer.apply_chat_template(body["messages"], tokenize=False)
        return {"data": [{"probs": row(self._models[body["model"]], self.ids(text)).tolist()}]}
