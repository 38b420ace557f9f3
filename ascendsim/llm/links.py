"""Links between the cards of a model."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.soc.links import collective_us

# A kind -> how many times the input of one card the whole tensor is
_GATHERS = ("HcomAllGather",)


@dataclass(frozen=True, slots=True)
class Links:
    """Between the cards that a model is spread over.

    Attributes:
        cards: Their number; of packages with two dies, dies.
        short_name: Of the chip; what links are like goes by it.
    """

    cards: int = 1
    short_name: str = ""

    def us(self, kind: str, size: int) -> float:
        """Microseconds of a collective inside a network.

        Args:
            kind: HCCL's name of the operator.
            size: Bytes that each card puts in.
        """
        whole = size * self.cards if kind in _GATHERS else size
        return collective_us(self.short_name, kind, self.cards, whole)
