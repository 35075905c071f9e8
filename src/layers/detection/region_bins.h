// Arithmetic of pooling over regions, shared by CPU and GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace crema {

// Returns true if a corner is at most 10^6 positions from the map's origin. Written so that NaN
// fails.
CREMA_HOST_DEVICE inline bool CornerFits(double value, double scale) {
  return std::fabs(value * scale) <= 1e6;
}

// Returns a b + c, rounded twice on GPUs too: bin limits are rounded to integers, so that the last
// bit matters.
CREMA_HOST_DEVICE inline double TimesPlus(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

// Positions [begin, end) of one axis.
struct BinRange {
  int64_t begin;
  int64_t end;
  CREMA_HOST_DEVICE int64_t size() const { return end > begin ? end - begin : 0; }
  CREMA_HOST_DEVICE bool Has(int64_t place) const { return begin <= place && place < end; }
};

// Returns the positions that bin `bin` covers: bins have length `size` and begin at `start`. Limits
// are rounded outwards and clipped to 0..map_size.
CREMA_HOST_DEVICE inline BinRange BinOf(double start, double size, int64_t bin, int64_t map_size) {
  const double low = std::floor(TimesPlus(static_cast<double>(bin), size, start));
  const double high = std::ceil(TimesPlus(static_cast<double>(bin + 1), size, start));
  const auto last = static_cast<double>(map_size);
  return {static_cast<int64_t>(std::clamp(low, 0.0, last)),
          static_cast<int64_t>(std::clamp(high, 0.0, last))};
}

// One axis of a region, in positions of the map: the start of its first bin, and the size of a bin.
struct RegionSide {
  double start;
  double bin;
};

// Corners rounded to positions; the last position belongs to the region; at least one position
// long.
CREMA_HOST_DEVICE inline RegionSide WholeSide(double low, double high, double scale, int64_t bins) {
  const double start = std::round(low * scale);
  const double size = std::round(high * scale) - start + 1;
  return {start, std::max(size, 1.0) / static_cast<double>(bins)};
}

// Corners rounded to pixels; the last pixel belongs to the region; at least 0.1 positions long.
CREMA_HOST_DEVICE inline RegionSide PixelSide(double low, double high, double scale, int64_t bins) {
  const double start = std::round(low) * scale;
  const double size = TimesPlus(std::round(high) + 1, scale, -start);
  return {start, std::max(size, 0.1) / static_cast<double>(bins)};
}

// Corners without rounding; at least one position long. If `aligned`, position i has coordinate
// i + 0.5, and regions may have any length.
CREMA_HOST_DEVICE inline RegionSide ExactSide(double low, double high, double scale, int64_t bins,
                                              bool aligned) {
  const double size = (high - low) * scale;
  if (!aligned) return {low * scale, std::max(size, 1.0) / static_cast<double>(bins)};
  return {low * scale - 0.5, size / static_cast<double>(bins)};
}

// One sample along one axis, interpolated between two positions.
struct AxisSample {
  int64_t low;
  int64_t high;
  double high_weight;
};

CREMA_HOST_DEVICE inline AxisSample SampleAt(double at, int64_t map_size) {
  const double inside = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(inside);
  if (low >= map_size - 1) return {map_size - 1, map_size - 1, 0};
  return {low, low + 1, inside - static_cast<double>(low)};
}

// Samples of one bin along one axis.
struct AxisSamples {
  double first = 0;  // coordinate of the first sample
  double step = 1;
  int64_t count = 1;  // includes samples outside the map
  int64_t begin = 0;  // samples that can be on the map: [begin, end)
  int64_t end = 1;

  CREMA_HOST_DEVICE double At(int64_t i) const {
    return TimesPlus(static_cast<double>(i), step, first);
  }
  // Sets begin and end so that [begin, end) includes all samples within [low, high].
  CREMA_HOST_DEVICE void Limit(double low, double high) {
    begin = 0;
    end = count;
    if (!(step > 0)) return;
    const auto most = static_cast<double>(count);
    begin = static_cast<int64_t>(std::clamp(std::floor((low - first) / step), 0.0, most));
    end = static_cast<int64_t>(std::clamp(std::ceil((high - first) / step) + 1, 0.0, most));
  }
};

// Returns false for a sample more than one position outside the map, which counts as 0.
CREMA_HOST_DEVICE inline bool OnMap(double at, int64_t map_size) {
  return !(at < -1 || at > static_cast<double>(map_size));
}

// Returns `ratio` samples of a bin; 0: one for each position, and none if the bin has no size.
CREMA_HOST_DEVICE inline AxisSamples SamplesOf(const RegionSide& side, int64_t bin,
                                               int64_t map_size, int64_t ratio) {
  AxisSamples s;
  s.count = ratio > 0 ? ratio : static_cast<int64_t>(std::max(0.0, std::ceil(side.bin)));
  s.step = s.count > 0 ? side.bin / static_cast<double>(s.count) : 0;
  s.first = TimesPlus(static_cast<double>(bin), side.bin, side.start) + s.step / 2;
  s.Limit(-1, static_cast<double>(map_size));
  return s;
}

}  // namespace crema
