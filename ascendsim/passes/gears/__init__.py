"""Dynamic gears: one model with a static copy of the network for each of a few known shapes."""

from ascendsim.passes.gears.clone import CASE, SHAPE_DATA, clone_gears
from ascendsim.passes.gears.settings import KINDS, GearOption, GearSettings, parse_gears
from ascendsim.passes.gears.specialise import with_input_shapes

__all__ = [
    "CASE",
    "KINDS",
    "SHAPE_DATA",
    "GearOption",
    "GearSettings",
    "clone_gears",
    "parse_gears",
    "with_input_shapes",
]
