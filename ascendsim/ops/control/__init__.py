"""Operators that decide what runs, and markers of frameworks."""
