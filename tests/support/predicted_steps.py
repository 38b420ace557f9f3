"""Training steps whose profiles are not known here, as MindSpore's model zoo has them, for predictions.

Needs torch; Inception-v3 needs torchvision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

import ascendsim as asim
from ascendsim.training.step import TrainingStep
from ascendsim.validate.training import MOMENTUM
from tests.support.bert_pretraining import Sizes
from tests.support.bert_zoo import bert_step
from tests.support.torch_vision import torchvision
from tests.support.torch_zoo import Classified
from tests.support.vit_training import OPTIONS
from tests.support.yolov5 import Yolov5s

# MindSpore's configuration of its base network; 20 words of a sequence are masked
BERT_BASE = Sizes(layers=12, width=768, heads=12, words=21128, places=512, batch=32)


def bert(length: int) -> TrainingStep:
    """Masked words and next sentence, LAMB."""
    return bert_step(replace(BERT_BASE, length=length))


def inception(batch: int) -> TrainingStep:
    """With the auxiliary classifier. The published step updates by RMSProp; here it is momentum."""
    package = torchvision()
    if package is None:
        raise SystemExit("Inception-v3 is torchvision's: pip install --no-deps torchvision")
    with torch.device("meta"):
        network = Classified(package.models.inception_v3(aux_logits=True, init_weights=False)).train()
        inputs = torch.rand(batch, 3, 299, 299), torch.randint(0, 1000, (batch,))
    return asim.training_step(network, inputs, optimizer=MOMENTUM)


def yolov5(batch: int) -> TrainingStep:
    """YOLOv5s without what assigns targets to boxes."""
    with torch.device("meta"):
        network, images = Yolov5s().train(), torch.rand(batch, 3, 640, 640)
    return asim.training_step(network, (images,), optimizer=MOMENTUM)


# by the names of the source (Huawei-Performance-Model/Ascend-910B): sequence and batch, or batch
STEPS: dict[str, Callable[[], TrainingStep]] = {
    **{f"bert_{length}_32": partial(bert, length) for length in (32, 64, 128, 256, 512)},
    **{f"inceptionv3_{batch}": partial(inception, batch) for batch in (16, 32, 64)},
    **{f"yolov5_{batch}": partial(yolov5, batch) for batch in (16, 32, 64)},
}


def options_of(name: str) -> dict[str, Any]:
    """How a step is compiled: BERT has casts of its own, and MindSpore's UB fusion in place of CANN's."""
    if name.startswith("bert"):
        return OPTIONS
    return {"fusion": "all", "precision_mode": "allow_mix_precision"}
