"""Quantisation: between floats and integers, and products of integers."""
