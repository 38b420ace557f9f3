"""Training steps of well-known networks: torchvision's, U-Net, language models; all with random weights and
without dropout, so that gradients can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.torch_networks import WORDS, Bert, Gpt, Llama
from tests.support.torch_vision import torchvision

CLASSES = 10
_NAMES = """alexnet vgg16 vgg16_bn resnet18 resnet50 resnet101 wide_resnet50_2 resnext50_32x4d densenet121
    squeezenet1_1 mobilenet_v2 mobilenet_v3_large shufflenet_v2_x1_0 mnasnet1_0 efficientnet_b0 regnet_y_400mf
    googlenet inception_v3 convnext_tiny vit_b_16"""
VISION = {name: 192 if name == "inception_v3" else 64 for name in _NAMES.split()}  # size of images
_MORE: dict[str, dict[str, Any]] = {"inception_v3": {"aux_logits": False}, "vit_b_16": {"image_size": 64}}


class Classified(nn.Module):
    """A network and the loss of all its results (auxiliary ones too)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        result = self.network(x)
        parts = [result] if isinstance(result, Tensor) else [one for one in result if one is not None]
        return sum((F.cross_entropy(one, target) for one in parts), torch.zeros(()))


class Words(nn.Module):
    """A language model and its loss: scores of the next word against the words."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        result = self.network(ids)
        scores = getattr(result, "logits", getattr(result, "prediction_logits", result))
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), target.reshape(-1))
        order = getattr(result, "seq_relationship_logits", None)
        return loss if order is None else loss + F.cross_entropy(order, target[:, 0] % 2)


class Twice(nn.Sequential):
    def __init__(self, inner: int, outer: int) -> None:
        def conv(channels: int) -> list[nn.Module]:
            return [nn.Conv2d(channels, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(inplace=True)]

        super().__init__(*conv(inner), *conv(outer))


class UNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.bottom, self.pool = Twice(4 * width, 8 * width), nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in sizes)
        self.join = nn.ModuleList(Twice(2 * size, size) for size in sizes)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for part in self.down:
            kept.append(part(x))
            x = self.pool(kept[-1])
        x = self.bottom(x)
        for up, join, side in zip(reversed(self.up), reversed(self.join), reversed(kept), strict=True):
            x = join(torch.cat((side, up(x)), 1))
        return self.head(x).mean((2, 3))


class LstmModel(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.lstm, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(ids))[0])


def _of_transformers(name: str) -> nn.Module:
    torchvision()  # transformers imports it where it is
    import transformers as t

    if name == "bert":
        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
        drops = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return t.BertForPreTraining(t.BertConfig(**sizes, **drops, intermediate_size=512))
    if name == "gpt2":
        drops = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return t.GPT2LMHeadModel(t.GPT2Config(n_layer=2, n_embd=128, n_head=2, **drops, use_cache=False))
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256, "vocab_size": 32000}
    return t.LlamaForCausalLM(t.LlamaConfig(**sizes, **heads, use_cache=False))


_LANGUAGE: dict[str, Callable[[], nn.Module]] = {"bert": Bert, "gpt2": Gpt, "llama": Llama, "lstm": LstmModel}
NAMES = (*VISION, "unet", *_LANGUAGE)


def from_transformers(name: str) -> bool:
    """Whether the package makes this network; else it is a small one of the same structure."""
    return name in ("bert", "gpt2", "llama") and find_spec("transformers") is not None


def step_of(name: str) -> tuple[nn.Module, tuple[Tensor, ...]] | None:
    """A module whose result is the loss, and its inputs; None if a package is absent.

    Args:
        name: One of `NAMES`.
    """
    torch.manual_seed(0)
    if name in _LANGUAGE:
        inner = _of_transformers(name) if from_transformers(name) else _LANGUAGE[name]()
        # each of an LSTM's words is a few nodes more
        ids = torch.randint(1, WORDS, (2, 5 if name == "lstm" else 16))
        module, inputs = Words(inner), (ids, ids.roll(-1, 1))
    else:
        if name == "unet":
            inner = UNet()
        else:
            package = torchvision()
            if package is None:
                return None
            inner = getattr(package.models, name)(num_classes=CLASSES, **_MORE.get(name, {}))
        size = VISION.get(name, 64)
        module, inputs = Classified(inner), (torch.randn(2, 3, size, size), torch.tensor([1, 3]))
    for part in module.modules():
        if type(part).__name__ in ("Dropout", "StochasticDepth"):
            part.p = 0.0
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    return module.train(), inputs
