"""Reward models on Hugging Face transformers (extra ``hf``)."""
