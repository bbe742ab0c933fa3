"""The engine: hash-consed nodes and compiled rules (C++, rewrite/core)."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, Protocol, SupportsIndex, TypedDict, TypeVar, overload

from rulegrad.ir.dtype import DType

_T = TypeVar("_T")

#: (name, operand kinds) of each instruction, in the order of their numbers.
OPCODES: list[tuple[str, str]]
MOST_PARAMETERS: int
#: Operators of the instruction BINARY, in the order of their numbers.
BINARY_OPERATORS: list[str]
#: Operators of the instruction UNARY, in the order of their numbers.
UNARY_OPERATORS: list[str]

class NodeHolder:
    """Objects that stand for a node: the engine finds them by it, as long as they live."""

    _uop: UOp

class Information(TypedDict):
    """What a rewriting pass did."""

    firings: list[tuple[str, str, UOp, UOp]]  # rule, place, before, after; empty without `trace`
    found: list[UOp]  # of each firing, the node before as the pass found it, when its sources were not final
    followed: list[UOp | None]  # what became of the nodes in `follow`; None where one was not visited
    visited: int
    fired: int
    fired_limited: int  # of those that are limited
    numbered: dict[str, list[UOp]]  # nodes that facts of a collect pass numbered, in order, by the fact
    # With `trace` only:
    inside: list[list[Inside]]  # of each firing: the parts that it had rewritten, or the candidates that it was one of
    remaining: list[Inside]  # what led to no firing: before an error, or when a choose pass ended
    omitted: tuple[int, int]  # after how many firings how many are left out, of a pass that failed after very many

class Inside(TypedDict):
    """A part of a template that was rewritten, or a candidate of a choose pass (name is "")."""

    name: str  # rewritten or given, and the pass or `rules SET`
    rule: str  # that gives the candidate; "" for the graph that candidates are compared with
    location: str
    verdict: str  # done, failed; given (that graph), taken, not taken, no cost
    before: UOp
    after: UOp | None  # None where it failed
    cost: float | None
    firings: list[tuple[str, str, UOp, UOp]]
    found: list[UOp]
    inside: list[list[Inside]]
    remaining: list[Inside]
    omitted: tuple[int, int]

class Watcher(Protocol):
    """What is told while a pass is explained."""

    def attempt(
        self, node: UOp, alternative: int, done: bool, place: int, result: Any, registers: list[Any], error: str
    ) -> None:
        """An alternative was tried on a node. `place`: of the furthest test that failed, or of the error."""

    def enter(self, name: str, rule: str, location: str, at: UOp | None, graph: UOp) -> None:
        """Rewriting inside begins: `name` as in Inside, asked for by a rule at a node."""

    def leave(self, information: Information, error: str) -> None:
        """It ends; the error that it ended with, or ""."""

class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple, with the number of elements in `numel()`, as in PyTorch."""

    def numel(self) -> int:
        """The number of elements."""

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> Size: ...
    @overload
    def __add__(self, other: tuple[int, ...], /) -> Size: ...
    @overload
    def __add__(self, other: tuple[_T, ...], /) -> tuple[int | _T, ...]: ...
    def __radd__(self, other: tuple[int, ...], /) -> Size: ...
    def __mul__(self, count: SupportsIndex, /) -> Size: ...

class UOp:
    """An immutable node: op, dtype, sources, attributes. Equal nodes are the same node.

    >>> from rulegrad import UOp
    >>> i = UOp("RANGE", (UOp.const(4, "index"),), id=0, kind="output")
    >>> (i * 2 + 1).vmax
    7
    """

    def __init__(
        self, op: str, src: Iterable[UOp] = ..., dtype: str | DType | None = ..., /, **attributes: Any
    ) -> None:
        """Raises GraphError where the op table does not admit the node."""

    @staticmethod
    def const(value: Any, dtype: str | DType) -> UOp:
        """A CONST of that dtype; integers wrap, floats are rounded."""

    @staticmethod
    def parse(text: str) -> UOp:
        """The node that str(node) describes. Raises GraphError with the line's number."""

    @property
    def op(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def src(self) -> tuple[UOp, ...]: ...
    @property
    def attrs(self) -> dict[str, Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> Size:
        """The shape as tensors have it, with the number of elements in `numel()`."""

    @property
    def vmin(self) -> int | None:
        """The lower end of the interval; None when it is unbounded, or the dtype has none."""

    @property
    def vmax(self) -> int | None:
        """The upper end of the interval; None when it is unbounded, or the dtype has none."""

    @property
    def key(self) -> int:
        """A hash of the structure: the same in every process."""

    @property
    def ranges(self) -> list[UOp]:
        """The open RANGE nodes that this node depends on, by id."""

    def toposort(self, *ops: str) -> list[UOp]:
        """Every node below, sources first, this node last; where ops are named, those of these ops only."""

    def numbers_below(self, op: str, attribute: str) -> list[bytes]:
        """Of each source the numbers that nodes of an op below have as an attribute: bits, the lowest byte first."""

    def dtypes(self) -> set[DType]:
        """The dtypes of the nodes below, of this node too."""

    def count_nodes(self) -> int:
        """Number of distinct nodes below, itself included."""

    def replace(self, src: Iterable[UOp] | None = None, **attributes: Any) -> UOp:
        """The same node with other sources or attributes. Raises GraphError."""

    def describe(self) -> str:
        """One line: op, attributes, dtype."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __add__(self, other: Any, /) -> UOp: ...
    def __radd__(self, other: Any, /) -> UOp: ...
    def __sub__(self, other: Any, /) -> UOp: ...
    def __rsub__(self, other: Any, /) -> UOp: ...
    def __mul__(self, other: Any, /) -> UOp: ...
    def __rmul__(self, other: Any, /) -> UOp: ...
    def __truediv__(self, other: Any, /) -> UOp: ...
    def __rtruediv__(self, other: Any, /) -> UOp: ...
    def __floordiv__(self, other: Any, /) -> UOp: ...
    def __rfloordiv__(self, other: Any, /) -> UOp: ...
    def __mod__(self, other: Any, /) -> UOp: ...
    def __rmod__(self, other: Any, /) -> UOp: ...
    def __pow__(self, other: Any, /) -> UOp: ...
    def __rpow__(self, other: Any, /) -> UOp: ...
    def __and__(self, other: Any, /) -> UOp: ...
    def __rand__(self, other: Any, /) -> UOp: ...
    def __or__(self, other: Any, /) -> UOp: ...
    def __ror__(self, other: Any, /) -> UOp: ...
    def __xor__(self, other: Any, /) -> UOp: ...
    def __rxor__(self, other: Any, /) -> UOp: ...
    def __lshift__(self, other: Any, /) -> UOp: ...
    def __rlshift__(self, other: Any, /) -> UOp: ...
    def __rshift__(self, other: Any, /) -> UOp: ...
    def __rrshift__(self, other: Any, /) -> UOp: ...
    def __lt__(self, other: Any, /) -> UOp: ...
    def __le__(self, other: Any, /) -> UOp: ...
    def __gt__(self, other: Any, /) -> UOp: ...
    def __ge__(self, other: Any, /) -> UOp: ...
    def __neg__(self) -> UOp: ...
    def __invert__(self) -> UOp: ...

class Program:
    """Compiled rules. Every method raises RewriteError for an unknown name and for a rule that goes wrong."""

    def __init__(self, data: bytes, op_table: bool = False) -> None:
        """Raises RuleError for bytes that are not a program."""

    def rewrite(
        self,
        pass_name: str,
        root: UOp,
        trace: bool = False,
        check: bool = False,
        fuel: int = 0,
        follow: Sequence[UOp] = ...,
        limit: int = -1,
        limited: str = "",
        failed: dict[str, Any] | None = None,
        kept_choices: int = 1,
    ) -> tuple[UOp, Information]:
        """A pass on one graph. `check`: a firing must keep the shape too; `fuel`: most firings (0: the default).

        kept_choices: a `least` line keeps at least so many, so that a choose pass has further candidates.

        failed: gets what an Information has, up to the error, when one is raised.
        After `limit` firings of the rule `limited` (of all rules, when it is empty) it is left out.
        """

    def explain(
        self,
        pass_name: str,
        probe: str,
        root: UOp,
        watcher: Watcher,
        function: str = "",
        nodes: Sequence[UOp] = ...,
        seed: UOp | None = None,
        inside: Sequence[str] = ...,
    ) -> tuple[Information, str]:
        """A pass on a graph, watched: what it did, and the error that it ended with, or "".

        On each node that the pass's rules (or those of `function`, or those of the passes `inside`: it, and those that
        run inside it) are tried on, the alternatives of the function `probe` are run too, before them. `registers` are
        those at the place that is told, and are empty unless the node is one of `nodes`. A reverse pass starts from
        `seed`.
        """

    def rewrite_many(
        self, pass_names: Sequence[str], roots: Sequence[UOp]
    ) -> tuple[list[UOp], list[tuple[float, int, int]]]:
        """Passes, one after another, on several graphs in parallel; for each pass: seconds, nodes visited, firings."""

    def reverse(
        self,
        pass_name: str,
        roots: Sequence[UOp],
        seeds: Sequence[UOp],
        targets: Sequence[UOp],
        trace: list[tuple[str, str, UOp, UOp, list[UOp]]] | None = None,
    ) -> list[UOp | None]:
        """Gradients with respect to targets, from those of the roots; None for one that no root depends on.

        trace: gets (rule, place, node, its gradient, the gradients that the rule gives sources) of each node, also of
        those before an error.
        """

    def apply(self, pass_name: str, root: UOp) -> UOp | None:
        """The pass's rules on one node, once, and not below it; None when none fires."""

    def call(self, function: str, *arguments: Any) -> Any:
        """A function that rules define, on a node and up to two more arguments; None when no rule matches."""

    def order(self, pass_name: str, root: UOp) -> list[tuple[UOp, bool]]:
        """A kernel in linear order: (node, whether its loop closes here)."""

    def source(self, order_pass: str, render_pass: str, root: UOp) -> tuple[str, list[tuple[int, str, str]]]:
        """A kernel's body as text, and its parameters: (slot, name, type)."""

    def disable(self, rule: str, off: bool = True) -> None:
        """Switches a rule off, or on again: by name, or as SET.RULE."""

    def count(self, on: bool) -> None:
        """Counts what rules do from now on, or no more; what was counted is dropped."""

    @property
    def counts(self) -> list[tuple[str, int, int, int]]:
        """(rule, tried, fired, nanoseconds) of the rules that were tried since the counting began."""

    def set_extern(self, name: str, function: Callable[..., Any]) -> None:
        """The implementation of a host function."""

    @property
    def rules(self) -> list[tuple[str, str]]:
        """(SET.RULE, file:line) of each rule."""

    @property
    def externs(self) -> list[str]: ...
    @property
    def passes(self) -> list[str]: ...

class Tally:
    """How often a collective was started, and the time that a program waited for it."""

    calls: int
    seconds: float
    def __init__(self) -> None: ...
    def start(self) -> None:
        """One more was started."""

    def wait(self, nanoseconds: int) -> None:
        """The program did nothing else for so long."""

    def clear(self) -> None:
        """Counts from nothing."""

class Carrier:
    """MPI, as far as programs call it without Python."""

    is_clear: bool  #: whether nothing else is under way, and no collective has failed

    @property
    def first(self) -> Exchange | None:
        """The exchange that others, which were started after it, wait for."""

    def __init__(
        self,
        start: int,
        test: int,
        request: int,
        status: int,
        settle: Callable[[list[Exchange]], None],
        wait: Callable[[Exchange], None],
    ) -> None:
        """start, test: the addresses of MPI_Startall and MPI_Test. request, status: the bytes of one of each.

        settle: called before a program where it is not clear, or an exchange is not connected. wait: called where an
        exchange takes long, or has failed. Raises ValueError for a 0.
        """

class Exchange:
    """A collective that programs start again and again, without Python.

    about: whatever stands for it in messages.
    """

    about: Any
    is_connected: bool
    differs: bool  #: whether a neighbour has started another one
    failed: bool  #: whether MPI has said so

    def __init__(
        self,
        carrier: Carrier,
        tally: Tally,
        about: Any,
        sources: Sequence[tuple[int, int, int]],
        results: Sequence[tuple[int, int, int]],
    ) -> None:
        """sources, results: buffers of the program, their places in the exchange's memory, and bytes."""

    def connect(
        self, checks: bytes, requests: bytes, memory: int, own: int, theirs: Sequence[int], description: int
    ) -> None:
        """Gives it what it runs on, all of which outlives it.

        checks: the requests that tell neighbours what this is, and receive what theirs is; requests: the collective's.
        memory: the address of what is sent and received. own, theirs: addresses of so many bytes that say what it is.
        Raises ValueError.
        """

    def advance(self) -> bool:
        """Goes on without waiting; whether it has ended, or failed."""

class CudaKernel:
    """A kernel of NVIDIA's driver, and how it is launched."""

    def __init__(
        self,
        function: int,
        blocks: tuple[int, int, int],
        threads: tuple[int, int, int],
        local_bytes: int,
        maps: list[tuple[int, ...]],
        executable: object,
    ) -> None:
        """function: the driver's handle. maps: of each tensor map where it is, the slot of its buffer, its rank and
        dtype, the addresses of its sizes, strides, box and steps, and four settings (`cuTensorMapEncodeTiled`).
        executable: who keeps the kernel's module; errors get it.
        """

class CudaQueue:
    """A stream of a device, used with the interpreter's lock."""

    def __init__(
        self,
        functions: Sequence[int],
        context: int,
        stream: int,
        capturing: int,
        failed: Callable[[int, str, object], NoReturn],
    ) -> None:
        """functions: the addresses of the driver's cuCtxSetCurrent, cuLaunchKernel, cuStreamBeginCapture,
        cuStreamEndCapture, cuGraphInstantiateWithFlags, cuGraphLaunch, cuGraphExecDestroy, cuGraphDestroy and
        cuTensorMapEncodeTiled (or 0). capturing: a stream on which nothing runs. failed: is called with a status (-1 in
        a child made by fork), the function that gave it, and an executable or None; it raises. Raises GraphError.
        """

class Replay:
    """A plan's launches as one program, which does not change.

    Buffers are numbered: bound ones first, whose addresses each run is given, then places in an arena.
    """

    @overload
    def __init__(self, steps: Sequence[Replay | tuple[Exchange, bool]]) -> None:
        """Programs on the same buffers, one after the other, and exchanges that are started (True) or waited for.

        Raises GraphError.
        """

    @overload
    def __init__(
        self,
        launches: Sequence[tuple[int, Sequence[int], Sequence[int]]],
        bound: int,
        offsets: Sequence[int],
        is_short: bool,
        begin: int = 0,
        end: int = 0,
    ) -> None:
        """launches: the address of each function `void launch(void **buffers)`, the numbers of its buffers, and the
        bytes before what it is given of each of them, () for whole ones.

        bound: how many buffers each run is given. offsets: bytes from the arena's start to the buffers after those.
        is_short: a run keeps the interpreter's lock. begin, end: addresses of functions `void f(void)` that are called
        around a run. Raises GraphError for a number that no buffer has.
        """

    @overload
    def __init__(
        self, queue: CudaQueue, launches: list[tuple[CudaKernel, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> None:
        """Kernels on a queue. Where they run on the same buffers again, three or more are one launch of a graph."""

    @property
    def is_of_functions(self) -> bool:
        """Whether the launches are functions, which have ended when a run returns."""

    def run(self, handles: Sequence[int], arena: int | None) -> None:
        """Launches all in order. arena: None where there are no places in it. Raises GraphError."""

    def run_beside(
        self, beside: int, parts: int, handles: Sequence[tuple[int, ...]], arena: tuple[int, ...] | None
    ) -> None:
        """The same on each part of a device, as a handle of each; not with exchanges. Raises GraphError.

        beside: the address of a function `void f(void (*)(void **, long long, long long), void **, long long parts)`,
        which calls what it is given on each of the parts.
        """

    def __len__(self) -> int:
        """The number of launches."""

class BufferBase:
    """The fields of a buffer. When the last one lets go of it, its memory waits in the device's allocator."""

    id: int
    shape: tuple[int, ...]
    dtype: DType
    device: str
    nbytes: int
    is_lent: bool
    checks: tuple[Any, ...]
    made_at: tuple[str, int] | None
    _handle: Any
    _borrowed: bool
    _owner: Any
    _uop: UOp | None

class Blocks:
    """Blocks of a device's memory that wait for reuse, by size, and how many bytes are in use."""

    in_use: int
    most_in_use: int
    waiting: int
    most_kept: int

    def __init__(self) -> None: ...
    def take(self, nbytes: int) -> Any:
        """A block that waits, counted as in use from now on; None where there is none of this size."""

    def give(self, handle: Any, nbytes: int) -> None:
        """A block waits that was in use."""

    def count(self, nbytes: int) -> None:
        """A block of this size is in use that did not wait."""

    def oldest(self) -> Any:
        """A block, which waits no longer, of the size of which none was given for the longest time; None for none."""

def connect_buffers(buffer: type[BufferBase], numbers: Iterator[int]) -> None:
    """The class of new buffers from now on, and their numbers."""

def new_buffer(layout: Any, has_memory: bool, made_at: tuple[str, int] | None) -> Any:
    """A new buffer of a layout. Raises OutOfMemoryError."""

live_buffers: dict[int, Any]
allocators: dict[str, Any]

class Eager:
    """The way of eager computations without Python: results whose plan is known."""

    is_off: bool  #: whether everything goes through Python, as it does at first

    def __init__(self, observers: tuple[list[Any], ...]) -> None:
        """observers: lists of those who want to see each operation and launch; while one has items, it is off."""

    def connect(
        self,
        core: type[NodeHolder],
        tensor: type[NodeHolder],
        buffer: type[BufferBase],
        point: type[Any],
        view: type[Any],
    ) -> None:
        """From now on tensors are of this class, with the slots of `core`.

        point, view: the classes of gradient points, and of how a tensor is a part of another.
        """

    def keep(
        self,
        key: bytes,
        device: str,
        inputs: list[Any],
        takeable: Sequence[int],
        prepared: dict[str, Any],
        results: int,
        default_device: str,
        runs: int = -1,
    ) -> None:
        """Graphs of this signature are computed by a prepared plan from now on.

        inputs: of the plan: places of the signature's buffers, or buffers of the plan's own. takeable: those in whose
        memory results could be. prepared: the parts of `rulegrad.compile.plans.in_engine`, with so many results.
        default_device: that of tensors without one. runs: after so many Python is asked again. Raises ValueError.
        """

    def decide(self, tensor: NodeHolder, kept: Sequence[UOp], cheap: Sequence[UOp], default_device: str) -> None:
        """When a tensor of such a graph is asked for, values on the way are results too, or are not kept.

        They are all the nodes that tensors stand for which may be kept. default_device: that of tensors without one.
        """

    def forget_decisions(self) -> None:
        """Lets go of all decisions: the default device is another one."""

    prepare: Any  #: function of a view that is going to be computed
    read_kept: Any  #: function of a tensor whose value is not kept, and of tensors that are computed, by buffer

    def forget(self) -> None:
        """Lets go of all programs."""

    def realize(self, tensor: NodeHolder) -> bool:
        """Whether the tensor's values are in a buffer now; False for what has to go through Python."""

    def number(self, tensor: NodeHolder) -> bool | int | float | None:
        """The value of a tensor with one element on the host; None for what has to go through Python."""

    def compute(self, graphs: Sequence[UOp], nodes: Sequence[UOp], buffers: list[Any]) -> list[Any] | None:
        """The buffers of graphs that read these buffers in the places of nodes; None for what has to go through Python.

        Raises GraphError where not every node has a buffer.
        """

def view_at(tensor: NodeHolder, index: Any) -> Any:
    """The view at integers, slices, None and an Ellipsis; None where Python has to make it."""

def part_of(tensor: NodeHolder, begin: Sequence[int], end: Sequence[int], shape: Sequence[int]) -> Any:
    """The view from `begin` to `end` of each axis, in a shape of as many elements; None where Python has to make it."""

def viewed(tensor: NodeHolder, op: str, attributes: dict[str, Any], obstacle: str) -> Any:
    """The view by one movement; None where Python has to make it. obstacle: why it cannot be written to, or ""."""

def is_in_parts(node: UOp) -> bool:
    """Whether it is a BUFFER whose values are in parts on a mesh."""

def reshaped(tensor: NodeHolder, extents: tuple[Any, ...]) -> Any:
    """The view in a shape that `reshape` is given, one extent may be -1; None where Python has to make it."""

def permuted(tensor: NodeHolder, order: tuple[Any, ...]) -> Any:
    """The view with its axes in another order; None where Python has to make it."""

def detached(tensor: NodeHolder) -> Any:
    """The view without a gradient; None where Python has to make it."""

def assign(tensor: NodeHolder, value: NodeHolder) -> bool:
    """Gives a tensor the value of another, which is in its place; False where Python has to do it."""

def put_at(tensor: NodeHolder, index: Any, value: Any) -> bool:
    """Puts a value at an index like those of `view_at`, without steps; False where Python has to do it."""

class GraphFunction:
    """Graphs with parameters, which are built again on other nodes."""

    def __init__(self, roots: Sequence[UOp], parameters: Sequence[UOp]) -> None:
        """The graphs below `roots`, down to the parameters. Raises GraphError where two of these are one."""
    def apply(self, arguments: Sequence[UOp]) -> list[UOp]:
        """The graphs with nodes of the same shapes and dtypes in the places of the parameters. Raises GraphError."""

class TemplateGraph:
    """Graphs with formulas of sizes in the place of sizes."""

    def __init__(
        self,
        nodes: Sequence[
            tuple[UOp, tuple[int, ...], int, int, Sequence[tuple[str, int, tuple[tuple[tuple[int, ...], int], ...]]]]
        ],
        roots: Sequence[int],
        sizes: int,
        scalars: int,
        buffers: int,
        quotients: Sequence[tuple[int, tuple[tuple[tuple[int, ...], int], ...], int]],
    ) -> None:
        """nodes: one like it, the places of its sources, the numbers of the constant and of the buffer that it is, or
        -1; of each size that varies the attribute, the place in it, -1 where it is a number, and the formula.
        quotients: the numbers of sizes that are rounded quotients, the formulas of what is divided, the divisors.
        """
    def match(
        self, roots: Sequence[UOp], given_sizes: Sequence[int] | None
    ) -> tuple[tuple[int, ...], tuple[Any, ...], tuple[int, ...]] | None:
        """The sizes, constants and ids of buffers with which it is these graphs; None where it is with none."""

def template_key(roots: Sequence[UOp], sizes: Sequence[str]) -> int:
    """A number that graphs have in common which differ in constants, buffers, and the numbers of these attributes."""

class ResultsTable:
    """The results of a function of tensors without gradients, by the shapes and dtypes of these."""

    def of(self, tensors: list[Any]) -> list[Any] | None:
        """The results; None where Python has to see to it."""
    def keep(
        self,
        tensors: list[Any],
        graphs: Sequence[UOp],
        parameters: Sequence[UOp],
        reads: list[tuple[int, ...] | None],
    ) -> None:
        """From now on the results for such tensors are the graphs, each with the tensors that it reads.

        One that reads None is the tensor of its place.
        """

class GraphTable:
    """The graphs of a function of tensors by what of its arguments they depend on; dtype: the class of dtypes."""

    def __init__(self, dtype: type[DType]) -> None: ...
    def of(self, arguments: tuple[Any, ...], more: dict[str, Any], dtypes: Hashable, checks: int) -> Any:
        """The result of a call; None where Python has to see to it."""
    def keep(
        self,
        arguments: tuple[Any, ...],
        more: dict[str, Any],
        dtypes: Hashable,
        checks: int,
        graphs: GraphFunction,
        tracked: Sequence[bool],
        is_tuple: bool,
    ) -> None:
        """From now on calls with such arguments are the graphs with their tensors as parameters.

        tracked: whether a gradient flows through each. is_tuple: the result is a tuple, or the tensor of the one graph.
        Raises GraphError.
        """

def gradients_enabled() -> bool:
    """False inside `no_grad`, of this thread."""

def enable_gradients(enabled: bool) -> bool:
    """Whether operations of this thread on tensors with gradients are recorded; what it was before."""

def operator_of(op: str, swapped: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method for a Python operator: what needs no conversion is computed in the engine, the rest by the function."""

def is_source(node: UOp) -> bool:
    """Whether there is a node that is computed from this one; looks at all nodes."""

def live_nodes() -> int:
    """Number of nodes that are alive."""

def table_loaded() -> bool:
    """Whether the op table has been installed."""

def name_dtypes(dtypes: Sequence[DType]) -> None:
    """These objects stand for the dtypes that they name: from now on, or from when there is an op table.

    Raises GraphError where one names none.
    """

def load_table_with(load: Callable[[], None]) -> None:
    """The function that loads the op table when an op or a dtype is named and there is none."""

def renumbered(like: UOp, number: int) -> UOp:
    """The BUFFER node with another number. Raises GraphError for another op."""

def placements(nodes: Sequence[UOp]) -> tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]:
    """Of the nodes that are BUFFERs in parts on a mesh: which they are, the meshes, and how they lie there."""

SIGNATURE_BYTES: Final[int]  #: that a node has at least in a key of graphs

def signature(roots: Sequence[UOp]) -> tuple[bytes, list[int]]:
    """A key of the graphs with their buffers left open, and the ids of the buffers, in the order of the graph.

    Graphs have equal keys exactly when they become equal by renaming buffers. A key holds in this process only.
    Raises GraphError.
    """

def partition(
    roots: Sequence[UOp], free: Sequence[str], elementwise: Sequence[str], most: int, size: int, times: int
) -> list[tuple[list[UOp], list[UOp], list[UOp]]]:
    """Graphs of more than `most` nodes in which a step recurs, or of half as many with steps of `size`, as subgraphs.

    For each the outputs of earlier ones that it reads, its outputs, and the outputs that no later subgraph reads; it
    has about `size` nodes, at least one step. Values of the ops `free`, and those of `elementwise` near what is in
    memory, are computed again where they are read. [] for graphs where nothing recurs `times` times, and for those with
    effects, with what is computed again on purpose, or on a mesh.
    """

def remember(node: UOp, buffer: Any) -> None:
    """From now on the buffer holds the value of the node, as long as both live; only a weak reference is kept."""

def holders_of_graphs() -> list[NodeHolder]:
    """All objects that stand for nodes that are computed from others."""

def are_above(roots: Sequence[UOp], nodes: Sequence[UOp]) -> list[bool]:
    """For each root whether one of the nodes is in its graph."""

def resolved(roots: Sequence[UOp]) -> tuple[list[UOp], list[Any], list[tuple[UOp, UOp, list[Any]]]]:
    """Graphs that read the buffers that were remembered of their nodes, these buffers, and what is named in the graphs.

    For each node that NodeHolders stand for, sources first: the node on those buffers; the same with a NAMED around
    each such node below it; the holders. A buffer whose attribute `is_lent` is true is not read.
    """

def place_buffers(
    sizes: Sequence[int],
    lives: Sequence[tuple[int, int]],
    pairs: Sequence[tuple[int, int]],
    taken: Sequence[int],
    results: Sequence[int],
    own: Sequence[tuple[int, int]],
    inner: Sequence[int],
    most: int | None,
) -> tuple[list[tuple[int, int, int | None]], list[int], int]:
    """Places the buffers of a schedule in blocks of memory: blocks, the block of each buffer or -1, all bytes.

    lives: the first and the last step of each. taken: inputs, each a block of its own. results: in turn, then the
    inner buffers, until they take as much as `most` bytes. A block: its bytes, its largest buffer, the taken input.
    """

def verify(root: UOp, level: str) -> str:
    """What is wrong with a graph of the IR level `tensor`, `kernel` or `program`; empty when nothing is."""

def evaluate(op: str, dtype: str | DType, *arguments: Any) -> Any:
    """The op table's evaluator on constants, the result as dtype stores it; None where it is undefined."""

def structure(
    tree: Any, tensors: list[Any], objects: list[Any], unusual: Callable[[Any, list[Any], list[Any]], Hashable]
) -> Hashable:
    """The structure of a tree of arguments, as `rulegrad.tensor.trees` has it; `unusual` is asked for what is rare."""

class PathGuard:
    """The steps from a function to what it finds outside, and what they led to in a trace."""

    def __init__(
        self,
        steps: list[tuple[int, int, Any]],
        tensors: list[tuple[int, int]],
        values: list[tuple[int, type, Any]],
        objects: list[tuple[int, Any]],
        joins: list[tuple[int, int]],
        keys: list[tuple[int, Any]],
    ) -> None:
        """steps: the step that each starts at (-1: the roots), the number of how it goes on, and its key."""

    def holds(self, roots: tuple[Any, ...]) -> bool:
        """Whether they lead to the same; False, too, for what has to be looked at in Python."""

class CapturedCall:
    """The replay of a captured function, as far as it needs no Python."""

    def __init__(self, parts: dict[str, Any]) -> None:
        """parts: those of a `rulegrad.capture.captured.Captured`, in numbers."""

    def learn(self, prepared: dict[str, Any]) -> None:
        """A replay may run this program from now on, which takes the memory of some inputs."""

    def holds(self, arguments: list[Any], roots: tuple[Any, ...]) -> bool:
        """Whether a replay for these arguments would be a call; False, too, for what has to be looked at in Python."""

    def replay(self, arguments: list[Any], called: list[list[Any]]) -> Any:
        """The result; NotImplemented, and nothing is done, where that is for Python.

        called: the tensors that the functions of `each_call` made. Raises OutOfMemoryError.
        """
