"""Any server that speaks OpenAI's API, OpenAI's own, vLLM's, llama.cpp's and many more, and vLLM's for classifiers."""

from carb_scorers.models.openai.language import OpenAIModel, open_openai
from carb_scorers.models.openai.options import OpenAIOptions, ServerRewardOptions
from carb_scorers.models.openai.rewards import open_server_rewards

__all__ = ["OpenAIModel", "OpenAIOptions", "ServerRewardOptions", "open_openai", "open_server_rewards"]
