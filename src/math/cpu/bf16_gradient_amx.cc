// The products of the weight gradient by AMX.
#include "core/processor.h"
#include "math/cpu/bf16_gradient_driver.h"
#include "math/cpu/tile_products.h"

#if defined(CREMA_HAVE_AMX) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#endif

namespace crema::bf16_gradient {

#if defined(CREMA_HAVE_AMX) && defined(__linux__)

namespace {

// The intrinsics require tile numbers as literals, not as template constants.
struct AmxTiles {
  [[gnu::always_inline]] static void Configure(const TileConfig& config) {
    _tile_loadconfig(&config);
  }
  [[gnu::always_inline]] static void Release() { _tile_release(); }

  template <int kTile>
  [[gnu::always_inline]] static void Load(const void* memory, int64_t row_bytes) {
    // Earlier writes must be in memory: GCC does not know that the instruction reads it.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if constexpr (kTile == SumTile(0, 0)) _tile_loadd(0, memory, row_bytes);
    if constexpr (kTile == SumTile(0, 1)) _tile_loadd(1, memory, row_bytes);
    if constexpr (kTile == SumTile(1, 0)) _tile_loadd(2, memory, row_bytes);
    if constexpr (kTile == SumTile(1, 1)) _tile_loadd(3, memory, row_bytes);
    if constexpr (kTile == InputTile(0)) _tile_loadd(4, memory, row_bytes);
    if constexpr (kTile == InputTile(1)) _tile_loadd(5, memory, row_bytes);
    if constexpr (kTile == GradientTile(0)) _tile_loadd(6, memory, row_bytes);
    if constexpr (kTile == GradientTile(1)) _tile_loadd(7, memory, row_bytes);
  }

  template <int kTile>
  [[gnu::always_inline]] static void Store(void* memory, int64_t row_bytes) {
    if constexpr (kTile == SumTile(0, 0)) _tile_stored(0, memory, row_bytes);
    if constexpr (kTile == SumTile(0, 1)) _tile_stored(1, memory, row_bytes);
    if constexpr (kTile == SumTile(1, 0)) _tile_stored(2, memory, row_bytes);
    if constexpr (kTile == SumTile(1, 1)) _tile_stored(3, memory, row_bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  template <int kRow, int kColumn>
  [[gnu::always_inline]] static void Multiply() {
    if constexpr (kRow == 0 && kColumn == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRow == 0 && kColumn == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRow == 1 && kColumn == 0) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kRow == 1 && kColumn == 1) _tile_dpbf16ps(3, 5, 7);
  }
};

// From Intel's manual: CPUID.(7,0).EDX, and the bits of the state that Linux saves.
constexpr unsigned kAmxBF16 = 1U << 22, kAmxTile = 1U << 24, kSavesState = 1U << 27;
constexpr unsigned kTileState = 3U << 17;

unsigned SavedState() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Linux gives the 8 KiB of tiles to processes that request them (5.16 and later).
bool AskForTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool ProcessorHasTiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSavesState) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBF16) == 0 || (d & kAmxTile) == 0) return false;
  return (SavedState() & kTileState) == kTileState;
}

bool HasTiles() {
  static const bool has =
      AllowedLevel() == ProcessorLevel::kAll && ProcessorHasTiles() && AskForTiles();
  return has;
}

void TileGradient(const BlockedConvShape& shape, int threads, const BFloat16* x, const BFloat16* dy,
                  float* dweight, std::span<std::byte> scratch) {
  RunGradient<TileProducts<AmxTiles>>(shape, threads, x, dy, dweight, scratch);
}

#else

bool ProcessorHasTiles() { return false; }
bool HasTiles() { return false; }

void TileGradient(const BlockedConvShape&, int, const BFloat16*, const BFloat16*, float*,
                  std::span<std::byte>) {}

#endif

}  // namespace crema::bf16_gradient
