"""PyTorch modules -> Graph; the only place that imports torch, when a function here is called.

`capture` asks PyTorch for graphs of ATen operators (`torch.export`, AOTAutograd); `conversion` walks them and
hands each call to its converter (`table`, with one file a family in `families`).
"""
