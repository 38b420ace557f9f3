"""Channel alignment: convolutions get 16, 32, 48 ... channels by weights of zero.

Conv(x, W[24,3,3,3]) -> Relu -> Conv(., V[40,24,1,1])   becomes   Conv(x, W[32,3,3,3]) -> Relu -> Conv(.,
                                                                  V[48,32,1,1])

The chip stores feature maps in blocks of 16 channels (C0 of NC1HWC0 in float16). Padding inside the last
block happens anyway, so a plain chain of convolutions gains nothing from zeros that the user adds; but a
Concat or Split of channels that does not fall on block borders cannot be done in blocks, and costs a
TransData on each side. Added channels hold what the operators make of zeros, and the consumers weigh them
with zeros: the same sums, other order of summation at most. Where channels leave for operators that mix them
in other ways, a Slice or Gather takes the added ones out again.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.levers.channel_groups import BLOCK, ChannelGroup, channel_groups
from ascendsim.passes.levers.channel_rewrite import widen
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site


class AlignChannels(Lever):
    """Widens the channels of convolutions to multiples of 16."""

    name = "align-channels"
    title = "channels to multiples of 16"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every group of maps that share their channels and have no multiple of 16 of them; a convolution
        that makes them names it.
        """
        return tuple(site for group in channel_groups(graph, context.opset) for site in _sites(group))

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Widens one group."""
        group = next(
            group
            for group in channel_groups(graph, context.opset)
            if group.makers and group.makers[0].name == site.node
        )
        widen(graph, group, context)


def _sites(group: ChannelGroup) -> tuple[Site, ...]:
    if not group.makers or group.channels % BLOCK == 0:
        return ()
    names = tuple(node.name for node in group.makers)
    if group.refused:
        return (Site(names, f"{group.channels} channels are no multiple of {BLOCK}, but {group.refused}"),)
    reason = f"{group.channels} channels are no multiple of {BLOCK}; {group.aligned} fill whole blocks"
    return (Site(names, reason, Relation.EXACT),)
