"""The reward function for verl, in verl itself: its loader, its reward managers, its workers on
Ray.

Runs where verl is installed: ``nox -s verl``.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs verl, in an environment of its own; run nox -s verl")

import httpx
import numpy as np
import polars as pl
import ray
import torch
import transformers
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl import DataProto
from verl import __file__ as verl_file
from verl.experimental.reward_loop import (
    RewardLoopManager,
    RewardLoopWorker,
    migrate_legacy_reward_impl,
)
from verl.experimental.reward_loop.reward_manager import RateLimitedRewardManager
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.reward_manager import NaiveRewardManager

import tiny_models
from carb_scorers import as_trl_reward
from carb_scorers.integrations.verl import NoRewardError
from carb_scorers.serve import RewardServer, bind, serve

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]

PROMPTS = {
    "german": ("de", "Was isst man in Bayern zum Frühstück?"),
    "thai": ("th", "คนไทยกินอะไรตอนเช้า"),
}
ASKED = ["german", "german", "thai", "german", "thai", "thai"]
RESPONSES = ["Weißwürste mit süßem Senf.", "Brezn.", "โจ๊กหมู"]
RESPONSES += ["Nichts.", "ข้าวต้ม ปาท่องโก๋", "ก๋วยเตี๋ยว"]
FAILS = "a text that cannot be scored"

FILE = '''
from carb_scorers import ScoreResult, ScorerSpec
from carb_scorers.scorer import failed
from carb_scorers.integrations import as_verl_reward

class Judge:
    """Prefers longer responses: how many others of the prompt are shorter."""

    spec = ScorerSpec(name="longest", kind="test", comparative=False)

    async def score(self, requests):
        return [
            failed(r, "parse", "no verdict")
            if any(c.text == "{fails}" for c in r.candidates)
            else ScoreResult(request_id=r.request_id, scores=self.shorter(r.candidates))
            for r in requests
        ]

    def shorter(self, candidates):
        return {{
            c.id: float(sum(len(d.text) < len(c.text) for d in candidates))
            for c in candidates
        }}

    async def aclose(self):
        pass

compute_score = as_verl_reward(Judge())
'''
README = 'from carb_scorers import as_verl_reward\n\ncompute_score = as_verl_reward("{}")\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small policy with a tokenizer that gives every text back as it was."""
    return tiny_models.folder(
        tmp_path_factory.mktemp("models"), "llama", "CausalLM", chat=True, pad="<pad>"
    )


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def configuration(folder: Path, *changes: str) -> Any:
    """verl's own, as its trainer makes it of its command line."""
    with initialize_config_dir(
        str(Path(verl_file).parent / "trainer" / "config"), version_base=None
    ):
        config = compose("ppo_trainer", [f"actor_rollout_ref.model.path={folder}", *changes])
    OmegaConf.resolve(config.reward.custom_reward_function)
    return migrate_legacy_reward_impl(config)


def rolled_out(
    tokenizer: Any, folder: Path, responses: list[str] = RESPONSES, *, as_messages: bool = True
) -> Any:
    """A batch as it is after rollout: the data read from Parquet by verl, prompts padded left,
    responses right."""
    rows = []
    for culture, _ in zip(ASKED, responses, strict=True):
        language, text = PROMPTS[culture]
        chat = [{"role": "user", "content": text}]
        extra = {"prompt": chat if as_messages else text, "culture": culture, "language": language}
        reward = {"style": "rule", "ground_truth": ""}
        rows.append(
            {"data_source": "carb", "prompt": chat, "reward_model": reward, "extra_info": extra}
        )
    pl.DataFrame(rows).write_parquet(folder / "train.parquet")
    options = OmegaConf.create(
        {"cache_dir": str(folder / "cache"), "filter_overlong_prompts_workers": None}
    )
    data = RLHFDataset(str(folder / "train.parquet"), tokenizer, options)
    columns = collate_fn([data[place] for place in range(len(data))])
    prompts = [tokenizer(PROMPTS[culture][1])["input_ids"] for culture in ASKED[: len(responses)]]
    answers = [tokenizer(text)["input_ids"] for text in responses]
    front, behind = max(map(len, prompts)), max(map(len, answers)) + 2
    pad = tokenizer.pad_token_id
    tensors = {
        "prompts": torch.tensor([[pad] * (front - len(p)) + p for p in prompts]),
        "responses": torch.tensor([a + [pad] * (behind - len(a)) for a in answers]),
        "attention_mask": torch.tensor(
            [
                [0] * (front - len(p)) + [1] * (len(p) + len(a)) + [0] * (behind - len(a))
                for p, a in zip(prompts, answers, strict=True)
            ]
        ),
    }
    others = {key: value for key, value in columns.items() if isinstance(value, np.ndarray)}
    return DataProto.from_dict(tensors=tensors, non_tensors=others)


def in_the_loop(config: Any, data: Any) -> list[float]:
    """What a worker of verl's reward loop gives, all responses at once."""

    async def work() -> list[dict[str, Any]]:
        return await RewardLoopWorker(config).compute_score_batch(data)

    RateLimitedRewardManager._class_initialized = (
        False  # or it would keep the event loop of the test before
    )
    return [one["reward_score"] for one in asyncio.run(work())]


def own_scores(spec: str) -> list[float | None]:
    """What the scorer itself says of each response."""
    languages, prompts = zip(*(PROMPTS[culture] for culture in ASKED), strict=True)
    return as_trl_reward(spec)(list(prompts), RESPONSES, culture=ASKED, language=list(languages))


def reward_file(place: Path, code: str) -> Path:
    (place / "my_reward.py").write_text(code, encoding="utf-8")
    return place / "my_reward.py"


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    made = tiny_models.folder(
        tmp_path_factory.mktemp("scorers"), "llama", "SequenceClassification", chat=True
    )
    return {"baseline": "baseline:length", "classifier": f"classifier:{made}"}


@pytest.mark.parametrize("kind", ["baseline", "classifier"])
@pytest.mark.parametrize("manager", ["naive", "dapo", "rate_limited"])
def test_the_example_of_the_readme_in_the_reward_loop(
    folder: Path, tokenizer: Any, specs: dict[str, str], tmp_path: Path, kind: str, manager: str
) -> None:
    path = reward_file(tmp_path, README.format(specs[kind]))
    changes = [
        f"reward.custom_reward_function.path={path}",
        f"reward.reward_manager.name={manager}",
    ]
    data = rolled_out(tokenizer, tmp_path)
    found = in_the_loop(configuration(folder, *changes), data)
    assert found == pytest.approx(own_scores(specs[kind]), abs=1e-5)
    assert len(set(found)) > 3


def test_the_example_for_a_reward_over_http_in_the_reward_loop(
    folder: Path, tokenizer: Any, specs: dict[str, str], tmp_path: Path
) -> None:
    taken = bind("127.0.0.1", 0, token=None)
    Thread(target=serve, args=(RewardServer(specs["classifier"]), taken), daemon=True).start()
    path = Path(__file__).parent.parent / "examples" / "verl" / "remote_reward.py"
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    own = own_scores(specs["classifier"])
    while httpx.get(f"{url}/health").status_code != 200:
        pass
    told = [
        f"reward.custom_reward_function.path={path}",
        f"+reward.custom_reward_function.reward_kwargs.url={url}",
    ]
    assert in_the_loop(
        configuration(folder, *told), rolled_out(tokenizer, tmp_path)
    ) == pytest.approx(own, abs=1e-5)


def test_a_failed_response_ends_the_training(
    folder: Path, tokenizer: Any, tmp_path: Path, cluster: None
) -> None:
    config = configuration(
        folder,
        f"reward.custom_reward_function.path={reward_file(tmp_path, FILE.format(fails=FAILS))}",
        "reward.num_workers=1",
    )
    data = rolled_out(tokenizer, tmp_path, [*RESPONSES[:-1], FAILS])
    said = r"parse: no verdict.*when_failed"
    with pytest.raises(NoRewardError, match=said):
        in_the_loop(config, data)
    with pytest.raises(NoRewardError, match=said):
        NaiveRewardManager(tokenizer, 0, get_custom_reward_fn(config))(data)
    workers = RewardLoopManager(config)
    try:
        with pytest.raises(NoRewardError, match=said):
            workers.compute_rm_score(data)
    finally:
        ray.kill(workers.reward_loop_workers[0])
