"""Accuracy, uncertainty, validity and robustness statistics for reward models."""
