#include "math/cpu/bf16_gradient_plan.h"

#include <algorithm>

namespace crema::bf16_gradient {
namespace {

constexpr int64_t kMostPlaces = 256;  // of a chunk: both operands fit the first-level cache
constexpr int64_t kSlabTiles = 256;   // 1 KiB of sums each
constexpr int64_t kLeastUnits = 8;    // of work, to be divided among threads
constexpr int64_t kLine = 32;         // elements of a cache line

// Returns an odd number of cache lines, so that channels do not fall into the same cache sets.
int64_t OddLines(int64_t elements) { return (DivideUp(elements, kLine) | 1) * kLine; }

// Returns half as many blocks, rounded to whole pairs, as products take two.
int64_t Halved(int64_t blocks) { return RoundUp(DivideUp(blocks, 2), 2); }

}  // namespace

Taps::Taps(const BlockedConvShape::Axis& a) : axis(a) {
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t offset = k * axis.dilation;
    const auto known = std::find(offsets.begin(), offsets.end(), offset % axis.stride);
    phase.push_back(known - offsets.begin());
    shift.push_back(offset / axis.stride);
    reach = std::max(reach, shift.back());
    if (known == offsets.end()) offsets.push_back(offset % axis.stride);
  }
}

int64_t Taps::Pitch() const {
  const int64_t seen = axis.out + reach;  // places of a line that windows read
  int64_t pitch = axis.out;
  for (const int64_t offset : offsets) {
    const int64_t padding = DivideUp(std::max<int64_t>(0, axis.pad - offset), axis.stride);
    const int64_t room = axis.in - 1 + axis.pad - offset;
    const int64_t end = room < 0 ? 0 : room / axis.stride + 1;  // of the pixels
    pitch = std::max({pitch, std::min(end, seen), seen - padding});
  }
  return pitch;
}

Plan::Plan(const BlockedConvShape& s)
    : shape(s),
      h(s.h),
      w(s.w),
      pitch(w.Pitch()),
      from_blocks(DivideUp(Inputs(), kLanes)),
      to_blocks(DivideUp(Outputs(), kLanes)),
      from(from_blocks),
      to(to_blocks) {
  // Windows of one line never reach the next image.
  const bool whole = h.reach == 0;
  runs = whole ? 1 : s.batch;
  const int64_t lines = (whole ? s.batch : 1) * s.h.out;
  run_places = lines == 0 ? 0 : lines * pitch - (pitch - s.w.out);
  const int64_t least_chunks = std::max<int64_t>(1, DivideUp(run_places, kMostPlaces));
  chunk = RoundUp(std::max<int64_t>(1, DivideUp(run_places, least_chunks)), kPlaces);
  run_chunks = DivideUp(run_places, chunk);
  input_row = OddLines(chunk + h.reach * pitch + w.reach);
  while (from * to * Filter() > kSlabTiles && (from > 2 || to > 2)) {
    int64_t& larger = from > to ? from : to;
    larger = Halved(larger);
  }
  from_slabs = DivideUp(from_blocks, from);
  to_slabs = DivideUp(to_blocks, to);
  parts = std::clamp<int64_t>(DivideUp(kLeastUnits, Slabs()), 1, std::max<int64_t>(1, Chunks()));
}

}  // namespace crema::bf16_gradient
