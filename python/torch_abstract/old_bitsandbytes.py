"""bitsandbytes' linear layers as releases from 0.38.1 to 0.45.0 have them, with every tensor that they allocate on a GPU.

Lines in comments are of the release that is named first, in `bitsandbytes/`. Frozen weights without a bias, inputs of three
dimensions in which there is no outlier, and an Ampere GPU are taken for granted. Kernels of the library are left out, which
write into tensors that are there.
"""

import torch

INT8, INT32, FLOAT16, FLOAT32 = torch.int8, torch.int32, torch.float16, torch.float32


def release(text):
    """A version to compare with tuples."""
    return tuple(map(int, text.split(".")))


class MatMul4Bit(torch.autograd.Function):
    """The product with a 4-bit weight: 0.42.0, autograd/_functions.py:494-548."""

    @staticmethod
    def forward(ctx, a, linear):
        output = torch.nn.functional.linear(a, linear.dequantised().to(a.dtype))  # :516
        # `(A, B)` (:523) until 0.43.2, then `(None, B)`.
        ctx.tensors = (a if linear.release < (0, 43, 2) else None, linear)
        return output

    @staticmethod
    def backward(ctx, grad):
        _, linear = ctx.tensors
        return torch.matmul(grad, linear.dequantised().to(grad.dtype)), None  # :546


class Linear4bit(torch.nn.Module):
    """A linear layer in NF4, without a second quantisation, of `bnb_4bit_compute_dtype` bfloat16: nn/modules.py."""

    def __init__(self, linear, version, dtype):
        super().__init__()
        self.release, self.shape = release(version), linear.weight.shape
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # 0.42.0:168 makes it float16 first; 0.43.0:279 does not.
        self.source = FLOAT16 if self.release < (0, 43) else dtype
        self.compute_dtype = None
        numel = linear.weight.numel()
        self.register_buffer("packed", torch.empty(numel // 2, dtype=torch.uint8))
        self.register_buffer("scales", torch.empty((numel + 63) // 64, dtype=FLOAT32))
        self.register_buffer("code", torch.empty(16, dtype=FLOAT32))

    def dequantised(self):
        """`dequantize_4bit`: 0.42.0, functional.py:1026."""
        return torch.empty(self.shape, dtype=self.source)

    def forward(self, x):
        if self.compute_dtype is None:
            # `set_compute_type`: 0.42.0:213-217; 0.40.2:217 takes what is configured.
            follows = self.release >= (0, 41) and x.dtype in [FLOAT32, torch.bfloat16]
            self.compute_dtype = x.dtype if follows else torch.bfloat16
        return MatMul4Bit.apply(x.to(self.compute_dtype), self).to(x.dtype)  # 0.42.0:253-258


def padded(count, multiple):
    return (count + multiple - 1) // multiple * multiple


def get_colrow_absmax(a, threshold):
    """0.44.1, functional.py:2438-2473."""
    rows, columns = a.shape
    row_stats = torch.empty((rows,), dtype=FLOAT32).fill_(-50000.0)  # :2451
    col_stats = torch.empty((columns,), dtype=FLOAT32).fill_(-50000.0)  # :2453
    nnz_block_ptr = None
    if threshold > 0.0:
        blocks = padded(rows, 16) * ((columns + 255) // 256)
        nnz_block_ptr = torch.zeros((blocks + 1,), dtype=INT32)  # :2456
        nnz_block_ptr.cumsum_(0)  # :2471
    return row_stats, col_stats, nnz_block_ptr


def double_quant(a, threshold=0.0):
    """0.44.1, functional.py:2555-2642, where no number of outliers is above 0."""
    row_stats, col_stats, _nnz_row_ptr = get_colrow_absmax(a, threshold)  # :2568
    out_col = torch.zeros(a.shape, dtype=INT8)  # :2571
    out_row = torch.zeros(a.shape, dtype=INT8)  # :2573
    return out_row, out_col, row_stats, col_stats


def get_transform_buffer(shape, dtype, order):
    """0.44.1, functional.py:501-537: all are made by `torch.zeros`."""
    rows, columns = shape
    return torch.zeros((padded(rows, dict(col32=1, col_ampere=32)[order]), padded(columns, 32)), dtype=dtype)


def transform(a, order):
    """0.44.1, functional.py:2645-2690."""
    return get_transform_buffer(a.shape, a.dtype, order)


def mm_dequant(sums, shape):
    """0.44.1, functional.py:2393-2435."""
    out = torch.empty(shape, dtype=FLOAT16)  # :2402
    _new_row_stats = torch.empty(shape[0], dtype=FLOAT32)  # :2404
    _new_col_stats = torch.empty(shape[1], dtype=FLOAT32)  # :2406
    return out


def undo_layout(permuted_tensor, tile_indices):
    """0.44.1, autograd/_functions.py:89-104, as it is there."""
    (rows, cols), (tile_rows, tile_cols) = permuted_tensor.shape, tile_indices.shape
    tensor = permuted_tensor.reshape(-1, tile_indices.numel()).t()
    outputs = torch.empty_like(tensor)
    outputs[tile_indices.flatten()] = tensor
    outputs = outputs.reshape(tile_rows, tile_cols, cols // tile_cols, rows // tile_rows)
    outputs = outputs.permute(3, 0, 2, 1)
    return outputs.reshape(rows, cols).contiguous()


class TiledMatMul8bitLt(torch.autograd.Function):
    """`MatMul8bitLt` until 0.45.0: 0.44.1, autograd/_functions.py:285-485; what 0.38.1 does otherwise is said."""

    @staticmethod
    def forward(ctx, A, state):
        input_shape = A.shape
        A = A.reshape(-1, A.shape[-1])  # :320
        CA, CAt, _SCA, SCAt = double_quant(A.to(FLOAT16), state.threshold)  # :321
        if state.CxB is None:
            state.CxB = transform(state.CB, "col_ampere")  # :335 and :338
        output_shape = (*input_shape[:-1], state.out_features)
        _C32A = transform(CA, "col32")  # :394
        out32 = get_transform_buffer((A.shape[0], state.out_features), INT32, "col32")  # :395; `igemmlt`, functional.py:2326
        output = mm_dequant(out32, (A.shape[0], state.out_features))  # :398
        output = output.to(A.dtype)  # :399
        ctx.state, ctx.grad_shape, ctx.dtype_A = state, input_shape, A.dtype
        if any(ctx.needs_input_grad):
            # :425; 0.38.1:427 is `(CAt, subA)`, and 0.39.0 the first to keep `A`.
            ctx.tensors = (CAt, None, A) if state.release >= (0, 39) else (CAt, None)
            ctx.tensor_states = (SCAt, None)
        return torch.clone(output.view(output_shape))  # :432-433

    @staticmethod
    def backward(ctx, grad_output):
        state = ctx.state
        grad_output = grad_output.reshape(-1, grad_output.shape[-1]).contiguous()  # :453
        _Cgrad, _Cgradt, _SCgrad, _SCgradt = double_quant(grad_output.to(FLOAT16))  # :455
        if state.tile_indices is None:
            state.tile_indices = torch.zeros((32, 32), dtype=torch.int64)  # :237-240; 0.38.1:279-284
        CB = undo_layout(state.CxB, state.tile_indices).to(ctx.dtype_A).mul_(state.SCB.unsqueeze(1).mul(1.0 / 127.0))  # :476-480
        return torch.matmul(grad_output, CB).view(ctx.grad_shape).to(ctx.dtype_A), None  # :481


def int8_vectorwise_quant(a, threshold):
    """0.45.0, functional.py:2751-2804, where there is no outlier."""
    row_stats = torch.empty(a.shape[0], dtype=FLOAT32)  # :2776
    out_row = torch.empty(a.shape, dtype=INT8)  # :2777
    if threshold > 0.0:
        outliers = a.abs() >= threshold  # :2783
        outliers.any()  # :2785
    return out_row, row_stats


class MatMul8bitLt(torch.autograd.Function):
    """`MatMul8bitLt` of 0.45.0: autograd/_functions.py:287-438."""

    @staticmethod
    def forward(ctx, A, state):
        input_shape = A.shape
        A = A.reshape(-1, A.shape[-1])  # :318
        CA, _SCA = int8_vectorwise_quant(A.to(FLOAT16), state.threshold)  # :326
        out32 = torch.empty((CA.shape[0], state.out_features), dtype=INT32)  # :368; `int8_linear_matmul`, functional.py:2341
        output = torch.empty_like(out32, dtype=FLOAT16).to(A.dtype)  # :373; `int8_mm_dequant`, functional.py:2404
        ctx.state, ctx.grad_shape, ctx.dtype_A = state, input_shape, A.dtype
        if any(ctx.needs_input_grad):
            ctx.tensors = (None, None, A)  # :389
        return output.reshape((*input_shape[:-1], state.out_features))  # :399

    @staticmethod
    def backward(ctx, grad_output):
        state = ctx.state
        grad_output = grad_output.reshape(-1, grad_output.shape[-1]).contiguous()  # :421
        CB = state.CB.to(ctx.dtype_A, copy=True).mul_(state.SCB.unsqueeze(1).mul(1.0 / 127.0))  # :433
        return torch.matmul(grad_output.to(ctx.dtype_A), CB).view(ctx.grad_shape), None  # :434


class Linear8bitLt(torch.nn.Module):
    """A linear layer in 8 bits by rows with its `MatmulLtState`: nn/modules.py."""

    def __init__(self, linear, version, threshold):
        super().__init__()
        self.release, self.threshold = release(version), threshold
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # What `Int8Params.cuda` leaves: 0.44.1:587-599.
        self.register_buffer("CB", torch.empty(linear.weight.shape, dtype=INT8))
        self.register_buffer("SCB", torch.empty(linear.weight.shape[0], dtype=FLOAT32))
        self.CxB = self.tile_indices = None

    def forward(self, x):
        if self.release >= (0, 45):
            return MatMul8bitLt.apply(x, self)
        out = TiledMatMul8bitLt.apply(x, self)
        # The tiles take the place of the rows: 0.44.1:1011-1016, 0.38.1:322-327.
        self.CB = None
        return out
