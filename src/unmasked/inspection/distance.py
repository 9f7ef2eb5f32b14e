"""How far apart two answers are, and how far rounding alone can bring them."""

from __future__ import annotations

import math

from torch import Tensor


def apart(a: Tensor, b: Tensor) -> Tensor:
    """The largest difference at each position: twice [..., T, V] → [..., T]; NaN is infinitely far.

    Two equal infinities are no distance apart.
    """
    gap = (a - b).abs().masked_fill(a == b, 0.0)
    return gap.nan_to_num(nan=math.inf, posinf=math.inf).amax(-1)


def can_be_said(answer: Tensor) -> Tensor:
    """The words that are not forbidden, by minus infinity, at every position: [V], boolean."""
    return (answer != -math.inf).flatten(0, -2).any(0)


class Scale:
    """How far apart two answers may be, from the sizes of one and the machine's precision `eps`.

    All limits grow slower than `eps` does: little can be told apart in bfloat16, but not nothing.
    """

    def __init__(self, answer: Tensor, eps: float) -> None:
        numbers = answer[..., can_be_said(answer)]
        self.spread = float((numbers - numbers.mean(-1, keepdim=True)).std())
        self.fine = eps < 1e-5  # half precision is coarse
        ulp = float(numbers.abs().max()) * eps
        self.same = ulp * eps**-0.2  # the same steps: questions of one shape
        self.close = self.same + self.spread * eps**0.5  # other steps: sums in another order
        # Words that change places change the order of sums, and little else in a faulty model.
        self.swapped = self.same + self.spread * eps**0.7 if self.fine else 4 * ulp
        self.clear = self.swapped * (20 if self.fine else 4)  # moved enough to judge an exchange
        self.hardly = 2 * ulp if self.fine else 0.0  # else every change counts
