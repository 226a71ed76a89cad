"""The kind of scorer that fits a model, read from its configuration, and the reason."""

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from carb_cli.planning import check_specs
from carb_data import HUB_ANSWERS_WITHIN, CarbError, Frozen, closest, home_path, parse_file, require
from carb_scorers import KnownModel, kinds, known_model
from carb_scorers.models.peft_adapters import adapter_config, base_of
from carb_scorers.models.source import has_chat_template, model_source, reachable

_SPEC = re.compile(r"(?:[^=:?#]+=)?([a-z][a-z0-9_-]*):")
_NAMED = re.compile(r"([^=:?#/]+)=(.+)", re.DOTALL)
_HEADS = ("ForSequenceClassification", "RewardModel", "ForReward", "ForRewardModel")
_WRITERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


class Recognised(Frozen):
    """The scorer that fits a model."""

    spec: str
    """Spec string of the scorer."""
    why: str
    """The reason, found in the model, as a sentence."""
    chat: str | None = None
    """The model, where it is a chat model that can be asked in several ways; null for everything
    else."""
    name: str | None = None
    """The name that the user gives it."""

    def asked(self, spec: str, why: str) -> "Recognised":
        """The same model with another spec."""
        named = spec
        if self.name is not None:
            named = f"{self.name}={spec}"
        return Recognised(spec=named, why=why, name=self.name)


def recognise(model: str) -> Recognised:
    """Say which scorer fits a model.

    Args:
        model: a folder, a GGUF file, a hub id ``owner/name``, or a published model's short name
            (``carb models``). Or the address of a server that speaks OpenAI's API
            (``http://127.0.0.1:8000/v1``), or a spec string, which is taken as it is.

    Raises:
        CarbError: There is no such model, or its configuration does not say what it is.
    """
    spec = _SPEC.match(model)
    if spec and (spec[1] in kinds() or closest(spec[1], kinds())):
        check_specs([model])
        return Recognised(spec=model, why="It is given as a spec.")
    path = home_path(model)
    named = _NAMED.fullmatch(model)
    if named and not path.exists():
        unnamed = recognise(named[2])
        update = {"spec": f"{named[1]}={unnamed.spec}", "name": named[1]}
        return unnamed.changed(**update)
    if urlsplit(model).scheme in ("http", "https"):
        return _server(model)
    known = known_model(model)
    if known is not None and not path.exists():
        return _published(known)
    if path.is_file():
        if not model.endswith(".gguf"):
            asked = f"carb eval MODEL {shlex.quote(model)}"
            raise CarbError(
                f"'{model}' is a file, and no model. To score it, name a model first: {asked}"
            )
        return _writer(model, "GGUF", has_chat_template(path))
    return _of_folder(model)


def _of_folder(model: str) -> Recognised:
    """The scorer that fits a model of transformers: a folder or a hub id."""
    source = model_source(model)
    reachable(source)
    adapter = adapter_config(source, None)
    if adapter is not None:
        return _adapted(model, base_of(source, adapter), str(adapter.get("task_type")))
    config, has_template = _configuration(model)
    architectures = [str(name) for name in config.get("architectures") or ()]
    named = ", ".join(architectures) or "no architecture"
    if any(name.endswith(_HEADS) for name in architectures):
        why = f"Its configuration names {named}: a scalar head rates each answer."
        return Recognised(spec=f"classifier:{model}", why=why)
    if any(name.endswith(_WRITERS) for name in architectures):
        return _writer(model, named, has_template)
    raise _unsaid(model, f"The configuration of '{model}' names {named}")


def _unsaid(model: str, known: str) -> CarbError:
    return CarbError(
        f"{known}: neither a classifier nor a language model. Name its kind: "
        f"classifier:{model}, judge:{model} or implicit:{model}?ref=none."
    )


def _published(model: KnownModel) -> Recognised:
    why = f"It is the published {model.kind} {model.id}."
    if model.remote_code:
        why += " It needs code of its own: add trust_remote_code=true to the spec."
    return Recognised(spec=model.spec(), why=why)


def _adapted(model: str, base: str, task: str) -> Recognised:
    """An adapter that peft saved, for the task that it names."""
    named = f"an adapter of {base} for {task}"
    if task == "SEQ_CLS":
        return Recognised(
            spec=f"classifier:{model}", why=f"It is {named}: a scalar head rates each answer."
        )
    if task == "CAUSAL_LM":
        return _writer(model, named, _has_template(model) or _has_template(base))
    raise _unsaid(model, f"'{model}' is {named}")


def _writer(model: str, named: str, has_template: bool) -> Recognised:
    if has_template:
        why = f"It is a chat model ({named}): it picks one of the answers, by probability."
        return Recognised(spec=f"judge:{model}", why=why, chat=model)
    why = f"It is a base model ({named}, no chat template): its likelihood rates each answer."
    return Recognised(spec=f"implicit:{model}?ref=none", why=why)


def _server(url: str) -> Recognised:
    """A judge behind a server that serves one model."""
    httpx = require("httpx", "carb-scorers[api]")
    base = url.rstrip("/")
    try:
        answer = httpx.get(f"{base}/models", timeout=10)
        answer.raise_for_status()
        names = [str(entry["id"]) for entry in answer.json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise CarbError(
            f"Cannot read the list of models at {base}/models: {error}. Give the base "
            "address of the API, which often "
            f"ends with /v1, or a spec such as judge:NAME?backend=openai&url={base}."
        ) from None
    if len(names) != 1:
        listed = ", ".join(names[:8]) or "none"
        raise CarbError(
            f"{base} serves {len(names)} models ({listed}). Say which: "
            f"judge:NAME?backend=openai&url={base}"
        )
    spec = f"judge:{names[0]}?backend=openai&read=generate&url={quote(base, safe='/:')}"
    return Recognised(
        spec=spec,
        why=f"{base} serves it: it writes which answer is best.",
    )


def _configuration(model: str) -> tuple[dict[str, Any], bool]:
    """The content of ``config.json``, and whether the tokenizer has a chat template."""
    config = _file(model, "config.json")
    if config is None:
        raise CarbError(
            f"There is no config.json in '{model}'. Give a model's folder, or a hub id owner/name."
        )
    return parse_file(config, "configuration"), _has_template(model)


def _has_template(model: str) -> bool:
    """Whether a model's tokenizer has a chat template."""
    tokenizer = _file(model, "tokenizer_config.json")
    settings = {}
    if tokenizer is not None:
        settings = parse_file(tokenizer, "configuration")
    return bool(settings.get("chat_template")) or _file(model, "chat_template.jinja") is not None


def _file(model: str, name: str) -> Path | None:
    """A file of a model; ``None`` where the model has none of that name."""
    source = model_source(model)
    if Path(source).is_dir():
        path = Path(source) / name
        if path.is_file():
            return path
        return None
    hub = require("huggingface_hub", "carb-scorers[hf]")
    try:
        return Path(hub.hf_hub_download(source, name, etag_timeout=HUB_ANSWERS_WITHIN))
    except hub.errors.EntryNotFoundError as error:
        if isinstance(error, hub.errors.LocalEntryNotFoundError):
            raise CarbError(
                f"Cannot reach the model hub for '{model}', and it is not in the local cache."
            ) from None
        return None
    except (hub.errors.HfHubHTTPError, OSError) as error:
        raise CarbError(f"Cannot read '{model}' from the model hub: {error}.") from None
