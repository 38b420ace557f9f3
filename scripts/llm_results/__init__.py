"""Predictions of published figures of language models, by id."""
