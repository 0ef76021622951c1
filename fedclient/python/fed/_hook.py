"""Gradients compressed between the processes of DistributedDataParallel: fed.torch.hook and fed.torch.Residuals."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np
import torch
import torch.distributed as dist

from . import _modules, codecs

PIECE = 1024  # values; a tensor with fewer for each process has one owner
NOT_FINITE = -1  # in place of a pack's length
AS_IT_IS = 0xFFFFFFFF  # in place of a message's length: float32 values follow


class Residuals:
    """The state of a hook in this process: the residual of each parameter, and more. It follows a parameter through DDP's buckets,
    which DDP orders anew after the first step. A step whose gradient is not finite, in any process, leaves it untouched.

    module         the module that DDP has, for the names in state_dict(). None: parameters are numbered as DDP first brings them,
                   which is the same order in a later run if the model and DDP's arguments are
    process_group  that of DDP; None: all processes
    sent_bytes     how many bytes this process has given to torch.distributed for others, so far
    """

    def __init__(self, module: torch.nn.Module | None = None, process_group: Any = None):
        self.process_group = process_group
        self.sent_bytes = 0
        self._names = {} if module is None else _modules.names(module)
        self._seen: dict[int, tuple[torch.Tensor, int, str]] = {}  # by id(): the parameter, which so keeps its id, its number and name
        self._order: list[str] = []  # names by number
        self._place: tuple[int, int] | None = None  # this process's rank, and how many there are
        self._steps = 0
        self._kept: dict[tuple[str, str], torch.Tensor] = {}  # by kind and parameter
        self._pending: dict[tuple[str, str], torch.Tensor] = {}  # what this step makes of them
        self._spoilt = False

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint of this process needs: each process has its own."""
        return {"place": self._place, "steps": self._steps, "order": list(self._order),
                "kept": {f"{kind} {name}": tensor for (kind, name), tensor in self._kept.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, before the first step. The next step raises ValueError if it is another process's, of another
        number of processes, or of other parameters."""
        self._place = None if state["place"] is None else (int(state["place"][0]), int(state["place"][1]))
        self._steps, self._order = int(state["steps"]), list(state["order"])
        self._seen.clear()
        kinds = [key.partition(" ") for key in state["kept"]]
        self._kept = {(kind, name): tensor for (kind, _, name), tensor in zip(kinds, state["kept"].values())}

    def parameter(self, one: torch.Tensor) -> tuple[int, str]:
        """The number and the name of a parameter. All processes give it the same number."""
        found = self._seen.get(id(one))
        if found is None:
            name = self._names.get(id(one), str(len(self._seen)))
            if name not in self._order:
                self._order.append(name)
            found = self._seen[id(one)] = (one, self._order.index(name), name)
        return found[1:]

    def take(self, kind: str, name: str, size: int) -> torch.Tensor | None:
        """A copy of what is kept, for this step to change; None: nothing is kept."""
        found = self._kept.get((kind, name))
        if found is not None and found.numel() != size:
            raise ValueError(f"the {kind} of parameter {name} has {found.numel()} values in the checkpoint, and {size} here: give "
                             "fed.torch.Residuals the module, so that a checkpoint has the parameters' names")
        return None if found is None else found.clone()

    def put(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        self._pending[kind, name] = tensor

    def spoil(self) -> None:
        """A gradient of this step is not finite: keep what was before it."""
        self._spoilt = True

    def begin(self, first: bool, place: tuple[int, int]) -> None:
        if self._place is not None and self._place != place:
            raise ValueError(f"these residuals are of rank {self._place[0]} of {self._place[1]}, and this is rank {place[0]} of "
                             f"{place[1]}: each process loads its own checkpoint; begin with new residuals where their number differs")
        self._place = place
        if first:
            self._pending, self._spoilt = {}, False

    def end(self) -> None:
        """The step's last bucket is through."""
        if not self._spoilt:
            self._kept.update(self._pending)
        self._pending = {}
        self._steps += 1

    @property
    def steps(self) -> int:
        return self._steps


class _Group:
    """The processes that exchange gradients. Counts what this one sends."""

    def __init__(self, state: Residuals, device: torch.device):
        self.state, self.own = state, state.process_group
        self.rank, self.size = dist.get_rank(self.own), dist.get_world_size(self.own)
        # Messages are made on the processor, and NCCL sends from a GPU only.
        self.device = device if dist.get_backend(self.own) == "nccl" else torch.device("cpu")

    def numbers(self, numbers: Sequence[int]) -> list[int]:
        """Send a number to each process, and get one of each. In the order of ranks."""
        sent = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        got = torch.zeros_like(sent)
        dist.all_to_all_single(got, sent, group=self.own)
        self.state.sent_bytes += 8 * (self.size - 1)
        return [int(one) for one in got.tolist()]

    def swap(self, packs: Sequence[bytes], lengths: Sequence[int]) -> list[bytes]:
        """Send a pack to each process, and get one of each, whose lengths are known. In the order of ranks."""
        sizes = [len(pack) for pack in packs]
        sent = torch.frombuffer(bytearray(b"".join(packs)) or bytearray(1), dtype=torch.uint8)[:sum(sizes)].to(self.device)
        got = torch.empty(sum(lengths), dtype=torch.uint8, device=self.device)
        dist.all_to_all_single(got, sent, list(lengths), sizes, group=self.own)
        self.state.sent_bytes += sum(sizes) - sizes[self.rank]
        return [part.numpy().tobytes() for part in torch.split(got.cpu(), list(lengths))]

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of all processes' tensors."""
        total = tensor.to(self.device, copy=True)
        dist.all_reduce(total, group=self.own)
        self.state.sent_bytes += 2 * (self.size - 1) * total.numel() * total.element_size() // self.size
        return total.to(tensor.device)

    def mean(self, buffer: torch.Tensor) -> torch.Tensor:
        """The mean of all processes' buffers, as DDP without a hook has it."""
        if buffer.is_sparse:
            total = buffer / self.size
            dist.all_reduce(total, group=self.own)
            return total
        return self.add(buffer / self.size)


class _Piece:
    """A part of a tensor that one process owns: it adds all processes' messages of it."""

    def __init__(self, owner: int, name: str, begin: int, end: int):
        self.owner, self.name, self.begin, self.end = owner, name, begin, end


def _pieces(numbered: Sequence[tuple[int, str]], sizes: Sequence[int], ranks: int) -> list[_Piece]:
    """The pieces of a bucket; begin and end count within its tensor. The owner depends on the parameter alone, not on the bucket."""
    pieces = []
    for (number, name), size in zip(numbered, sizes):
        if size >= ranks * PIECE:
            pieces += [_Piece(rank, name, size * rank // ranks, size * (rank + 1) // ranks) for rank in range(ranks)]
        elif size > 0:
            pieces.append(_Piece(number % ranks, name, 0, size))
    return pieces


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "little") + message


def _finite(*tensors: torch.Tensor) -> bool:
    return all(bool(torch.isfinite(one).all()) for one in tensors)


class _Codec:
    """The exchange through a codec. The owner of a piece gets all messages of it, adds them, and sends the sum through a codec, too,
    with a residual of its own. So a process's bytes do not grow with the number of processes."""

    def __init__(self, push: str, pull: str):
        self.push, self.pull = push, pull

    def __call__(self, state: Residuals, group: _Group, bucket: Any) -> torch.Tensor | None:
        """The mean of the bucket; None: a value is not finite in some process."""
        flat = bucket.buffer().detach().to("cpu", torch.float32).contiguous()
        numbered = [state.parameter(one) for one in bucket.parameters()]
        values = dict(zip((name for _, name in numbered), torch.split(flat, [one.numel() for one in bucket.gradients()])))
        pieces = _pieces(numbered, [one.numel() for one in values.values()], group.size)
        packs = self._push(state, values, pieces, group.size)
        lengths = group.numbers([NOT_FINITE] * group.size if packs is None else [len(pack) for pack in packs])
        if packs is None or NOT_FINITE in lengths:
            return None
        got = group.swap(packs, lengths)
        own = self._sums(state, [piece for piece in pieces if piece.owner == group.rank], got)
        lengths = group.numbers([len(own)] * group.size)
        total = {name: torch.zeros_like(one) for name, one in values.items()}
        for rank, pack in enumerate(group.swap([own] * group.size, lengths)):
            if not self._pull(pack, [piece for piece in pieces if piece.owner == rank], total):
                state.spoil()
        return torch.cat(list(total.values())) if total else flat

    def _push(self, state: Residuals, values: Mapping[str, torch.Tensor], pieces: Sequence[_Piece], ranks: int) -> list[bytes] | None:
        """The messages for each owner. None: a value is not finite."""
        packs = [bytearray() for _ in range(ranks)]
        residuals = {}
        for name, one in values.items():
            found = state.take("residual", name, one.numel())
            residuals[name] = torch.zeros_like(one) if found is None else found
            if not _finite(one + residuals[name]):
                return None
        for piece in pieces:
            part = slice(piece.begin, piece.end)
            packs[piece.owner] += _framed(codecs.encode(self.push, values[piece.name][part], residual=residuals[piece.name][part]))
        for name, residual in residuals.items():
            state.put("residual", name, residual)
        return [bytes(pack) for pack in packs]

    def _sums(self, state: Residuals, pieces: Sequence[_Piece], packs: Sequence[bytes]) -> bytes:
        """The messages of the sums of this process's pieces."""
        own, at = bytearray(), [0] * len(packs)
        for piece in pieces:
            total = torch.zeros(piece.end - piece.begin)
            for rank, pack in enumerate(packs):
                end = at[rank] + 4 + int.from_bytes(pack[at[rank]:at[rank] + 4], "little")
                codecs.decode_add(pack[at[rank] + 4:end], total, 1 / len(packs))
                at[rank] = end
            residual = state.take("sum", piece.name, total.numel())
            residual = torch.zeros_like(total) if residual is None else residual
            if _finite(total + residual):
                own += _framed(codecs.encode(self.pull, total, residual=residual))
                state.put("sum", piece.name, residual)
            else:
                own += AS_IT_IS.to_bytes(4, "little") + total.numpy().tobytes()
        return bytes(own)

    @staticmethod
    def _pull(pack: bytes, pieces: Sequence[_Piece], total: Mapping[str, torch.Tensor]) -> bool:
        """Put an owner's sums where they belong. False: one of them came as it is, because it is not finite."""
        at, finite = 0, True
        for piece in pieces:
            place = total[piece.name][piece.begin:piece.end]
            length = int.from_bytes(pack[at:at + 4], "little")
            if length == AS_IT_IS:
                length, finite = 4 * place.numel(), False
                place.copy_(torch.from_numpy(np.frombuffer(pack, np.float32, place.numel(), at + 4).copy()))
            else:
                codecs.decode_add(pack[at + 4:at + 4 + length], place)
            at += 4 + length
        return finite


def _orthonormal(matrix: torch.Tensor, fresh: Callable[[], torch.Tensor] | None) -> torch.Tensor:
    """The matrix with orthonormal columns (modified Gram-Schmidt in binary64). A column that depends on those before it becomes 0,
    or is drawn anew by fresh()."""
    columns: list[torch.Tensor] = []
    for column in matrix.double().unbind(1):
        for _ in range(2):
            before = float(column.norm())
            for other in columns * 2:  # twice, because once leaves what rounding adds
                column = column - (column @ other) * other
            length = float(column.norm())
            if length > before * 2 ** -16:
                column = column / length
                break
            column = torch.zeros_like(column) if fresh is None else fresh().to(column.device)
        columns.append(column)
    return torch.stack(columns, 1).float()


class _PowerSGD:
    """Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2, as PyTorch's PowerSGD: the processes' P = M Q are added before they are
    made orthonormal, and their Q = M^T P are. So all have the factors of the mean. Q is kept for the next step."""

    def __init__(self, rank: int, power: int, form: torch.dtype):
        self.rank, self.power, self.form = rank, power, form

    def __call__(self, state: Residuals, group: _Group, bucket: Any) -> torch.Tensor | None:
        numbered = [state.parameter(one) for one in bucket.parameters()]
        values = [one.detach().float().contiguous() for one in bucket.gradients()]
        narrow = [self._pays(one) for one in values]
        matrices, names = [], []
        for one, small, (number, name) in zip(values, narrow, numbered):
            if small:
                residual = state.take("residual", name, one.numel())
                matrices.append(one.flatten(1) if residual is None else one.flatten(1) + residual.to(one.device).reshape(len(one), -1))
                names.append((number, name))
        others = [one.flatten() for one, small in zip(values, narrow) if not small]
        if not all(group.numbers([_finite(*matrices, *others)] * group.size)):
            return None
        means = iter(self._means(state, group, matrices, names))
        rest = torch.cat(others) if others else torch.zeros(0)
        plain = iter(torch.split(group.add(rest / group.size) if others else rest, [one.numel() for one in others]))
        result = torch.zeros_like(bucket.buffer(), dtype=torch.float32)
        for place, one, small in zip(torch.split(result, [one.numel() for one in values]), bucket.gradients(), narrow):
            mean = next(means if small else plain)
            place.as_strided(one.shape, one.stride(), place.storage_offset()).copy_(mean.reshape(one.shape))
        if not _finite(result):
            state.spoil()
        return result

    def _pays(self, one: torch.Tensor) -> bool:
        """Whether a tensor's factors have fewer values than it has."""
        if one.dim() < 2 or one.numel() == 0:
            return False
        rows, columns = len(one), one.numel() // len(one)
        return (rows + columns) * min(self.rank, rows, columns) < rows * columns

    def _means(self, state: Residuals, group: _Group, matrices: Sequence[torch.Tensor],
               names: Sequence[tuple[int, str]]) -> list[torch.Tensor]:
        """The products of the factors."""
        qs, draws = [], []
        for matrix, (number, name) in zip(matrices, names):
            rank, columns = min(self.rank, *matrix.shape), matrix.shape[1]
            generator = torch.Generator().manual_seed(number * 1_000_003 + state.steps)
            draws.append(lambda columns=columns, generator=generator: torch.randn(columns, generator=generator, dtype=torch.float64))
            found = state.take("factor", name, columns * rank)
            qs.append(torch.randn(columns, rank, generator=generator) if found is None else found)
        qs = [q.to(matrix.device) for q, matrix in zip(qs, matrices)]
        ps: list[torch.Tensor] = []
        for _ in range(self.power):
            qs = [_orthonormal(q, fresh) for q, fresh in zip(qs, draws)]
            ps = self._added(group, [matrix @ q for matrix, q in zip(matrices, qs)])
            ps = [_orthonormal(p, None) for p in ps]
            qs = [q / group.size for q in self._added(group, [matrix.T @ p for matrix, p in zip(matrices, ps)])]
        means = [p @ q.T for p, q in zip(ps, qs)]
        for matrix, mean, q, (_, name) in zip(matrices, means, qs, names):
            state.put("residual", name, (matrix - mean).flatten())
            state.put("factor", name, q)
        return means

    def _added(self, group: _Group, factors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The sums of all processes' factors, which travel together."""
        if not factors:
            return []
        flat = group.add(torch.cat([one.flatten() for one in factors]).to(self.form)).float()
        return [part.reshape(one.shape) for part, one in zip(torch.split(flat, [one.numel() for one in factors]), factors)]


def _exchange(spec: str, pull: Optional[str]) -> _Codec | _PowerSGD:
    for one in (spec, pull or spec):
        codecs.encode(one, np.zeros(1, np.float32))  # an unknown codec is refused here, not in the first backward pass
    name, _, rest = spec.partition(":")
    if name.partition("+")[0] != "powersgd":
        return _Codec(spec, pull or spec)
    told = dict(word.partition("=")[::2] for word in rest.split(",") if word)
    if "+" in spec or "rows" in told or pull is not None:
        raise ValueError(f"{spec}: the hook's powersgd takes rank, power and values; its factors are added as numbers, so there is no "
                         "step behind a + and no pull")
    form = torch.bfloat16 if told.get("values") == "bfloat16" else torch.float32
    return _PowerSGD(int(float(told.get("rank", 2))), int(float(told.get("power", 1))), form)


def hook(spec: str, pull: str | None = None) -> Callable[[Residuals, Any], torch.futures.Future[torch.Tensor]]:
    """A communication hook for DistributedDataParallel: gradients are sent through a codec with error feedback.

        ddp.register_comm_hook(fed.torch.Residuals(module), fed.torch.hook("3lc:s=1.75"))

    spec  the codec of gradients. With powersgd all processes make the factors of their mean, as in PyTorch's PowerSGD
    pull  the codec of sums; None: the same

    Each process owns a part of the tensors: it adds all messages of that part, and sends the sum to all. So all get the same bits.
    A bucket travels as without a hook where a gradient is sparse or complex, and where a value is not finite in any process: then
    all processes get what is not finite. Raises fed.Error: an unknown codec; ValueError: parts that the hook's powersgd lacks.
    """
    way = _exchange(spec, pull)

    # The function has no annotations: PyTorch compares annotations with its own types, and refuses
    # strings.
    def exchange(state, bucket):  # type: ignore[no-untyped-def]
        buffer = bucket.buffer()
        group = _Group(state, buffer.device)
        state.begin(bucket.index() == 0, (group.rank, group.size))
        mean = None
        if not buffer.is_sparse and buffer.is_floating_point():
            mean = way(state, group, bucket)
            if mean is None:
                state.spoil()
        mean = group.mean(buffer) if mean is None else mean.to(buffer.device, buffer.dtype)
        if bucket.is_last():
            state.end()
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(mean)
        return done

    return exchange
