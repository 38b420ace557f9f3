"""Parts of a language model's layer that CANN has as one kernel: norms, gates, rotary embedding."""
