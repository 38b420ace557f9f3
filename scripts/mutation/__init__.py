"""Parts of `scripts/mutate`: what a mutant is, which tests see a line, and how tests run against a mutant."""
