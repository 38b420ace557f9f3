"""Compiled models over images: the program with DVPP in front, and the arrays that the network takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import FIXED_SHAPES, InputError
from ascendsim.graph.ir import Array
from ascendsim.images.forms import Fit, ImageForm
from ascendsim.images.pictures import Images, Picture, pictures
from ascendsim.images.program import with_images


@dataclass(frozen=True, slots=True)
class ImageRun:
    """That a result is of a network over images.

    Attributes:
        single: The model as it was compiled, for one batch.
        form: The input that takes the images.
        pictures: In the order in which they were given.
    """

    single: CompiledModel
    form: ImageForm
    pictures: tuple[Picture, ...]

    @classmethod
    def of(cls, model: CompiledModel, images: Images, given: Collection[str] = ()) -> ImageRun:
        """The images that a model is to run over.

        Args:
            model: With fixed shapes.
            images: As in `images.pictures.pictures`.
            given: Inputs that have their values.

        Raises:
            InputError: If the model takes no images, or they are none.
        """
        if type(model) is not CompiledModel:
            rule = "must have fixed shapes and no control flow to run over images"
            raise InputError(f"model {model.source.name!r}", rule, remedy=FIXED_SHAPES)
        return cls(model, ImageForm.of(model.graph, given), pictures(images))

    def model(self) -> CompiledModel:
        """The model with the program for all images.

        Raises:
            InputError: If the last batch is not full, or the chip's DVPP is not known.
        """
        model = self.single
        return replace(model, program=with_images(model.program, model.soc, self.form, self.pictures))

    def batches(self, mean: Sequence[float], std: Sequence[float], fit: Fit) -> Iterator[dict[str, Array]]:
        """What the input takes, a batch at a time."""
        count = self.form.batch
        for at in range(0, len(self.pictures), count):
            yield {self.form.name: self.form.array(self.pictures[at : at + count], mean, std, fit)}


def other_inputs(model: CompiledModel) -> list[str]:
    """Inputs beside the one that takes images; none if not just one does."""
    inputs = model.graph.inputs
    others = [tensor.name for tensor in inputs if not ImageForm.fits(tensor)]
    return others if len(others) == len(inputs) - 1 else []


def joined(parts: Sequence[Mapping[str, Array]], batch: int) -> dict[str, Array]:
    """Outputs of all batches, one behind the other.

    Args:
        parts: Outputs by name, a batch each.
        batch: Images of each.

    Raises:
        InputError: If there are several batches, and an output has no such axis.
    """
    if len(parts) == 1:
        return dict(parts[0])
    for name, array in parts[0].items():
        if not array.ndim or array.shape[0] != batch:
            rule, remedy = f"must begin with the batch of {batch} to be joined", "run the batches one by one"
            raise InputError(f"output {name!r}", rule, list(array.shape), remedy)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
