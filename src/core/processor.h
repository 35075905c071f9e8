// Instructions that code chosen at run time may use.
#pragma once

namespace crema {

// Each includes those before it.
enum class ProcessorLevel {
  kBaseline,    // x86-64, and all other processors
  kAvx2,        // AVX2, FMA
  kAvx512,      // AVX-512 F, BW
  kAvx512BF16,  // VNNI, AVX512-BF16
  kAll,         // also tiles (AMX)
};

// Returns the level that the environment variable CREMA_CPU allows, for tests: baseline, avx2,
// avx512, avx512bf16; kAll if it is not set. Throws kInvalidArgument for another name.
ProcessorLevel AllowedLevel();

// Instructions that the processor has and CREMA_CPU allows.
struct ProcessorFeatures {
  bool avx2 = false;    // and FMA
  bool avx512 = false;  // F and BW
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
};

// Thread safety: any.
const ProcessorFeatures& Processor();

}  // namespace crema
