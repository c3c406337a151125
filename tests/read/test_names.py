"""Names as vendors and PyTorch spell them in public traces, sources and bug reports; none from our own lists."""

import pytest

from tracekit.read import names

COMM = [
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclKernel_AllReduce_TREE_LL128_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
    "nccldevkernel_allgather_ring_ll",
    "ncclSymDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_f32(ncclSymDevArgs)",
    "void ncclFunction_AllGather_RING_LL_Sum_int8_t()",
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork)",
    "void mscclpp::allreduce7<float>(float*, float*)",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
    "multimem_one_shot_all_reduce_kernel<float, 16, 8>",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void sglang::cross_device_reduce_2stage<half, 4>(sglang::RankData*)",
    "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>()",
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>()",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>(AllReduceParams)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, __half, 8>()",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot>()",
    "void exchange_all_to_all_kernel<float>()",
    "symm_mem_all_to_all_v_kernel",
    "void deep_ep::intranode::dispatch<8, 512, 8192>(int4*, float*)",
    "void deep_ep::internode_ll::combine<true, 7168, 10>(void*, void*)",
    "void deep_ep::intranode::notify_dispatch<8>(int const*, int*)",
    "oneccl_allreduce_large_kernel",
    "void ccl::reduce_scatter_kernel<float>()",
    "hcom_allReduce__481_2_1",
    "HcclAllreduce",
    "void nvshmemi_alltoall_kernel<int>()",
]
COMPUTE = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float*)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel>()",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>()",
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor>>()",
    "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>()",
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>::Policy600>()",
    "void cub::DeviceScanKernel<cub::DeviceScanPolicy<long>::Policy600>()",
    "void rocprim::detail::block_reduce_kernel<false, rocprim::default_config>()",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "Cijk_Ailk_Bjlk_HB_MT128x128x32_MI32x32x8x1_SN_1LDSB0",
    "triton_red_fused_sum_0",
    "triton_poi_fused_add_broadcast_1",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>()",
    "void fbgemm_gpu::permute_pooled_embs_kernel<float>()",
    "void vllm::moe::moe_align_block_size_kernel<int>()",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_nn_align8>()",
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>()",
    "void step::combine_partial_results<float>()",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>()",
    "void sync_batch_norm_gather_stats_kernel<float>()",
    "broadcast_gradient_args",
    "void at::native::dispatch_index_kernel<int>()",
]


def kind(category, name="x", extra=()):
    return names.kind(category, name, names.communication(extra))


@pytest.mark.parametrize("name", COMM)
def test_kernels_that_move_data_between_ranks(name):
    assert kind("kernel", name) == "comm"
    assert kind("Kernel", name.upper()) == "comm"


@pytest.mark.parametrize("name", COMPUTE)
def test_kernels_that_do_not(name):
    assert kind("kernel", name) == "compute"


def test_patterns_of_the_users_own():
    assert kind("kernel", "my_ring_exchange<8>") == "compute"
    assert kind("kernel", "my_ring_exchange<8>", ("RING_exchange",)) == "comm"
    assert kind("kernel", "ncclKernel_x", ("RING_exchange",)) == "comm"


def test_a_host_row_of_that_name_is_no_device_work():
    assert {kind(category, COMM[0]) for category in ("cpu_op", "cuda_runtime", "gpu_user_annotation", "")} <= {
        "operator", "runtime", "device_annotation", "other",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("category", "name", "expected"),
    [
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "memory"),
        ("gpu_memset", "Memset (Device)", "memory"),
        ("Memcpy", "Memcpy DtoH", "memory"),
        ("Memset", "Memset", "memory"),
        ("Kernel", "gemm", "compute"),
        ("mtia_ccp_events", "fused_op", "compute"),
        ("mtia_ccp_events", "event_wait", "stream_wait"),
        ("mtia_ccp_events", "event_record", "device_sync"),
        ("cuda_runtime", "cudaLaunchKernel", "runtime"),
        ("cuda_driver", "cuLaunchKernelEx", "runtime"),
        ("Runtime", "cudaLaunchKernel", "runtime"),
        ("hip_runtime", "hipExtModuleLaunchKernel", "runtime"),
        ("cuda_runtime", "hipLaunchKernel", "runtime"),
        ("xpu_runtime", "urEnqueueKernelLaunch", "runtime"),
        ("mtia_runtime", "runFunction", "runtime"),
        ("privateuse1_runtime", "launch", "runtime"),
        ("npu_runtime", "aclrtLaunchKernel", "runtime"),
        ("cuda_runtime", "cudaDeviceSynchronize", "synchronize"),
        ("cuda_runtime", "cudaStreamSynchronize", "synchronize"),
        ("cuda_runtime", "cudaEventSynchronize", "synchronize"),
        ("cuda_driver", "cuStreamSynchronize", "synchronize"),
        ("cuda_runtime", "hipDeviceSynchronize", "synchronize"),
        ("cuda_runtime", "hipStreamSynchronize", "synchronize"),
        ("npu_runtime", "aclrtSynchronizeStream", "synchronize"),
        ("cuda_runtime", "cudaMemcpy", "synchronize"),
        ("cuda_runtime", "cudaMemcpyAsync", "runtime"),
        ("cuda_runtime", "cudaStreamWaitEvent", "runtime"),
        ("cuda_runtime", "cudaEventQuery", "runtime"),
        ("cpu_op", "aten::mm", "operator"),
        ("Operator", "aten::mm", "operator"),
        ("user_annotation", "forward", "annotation"),
        ("user_annotation", "ProfilerStep#3", "annotation"),
        ("user_annotation", "nccl:all_reduce", "annotation"),
        ("python_function", "train.py(10): step", "python"),
        ("gpu_user_annotation", "ProfilerStep#3", "device_annotation"),
        ("cuda_sync", "Stream Sync", "device_sync"),
        ("cuda_sync", "Context Sync", "device_sync"),
        ("cuda_sync", "Event Sync", "device_sync"),
        ("cuda_sync", "Stream Wait Event", "stream_wait"),
        ("overhead", "Activity Buffer Request", "overhead"),
        ("Trace", "PyTorch Profiler (0)", "other"),
        ("", "", "other"),
        ("unheard of", "x", "other"),
    ],
)
def test_kinds(category, name, expected):
    assert kind(category, name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "torch/utils/data/dataloader.py(701): __next__",
        "data_loading",
        "get_batch",
    ],
)
def test_data_loading(name):
    category = "python_function" if ".py" in name else "user_annotation"
    assert kind(category, name) == "data_loading"


@pytest.mark.parametrize(
    ("category", "name"),
    [("user_annotation", "Python GC"), ("python_function", "<built-in function collect>"), ("cpu_op", "gc.collect")],
)
def test_garbage_collection(category, name):
    assert kind(category, name) == "garbage_collection"


@pytest.mark.parametrize(
    "name", ["aten::embedding", "Optimizer.step#Adam.step", "forward", "magic::data", "gcd_kernel", "aten::gcd"]
)
def test_other_annotations_are_neither(name):
    assert kind("user_annotation", name) == "annotation"


@pytest.mark.parametrize(
    ("category", "name", "number"),
    [
        ("user_annotation", "ProfilerStep#12", 12),
        ("cpu_op", "ProfilerStep#12", 12),
        ("Operator", "ProfilerStep#0", 0),
        ("gpu_user_annotation", "ProfilerStep#12", None),
        ("kernel", "ProfilerStep#12", None),
        ("user_annotation", "ProfilerStep#", None),
        ("user_annotation", "ProfilerStep#x", None),
        ("user_annotation", "ProfilerStep#1 and more", None),
        ("user_annotation", "my ProfilerStep#1", None),
        ("user_annotation", "ProfilerStep#" + "9" * 30, None),
    ],
)
def test_step_numbers(category, name, number):
    assert names.step_number(category, name) == number


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_all", "all_to_all"),
        ("all_to_allv", "all_to_all"),
        ("ALLTOALL_BASE", "all_to_all"),
        ("broadcast", "broadcast"),
        ("_broadcast_oop", "broadcast"),
        ("reduce", "reduce"),
        ("_reduce_oop", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("barrier", "barrier"),
        ("send", "send"),
        ("recv", "recv"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 1<-0", "recv"),
        ("nccl:coalesced", "sendrecv"),
        ("nccl:_all_gather_base", "all_gather"),
        ("gloo:all_reduce", "all_reduce"),
        ("gloo:send", "send"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"),
        ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "broadcast"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "sendrecv"),
        ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "unknown"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "all_reduce"),
        ("void deep_ep::intranode::dispatch<8, 512, 8192>(int4*, float*)", "all_to_all"),
        ("void deep_ep::internode_ll::combine<true, 7168, 10>(void*, void*)", "all_to_all"),
        ("hcom_allReduce__481_2_1", "all_reduce"),
        ("wait", "unknown"),
        ("", "unknown"),
    ],
)
def test_operations(name, operation):
    assert names.operation(name) == operation


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ("RING", "LL")),
        ("ncclDevKernel_AllReduce_Sum_f32_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)", ("TREE", "LL128")),
        ("ncclKernel_AllReduce_RING_SIMPLE_Sum_float(ncclWorkElem)", ("RING", "SIMPLE")),
        ("ncclDevKernel_AllReduce_Sum_f32_NVLS_SIMPLE(x)", ("NVLS", "SIMPLE")),
        ("ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE(x)", ("NVLS_TREE", "SIMPLE")),
        ("ncclDevKernel_AllReduce_Sum_f32_COLLNET_DIRECT_SIMPLE(x)", ("COLLNET_DIRECT", "SIMPLE")),
        ("nccldevkernel_allgather_ring_ll", ("RING", "LL")),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", (None, None)),
        ("ncclDevKernel_Generic(x)", (None, None)),
    ],
)
def test_algorithm_and_protocol(kernel, told):
    assert names.algorithm_protocol(kernel) == told


@pytest.mark.parametrize(
    ("texts", "direction"),
    [
        (["Memcpy HtoD (Pageable -> Device)"], "host_to_device"),
        (["Memcpy DtoH (Device -> Pinned)"], "device_to_host"),
        (["Memcpy DtoD (Device -> Device)"], "device_to_device"),
        (["Memcpy PtoP (Device -> Device)"], "peer_to_peer"),
        (["Memcpy HtoH (Pageable -> Pageable)"], "host_to_host"),
        (["CopyHostToDevice"], "host_to_device"),
        (["Memset (Device)"], "set"),
        (["Memcpy", "DtoH"], "device_to_host"),
        (["dma"], "unknown"),
    ],
)
def test_copy_directions(texts, direction):
    assert names.copy_direction(*texts) == direction


@pytest.mark.parametrize(
    ("op", "dtype", "elements", "size"),
    [
        ("all_reduce", "Float", (10, 10), 40),
        ("all_reduce", "BFloat16", (10, 10), 20),
        ("all_gather", "Half", (10, 80), 160),
        ("reduce_scatter", "Float", (80, 10), 320),
        ("all_to_all", "Long", (16, 24), 128),
        ("broadcast", "Byte", (5, 5), 5),
        ("send", "Float", (5, 0), 20),
        ("recv", "Float", (0, 5), 20),
        ("all_reduce", "Float", (None, 10), 40),
        ("all_reduce", "Float", (None, None), None),
        ("all_reduce", None, (10, 10), None),
        ("all_reduce", "of the future", (10, 10), None),
        ("all_reduce", "ComplexFloat", (10, 10), 80),
        ("all_reduce", "Float8_e4m3fn", (10, 10), 10),
    ],
)
def test_call_bytes(op, dtype, elements, size):
    assert names.call_bytes(op, dtype, *elements) == size
