"""Mixtures of experts: which tokens go to which experts, and back."""
