"""The closed list of reasons for which a collective stays as torch has it."""

from __future__ import annotations

from enum import Enum

from hostir.torch._overlap.times import Times

__all__ = ["Kept", "Reason"]


class Reason(Enum):
    """The reason that a collective was not fused. Each value is the sentence of the report; details follow it."""

    NO_MATMUL_AFTER = "no matmul reads the gathered rows"
    NO_MATMUL_BEFORE = "no matmul makes what is summed"
    MATMUL_ELSEWHERE = "the matmul beside it is in another region"
    RESULT_UNUSED = "nothing in the graph reads its result; torch keeps it, lest ranks differ"
    GATHERED_ROWS_CONTRACTED = "the matmul contracts the gathered rows with what depends on them"
    GATHERED_RIGHT = "the gathered rows are the right factor of the matmul"
    ADDED_BEFORE_SUM = "something is added to the matmul before the sum over ranks"
    CHANGED_BEFORE_SUM = "between the matmul and the sum over ranks is what no program has there"
    RESULT_ALSO_USED = "the matmul's own result is used, too, not only its sum over ranks"
    ROWS_NOT_DIVISIBLE = "the rows do not divide into one part for each rank"
    LAYOUT = "the parts of the ranks are not kept apart by the views"
    BATCHED_MATMUL = "a matmul of batches has no form in the language"
    NO_EXPERTS = "no matmul of experts makes what is exchanged, or reads what arrives"
    EXPERTS_APART = "the experts' matmuls are nodes of their own, not one batched matmul"
    SIZES_BY_DATA = "the data decide how many rows there are"
    UNEQUAL_PARTS = "the parts differ in size"
    SCALED_MATMUL = "the scaled matmul of 8-bit floats has another form"
    OP_NOT_IN_LANGUAGE = "the language lacks an op"
    ELEMENT_TYPE = "the element type is none of f16, bf16, f32, f64 and f8e4m3"
    SYMBOLIC_SHAPE = "a shape is symbolic or unknown"
    REDUCTION_KIND = "only sums over ranks become rings"
    COLLECTIVE_KIND = "no program overlaps this collective"
    ONE_RANK = "the group has one rank"
    UNKNOWN_GROUP = "the group is not known while the graph is compiled"
    NOT_CONVEX = "an input of the region depends on its results"
    CHANGED_IN_PLACE = "an op in place stands between the region's nodes, which would change their order"
    COLLECTIVE_REMAINS = "the lowered program still has the collective"
    SEVERAL_HOSTS = "the ranks are on several hosts, and the program copies within one"
    NO_PEER_ACCESS = "the program copies between GPUs that have no access to each other's memory"
    NOT_PROVED = "the program is not proved right"
    CHOICE_NEVER = "choose='never'"
    CANNOT_MEASURE = "nothing can be measured"
    RUN_FAILED = "the program did not run"
    RANKS_DISAGREE = "the ranks of the group do not all compile this region, as where the sizes of their parts differ"
    INTERNAL_ERROR = "an error of hostir's own, which is to be reported"
    NO_GAIN = "it gains less than min_gain, or too seldom"


class Kept(Exception):
    """A collective stays, for a reason."""

    def __init__(self, reason: Reason, detail: str = "", times: Times | None = None) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.times = times
        """The measured times, if there are any."""

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value
