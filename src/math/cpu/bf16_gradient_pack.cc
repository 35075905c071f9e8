#include <algorithm>

#include "math/cpu/bf16_gradient_plan.h"

#if defined(__x86_64__)
#if !defined(__clang__)
// GCC 12 warns about values that its own intrinsics leave undefined (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace crema::bf16_gradient {
namespace {

// Visits the lines of a run: visit(image, line, first, count, index of the first place).
template <typename Visit>
void ForLines(const Plan& p, int64_t run, int64_t begin, int64_t count, Visit&& visit) {
  const bool whole = p.h.reach == 0;  // a run of all images
  for (int64_t i = 0; i < count;) {
    const int64_t line = (begin + i) / p.pitch, first = (begin + i) % p.pitch;
    const int64_t places = std::min(p.pitch - first, count - i);
    const int64_t image = whole ? line / p.shape.h.out : run;
    visit(image, whole ? line % p.shape.h.out : line, first, places, i);
    i += places;
  }
}

bool IsInside(int64_t coordinate, int64_t size) { return coordinate >= 0 && coordinate < size; }

int64_t BlocksOf(int64_t channels) { return DivideUp(channels, kLanes); }

}  // namespace

void FindInputs(const Plan& p, int64_t run, int64_t phase, int64_t begin, int64_t count,
                int64_t* places) {
  const BlockedConvShape& s = p.shape;
  const auto columns = static_cast<int64_t>(p.w.offsets.size());
  const int64_t image_size = BlocksOf(s.in_channels) * s.h.in * s.w.in;
  ForLines(p, run, begin, count,
           [&](int64_t image, int64_t line, int64_t first, int64_t line_places, int64_t index) {
             const int64_t y = p.h.InputAt(phase / columns, line);
             const bool inside = image < s.batch && IsInside(y, s.h.in);
             const int64_t start = image * image_size + y * s.w.in;
             for (int64_t i = 0; i < line_places; ++i) {
               const int64_t x = p.w.InputAt(phase % columns, first + i);
               places[index + i] = inside && IsInside(x, s.w.in) ? (start + x) * kLanes : kNowhere;
             }
           });
}

void FindGradients(const Plan& p, int64_t run, int64_t begin, int64_t count, int64_t* places) {
  const BlockedConvShape& s = p.shape;
  const int64_t image_size = BlocksOf(s.out_channels) * s.h.out * s.w.out;
  ForLines(p, run, begin, count,
           [&](int64_t image, int64_t line, int64_t first, int64_t line_places, int64_t index) {
             const bool inside = image < s.batch && line < s.h.out;
             const int64_t start = image * image_size + line * s.w.out;
             for (int64_t i = 0; i < line_places; ++i) {
               const int64_t x = first + i;
               places[index + i] = inside && x < s.w.out ? (start + x) * kLanes : kNowhere;
             }
           });
}

#if defined(__x86_64__)

#define CREMA_AVX512_WORDS [[gnu::target("avx512f,avx512bw")]]

namespace {

alignas(64) constexpr BFloat16 kZeros[kLanes] = {};

[[gnu::always_inline]] inline const BFloat16* PixelAt(const BFloat16* block, int64_t place) {
  return place == kNowhere ? kZeros : block + place;
}

CREMA_AVX512_WORDS [[gnu::always_inline]] inline __m512i SideBySide(const BFloat16* low,
                                                                    const BFloat16* high) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low));
  const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high));
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

// Transposes 8 words in each quarter of the 8 registers.
CREMA_AVX512_WORDS [[gnu::always_inline]] inline void TransposeQuarters(__m512i (&r)[8]) {
  __m512i a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm512_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi32(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi32(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = _mm512_unpacklo_epi64(b[i], b[i + 4]);
    r[2 * i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 4]);
  }
}

// Loads pixels i and i + 16 of eight, side by side.
CREMA_AVX512_WORDS [[gnu::always_inline]] inline void LoadPixels(const BFloat16* block,
                                                                 const int64_t* places,
                                                                 __m512i (&r)[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const BFloat16* low = PixelAt(block, places[i]);
    const BFloat16* high = PixelAt(block, places[i + 16]);
    r[i] = SideBySide(low, high);
  }
}

CREMA_AVX512_WORDS void Transpose32(const BFloat16* block, const int64_t* places, int64_t row,
                                    BFloat16* to) {
  __m512i near[8], far[8];  // pixels 0 to 7 and 16 to 23; 8 to 15 and 24 to 31
  LoadPixels(block, places, near);
  LoadPixels(block, places + 8, far);
  TransposeQuarters(near);
  TransposeQuarters(far);
  // Quarters of channels c and c + 8 alternate in both.
  const __m512i first = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
  const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
#pragma GCC unroll 8
  for (int c = 0; c < 8; ++c) {
    _mm512_storeu_si512(to + c * row, _mm512_permutex2var_epi64(near[c], first, far[c]));
    _mm512_storeu_si512(to + (c + 8) * row, _mm512_permutex2var_epi64(near[c], second, far[c]));
  }
}

}  // namespace

CREMA_AVX512_WORDS void PackInputs(const BFloat16* block, const int64_t* places, int64_t count,
                                   int64_t row, BFloat16* to) {
  for (int64_t i = 0; i < count; i += kPlaces) Transpose32(block, places + i, row, to + i);
}

CREMA_AVX512_WORDS void PackGradients(const BFloat16* block, const int64_t* places, int64_t count,
                                      BFloat16* to) {
  alignas(64) constexpr uint16_t kPairs[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i pairs = _mm512_load_si512(kPairs);
  for (int64_t i = 0; i < count; i += 2) {
    const BFloat16* even = PixelAt(block, places[i]);
    const BFloat16* odd = PixelAt(block, places[i + 1]);
    const __m512i words = _mm512_permutexvar_epi16(pairs, SideBySide(even, odd));
    _mm512_storeu_si512(to + i * kLanes, words);
  }
}

#else

void PackInputs(const BFloat16*, const int64_t*, int64_t, int64_t, BFloat16*) {}
void PackGradients(const BFloat16*, const int64_t*, int64_t, BFloat16*) {}

#endif

namespace {

// One tile by filter place, `step` elements apart; to[output * row + input * filter + place].
struct FinishedTile {
  int64_t inputs, outputs;  // that exist
  int64_t filter, step;
  const float* sums;
  float* to;
  int64_t row;

  bool IsWholePoint() const { return filter == 1 && inputs == kLanes && outputs == kLanes; }
};

void AddTile(const FinishedTile& t) {
  for (int64_t o = 0; o < t.outputs; ++o) {
    float* to = t.to + o * t.row;
    for (int64_t c = 0; c < t.inputs; ++c, to += t.filter) {
      const float* sum = t.sums + c * kLanes + o;
      for (int64_t k = 0; k < t.filter; ++k) to[k] += sum[k * t.step];
    }
  }
}

#if defined(__x86_64__)

// Interleaves the halves of the rows: to[2 * i] and to[2 * i + 1] are rows i and i + 8 with
// alternating elements.
[[gnu::target("avx512f"), gnu::always_inline]] inline void Interleave(const __m512 (&from)[kLanes],
                                                                      __m512 (&to)[kLanes]) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high =
      _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
#pragma GCC unroll 8
  for (int i = 0; i < kLanes / 2; ++i) {
    to[2 * i] = _mm512_permutex2var_ps(from[i], low, from[i + 8]);
    to[2 * i + 1] = _mm512_permutex2var_ps(from[i], high, from[i + 8]);
  }
}

// Adds a whole tile of filters with one place.
[[gnu::target("avx512f")]] void AddPointTile(const float* sums, float* to, int64_t row) {
  __m512 a[kLanes], b[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) a[i] = _mm512_loadu_ps(sums + i * kLanes);
  // Interleaving rows i and i + 8 four times transposes the tile.
  for (int stage = 0; stage < 2; ++stage) {
    Interleave(a, b);
    Interleave(b, a);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    float* line = to + i * row;
    _mm512_storeu_ps(line, _mm512_add_ps(_mm512_loadu_ps(line), a[i]));
  }
}

#endif

}  // namespace

void FinishSlab(const Plan& p, const Slab& slab, int64_t parts, float* sums, float* dweight) {
  for (int64_t part = 1; part < parts; ++part) {
    const float* more = sums + part * p.Sums();
    for (int64_t i = 0; i < p.Sums(); ++i) sums[i] += more[i];
  }
  const int64_t row = p.Inputs() * p.Filter();
  for (int64_t i = 0; i < slab.to_count; ++i) {
    const int64_t output = (slab.to + i) * kLanes;
    for (int64_t j = 0; j < slab.from_count; ++j) {
      const int64_t input = (slab.from + j) * kLanes;
      const FinishedTile tile{
          .inputs = std::min(kLanes, p.Inputs() - input),
          .outputs = std::min(kLanes, p.Outputs() - output),
          .filter = p.Filter(),
          .step = slab.from_count * slab.to_count * kTile,
          .sums = sums + (j * slab.to_count + i) * kTile,
          .to = dweight + (slab.group * p.Outputs() + output) * row + input * p.Filter(),
          .row = row};
      tile.IsWholePoint() ? AddPointTile(tile.sums, tile.to, row) : AddTile(tile);
    }
  }
}

}  // namespace crema::bf16_gradient
