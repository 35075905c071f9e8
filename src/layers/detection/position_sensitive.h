// Samples of the bins of PSROIAlign and DeformablePSROIPooling; see position_sensitive.cc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/layer.h"
#include "layers/as_double.h"
#include "layers/detection/region_bins.h"
#include "math/boxes.h"

namespace crema {

// Returns the elements of a sample. Before the first element it does not depend on the place.
CREMA_HOST_DEVICE inline AxisSample ClampedSample(double at, int64_t map_size) {
  return at <= 0 ? AxisSample{0, 0, 0} : SampleAt(at, map_size);
}

// Samples of one bin along one axis. Those outside [low, high] do not count.
struct PlaceSamples {
  double first;  // place of the first sample
  double step;
  int64_t count;  // samples in all
  double low, high;
  double length;  // change of the places by an offset of 1

  CREMA_HOST_DEVICE double At(int64_t k) const { return first + static_cast<double>(k) * step; }
  // Written so that NaN counts as outside.
  CREMA_HOST_DEVICE bool Counts(int64_t k) const { return At(k) >= low && At(k) <= high; }
  CREMA_HOST_DEVICE int64_t Counted() const {
    int64_t counted = 0;
    for (int64_t k = 0; k < count; ++k) counted += Counts(k) ? 1 : 0;
    return counted;
  }
  // Returns the sum of the weights of an element in the samples.
  CREMA_HOST_DEVICE double WeightOf(int64_t element, int64_t map_size) const {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      if (!Counts(k)) continue;
      const AxisSample sample = ClampedSample(At(k), map_size);
      if (sample.low == element) sum += 1 - sample.high_weight;
      if (sample.high == element) sum += sample.high_weight;
    }
    return sum;
  }
};

// Parameters of both layers. A cell has channels of its own; bins read those of the cell they are
// in.
struct PositionSensitive {
  PositionSensitive(const Layer& layer, const Shape& map, const Shape& offsets);

  // Returns the cell and the place of the offset of a bin, on one axis.
  CREMA_HOST_DEVICE int64_t Cell(int64_t bin) const { return bin * cells / bins; }
  CREMA_HOST_DEVICE int64_t Part(int64_t bin) const { return bin * parts / bins; }

  // Returns the samples of a bin of a region that reaches from `low` to `high` (pixels).
  CREMA_HOST_DEVICE PlaceSamples SamplesOf(double low, double high, int64_t bin, double offset,
                                           int64_t map_size) const {
    const auto last = static_cast<double>(std::max<int64_t>(map_size - 1, 0));
    if (align) {
      const double start = low * scale;
      const double size = std::max((high + 1) * scale - start, 0.1) / static_cast<double>(bins);
      const double begin = start + static_cast<double>(bin) * size;
      const double from = std::clamp(begin, 0.0, last);
      const double to = std::clamp(begin + size, 0.0, last);
      const double step = size / static_cast<double>(samples + 1);
      // The end of a bin belongs to the next one.
      return {from + step, step, samples, 0, std::nextafter(to, -1.0), 0};
    }
    const double start = std::round(low) * scale - 0.5;
    const double length = std::max((std::round(high) + 1) * scale - 0.5 - start, 0.1);
    const double size = length / static_cast<double>(bins);
    return {start + static_cast<double>(bin) * size + offset * trans_std * length,
            size / static_cast<double>(samples),
            samples,
            -0.5,
            last + 0.5,
            trans_std * length};
  }

  // Returns the offset down (1) or to the right (0) of a bin of channel c of region r.
  template <typename T>
  CREMA_HOST_DEVICE double Offset(const T* offsets, int64_t r, int64_t c, int64_t row,
                                  int64_t column, int64_t down) const {
    if (offsets == nullptr) return 0;
    const int64_t plane = (r * classes + c / class_channels) * 2 + down;
    return AsDouble(offsets[(plane * parts + Part(row)) * parts + Part(column)]);
  }

  // Returns the channel of the map that a bin of channel c reads.
  CREMA_HOST_DEVICE int64_t MapChannel(int64_t c, int64_t row, int64_t column) const {
    return (c * cells + Cell(row)) * cells + Cell(column);
  }

  bool align;
  double scale;
  double trans_std = 0;
  int64_t channels;  // of the output
  int64_t cells;     // per side
  int64_t bins;      // per side
  int64_t parts;     // offsets per side
  int64_t samples;   // per side of a bin
  int64_t classes = 1, class_channels = 1;
  int64_t height, width;  // of the map
};

// The samples of one bin of one channel and region.
struct BinSamples {
  // `box` holds x1, y1, x2 and y2.
  template <typename T, typename R>
  CREMA_HOST_DEVICE BinSamples(const PositionSensitive& p, const R* box, const T* offsets,
                               int64_t r, int64_t c, int64_t row, int64_t column)
      : down(p.SamplesOf(AsDouble(box[1]), AsDouble(box[3]), row,
                         p.Offset(offsets, r, c, row, column, 1), p.height)),
        across(p.SamplesOf(AsDouble(box[0]), AsDouble(box[2]), column,
                           p.Offset(offsets, r, c, row, column, 0), p.width)),
        height(p.height),
        width(p.width),
        // PSROIAlign divides by all samples.
        divisor(p.align ? p.samples * p.samples : down.Counted() * across.Counted()) {}

  // Calls body(rows, columns), the elements of each sample that counts.
  template <typename Body>
  CREMA_HOST_DEVICE void ForEach(const Body& body) const {
    for (int64_t i = 0; i < down.count; ++i) {
      if (!down.Counts(i)) continue;
      const AxisSample rows = ClampedSample(down.At(i), height);
      for (int64_t j = 0; j < across.count; ++j) {
        if (across.Counts(j)) body(rows, ClampedSample(across.At(j), width));
      }
    }
  }

  // Returns the mean of the samples; NaN for an offset that is NaN.
  template <typename T>
  CREMA_HOST_DEVICE double Mean(const T* plane) const {
    double sum = 0;
    ForEach([&](const AxisSample& rows, const AxisSample& columns) {
      const double low = Between(plane + rows.low * width, columns);
      const double high = Between(plane + rows.high * width, columns);
      sum += low + (high - low) * rows.high_weight;
    });
    if (down.first != down.first || across.first != across.first) return down.first + across.first;
    return divisor == 0 ? 0 : sum / static_cast<double>(divisor);
  }

  // Returns the derivative of the mean by the offset down (1) or to the right (0).
  template <typename T>
  CREMA_HOST_DEVICE double Slope(const T* plane, int64_t along) const {
    double sum = 0;
    ForEach([&](const AxisSample& rows, const AxisSample& columns) {
      const T *low = plane + rows.low * width, *high = plane + rows.high * width;
      if (along == 1) {
        sum += Between(high, columns) - Between(low, columns);
      } else {
        const double left = Value(low, columns.low) * (1 - rows.high_weight) +
                            Value(high, columns.low) * rows.high_weight;
        const double right = Value(low, columns.high) * (1 - rows.high_weight) +
                             Value(high, columns.high) * rows.high_weight;
        sum += right - left;
      }
    });
    const double length = along == 1 ? down.length : across.length;
    return divisor == 0 ? 0 : sum * length / static_cast<double>(divisor);
  }

  // Returns the share of an element of the map in the mean.
  CREMA_HOST_DEVICE double Share(int64_t row, int64_t column) const {
    if (divisor == 0) return 0;
    const double weight = down.WeightOf(row, height);
    if (weight == 0) return 0;
    return weight * across.WeightOf(column, width) / static_cast<double>(divisor);
  }

  PlaceSamples down, across;
  int64_t height, width;
  int64_t divisor;

 private:
  template <typename T>
  CREMA_HOST_DEVICE static double Value(const T* line, int64_t at) {
    return AsDouble(line[at]);
  }
  template <typename T>
  CREMA_HOST_DEVICE static double Between(const T* line, const AxisSample& at) {
    const double low = Value(line, at.low);
    return low + (Value(line, at.high) - low) * at.high_weight;
  }
};

}  // namespace crema
