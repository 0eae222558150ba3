"""Names as ROCm has them: calls of HIP, products of Tensile, and attention of AOTriton."""

_PRODUCTS = {
    "nvjet_qqtst": "Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x128_MI16x16x1_SN",
    "nvjet": "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN",
    "ampere_sgemm": "Cijk_Alik_Bljk_SB_Bias_HAS_SAV_MT128x128x16_MI32x32x1_SN",
}
_ATTENTION = {"pytorch_flash::flash_fwd": "attn_fwd.kd", "pytorch_flash::flash_bwd": "bwd_kernel_dk_dv.kd"}
_LAUNCHES = {"cudaLaunchKernelExC": "hipExtModuleLaunchKernel", "cudaLaunchKernel": "hipLaunchKernel"}


def as_rocm(name: str) -> str:
    """The name of a call or a kernel; torch's own kernels, RCCL's and operators have the same names."""
    if name.startswith("cuda"):
        return _LAUNCHES.get(name, name.replace("cuda", "hip", 1))
    if name.startswith("nvjet") and "_qqtst_" in name:
        return _PRODUCTS["nvjet_qqtst"]
    found = (new for old, new in _PRODUCTS.items() if name.startswith(old))
    return next(found, next((new for old, new in _ATTENTION.items() if old in name), name))
