"""Names that profilers write, as simulated traces spell them: the simulation's own list."""

from __future__ import annotations

from dataclasses import dataclass

COMPUTE, COMM, MEMORY = "compute", "comm", "memory"


@dataclass(frozen=True)
class Kernel:
    """A kernel or copy: the operator that launches it, its own name, what kind of work it is."""

    operator: str
    name: str
    kind: str = COMPUTE


GEMM = Kernel("aten::mm", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NTN")
INPUT_GRADIENT = Kernel("aten::mm", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT")
WEIGHT_GRADIENT = Kernel("aten::mm", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT")
ATTENTION = Kernel(
    "aten::_scaled_dot_product_flash_attention",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>",
)
ATTENTION_BACKWARD = Kernel(
    "aten::_scaled_dot_product_flash_attention_backward",
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8>>",
)
NORM = Kernel("aten::native_layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>")
NORM_BACKWARD = Kernel(
    "aten::native_layer_norm_backward",
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<float>",
)
ACTIVATION = Kernel("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>")
ACTIVATION_BACKWARD = Kernel(
    "aten::gelu_backward", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl>"
)
EMBEDDING = Kernel("aten::embedding", "void at::native::vectorized_gather_kernel<16, long>")
LOSS = Kernel("aten::cross_entropy_loss", "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>")
OPTIMIZER = Kernel(
    "aten::_fused_adamw_", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
)
CLEAR = Kernel("aten::zero_", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>")
TO_DEVICE = Kernel("aten::copy_", "Memcpy HtoD (Pinned -> Device)", MEMORY)
TO_HOST = Kernel("aten::_local_scalar_dense", "Memcpy DtoH (Device -> Pinned)", MEMORY)

NCCL = {
    "all_reduce": ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "allreduce", "all_reduce"),
    "all_gather": ("ncclDevKernel_AllGather_RING_LL", "_allgather_base", "_all_gather_base"),
    "reduce_scatter": ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base", "_reduce_scatter_base"),
    "send": ("ncclDevKernel_SendRecv", "send", "send"),
    "recv": ("ncclDevKernel_SendRecv", "recv", "recv"),
}
"""Operation -> the kernel's name, `Collective name`, and what follows `nccl:` in the annotation."""
NCCL_ARGUMENTS = "(ncclDevKernelArgsStorage<4096ul>)"

DATA_LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
GARBAGE = "Python GC generation=2"
OPTIMIZER_STEP = "Optimizer.step#AdamW.step"
STREAM_SYNC, DEVICE_SYNC = "cudaStreamSynchronize", "cudaDeviceSynchronize"
