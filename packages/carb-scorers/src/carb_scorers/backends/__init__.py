"""Where language models run: transformers, vLLM, or a server. ``base`` says what they have in common."""
