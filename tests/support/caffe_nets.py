"""The classic networks of Caffe as prototxt, written down from their papers: structure alone, no weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Net:
    """A prototxt that grows layer by layer; each layer reads the last one unless told otherwise."""

    def __init__(self, name: str, *dims: int) -> None:
        shape = " ".join(f"dim: {dim}" for dim in dims)
        self.lines = [f'name: "{name}"', f'input: "data"\ninput_shape {{ {shape} }}']
        self.last = "data"

    def add(
        self, kind: str, name: str, parameters: str = "", bottom: str | Iterable[str] = "", top: str = ""
    ) -> str:
        """A layer; returns the blob that it makes."""
        bottoms = [bottom or self.last] if isinstance(bottom, str) else list(bottom)
        read = " ".join(f'bottom: "{blob}"' for blob in bottoms)
        self.last = top or name
        self.lines.append(f'layer {{ name: "{name}" type: "{kind}" {read} top: "{self.last}" {parameters} }}')
        return self.last

    def conv(
        self, name: str, filters: int, size: int, more: str = "", bottom: str = "", relu: bool = True
    ) -> str:
        """A convolution, with a ReLU that writes over it."""
        parameters = f"convolution_param {{ num_output: {filters} kernel_size: {size} {more} }}"
        made = self.add("Convolution", name, parameters, bottom)
        return self.add("ReLU", f"relu_{name}", bottom=made, top=made) if relu else made

    def pool(self, name: str, size: int, stride: int, more: str = "pool: MAX", bottom: str = "") -> str:
        """A pooling layer."""
        return self.add(
            "Pooling", name, f"pooling_param {{ kernel_size: {size} stride: {stride} {more} }}", bottom
        )

    def dense(self, name: str, outputs: int, relu: bool = True) -> str:
        """A fully connected layer, with ReLU and Dropout that write over it."""
        made = self.add("InnerProduct", name, f"inner_product_param {{ num_output: {outputs} }}")
        if relu:
            self.add("ReLU", f"relu_{name}", bottom=made, top=made)
            self.add("Dropout", f"drop_{name}", bottom=made, top=made)
        return made

    def text(self) -> str:
        """The prototxt, with Softmax at its end."""
        self.add("Softmax", "prob")
        return "\n".join(self.lines) + "\n"


def alexnet() -> str:
    net = Net("AlexNet", 1, 3, 227, 227)
    lrn = "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }"
    net.conv("conv1", 96, 11, "stride: 4")
    net.add("LRN", "norm1", lrn)
    net.pool("pool1", 3, 2)
    net.conv("conv2", 256, 5, "pad: 2 group: 2")
    net.add("LRN", "norm2", lrn)
    net.pool("pool2", 3, 2)
    net.conv("conv3", 384, 3, "pad: 1")
    net.conv("conv4", 384, 3, "pad: 1 group: 2")
    net.conv("conv5", 256, 3, "pad: 1 group: 2")
    net.pool("pool5", 3, 2)
    net.dense("fc6", 4096)
    net.dense("fc7", 4096)
    net.dense("fc8", 1000, relu=False)
    return net.text()


def vgg16() -> str:
    net = Net("VGG16", 1, 3, 224, 224)
    for stage, (filters, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for number in range(1, count + 1):
            net.conv(f"conv{stage}_{number}", filters, 3, "pad: 1")
        net.pool(f"pool{stage}", 2, 2)
    net.dense("fc6", 4096)
    net.dense("fc7", 4096)
    net.dense("fc8", 1000, relu=False)
    return net.text()


def googlenet() -> str:
    net = Net("GoogLeNet", 1, 3, 224, 224)
    net.conv("conv1", 64, 7, "pad: 3 stride: 2")
    net.pool("pool1", 3, 2)
    net.add("LRN", "norm1", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")
    net.conv("conv2_reduce", 64, 1)
    net.conv("conv2", 192, 3, "pad: 1")
    net.add("LRN", "norm2", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")
    net.pool("pool2", 3, 2)
    blocks = {
        "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }  # fmt: skip
    for name, (one, before3, three, before5, five, pooled) in blocks.items():
        x = net.last
        parts = [net.conv(f"{name}_1x1", one, 1, bottom=x)]
        net.conv(f"{name}_3x3_reduce", before3, 1, bottom=x)
        parts.append(net.conv(f"{name}_3x3", three, 3, "pad: 1"))
        net.conv(f"{name}_5x5_reduce", before5, 1, bottom=x)
        parts.append(net.conv(f"{name}_5x5", five, 5, "pad: 2"))
        net.pool(f"{name}_pool", 3, 1, "pool: MAX pad: 1", bottom=x)
        parts.append(net.conv(f"{name}_pool_proj", pooled, 1))
        net.add("Concat", f"{name}_output", bottom=parts)
        if name in ("3b", "4e"):
            net.pool(f"pool_{name}", 3, 2)
    net.pool("pool5", 7, 1, "pool: AVE")
    net.add("Dropout", "drop5", bottom="pool5", top="pool5")
    net.dense("classifier", 1000, relu=False)
    return net.text()


def resnet50() -> str:
    net = Net("ResNet-50", 1, 3, 224, 224)

    def unit(name: str, filters: int, size: int, more: str, bottom: str = "", relu: bool = True) -> str:
        made = net.conv(name, filters, size, f"bias_term: false {more}", bottom, relu=False)
        net.add("BatchNorm", f"bn_{name}", "batch_norm_param { use_global_stats: true }", made, made)
        net.add("Scale", f"scale_{name}", "scale_param { bias_term: true }", made, made)
        return net.add("ReLU", f"relu_{name}", bottom=made, top=made) if relu else made

    unit("conv1", 64, 7, "pad: 3 stride: 2")
    net.pool("pool1", 3, 2)
    for stage, (filters, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for number in range(count):
            name, x = f"res{stage}{'abcdef'[number]}", net.last
            step = "stride: 2" if number == 0 and stage > 2 else ""
            side = unit(f"{name}_branch1", 4 * filters, 1, step, x, relu=False) if number == 0 else x
            unit(f"{name}_branch2a", filters, 1, step, x)
            unit(f"{name}_branch2b", filters, 3, "pad: 1")
            main = unit(f"{name}_branch2c", 4 * filters, 1, "", relu=False)
            total = net.add("Eltwise", name, bottom=(side, main))
            net.add("ReLU", f"relu_{name}", bottom=total, top=total)
    net.pool("pool5", 7, 1, "pool: AVE")
    net.dense("fc1000", 1000, relu=False)
    return net.text()


NETWORKS: dict[str, Callable[[], str]] = {
    "alexnet": alexnet,
    "googlenet": googlenet,
    "resnet50": resnet50,
    "vgg16": vgg16,
}
