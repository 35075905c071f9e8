// GridSample: the elements that a point of the grid reads. See grid_sample.cc.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "layers/as_double.h"
#include "layers/sampling/resample_taps.h"

namespace crema {

// One coordinate, in elements, and its derivative by the number in the grid.
struct GridPlace {
  double place;
  double slope;
};

// Returns the mirror image of a coordinate outside [least, most], as often as needed.
CREMA_HOST_DEVICE inline GridPlace Reflected(GridPlace at, double least, double most) {
  const double range = most - least;
  if (at.place >= least && at.place <= most) return at;
  if (range <= 0) return {least, 0};
  const bool before = at.place < least;
  const double beyond = before ? least - at.place : at.place - most;
  const double round = std::fmod(beyond, 2 * range);  // there and back
  const bool even = round < range;
  const double rest = even ? round : round - range;
  const double place = before == even ? least + rest : most - rest;
  return {place, even ? -at.slope : at.slope};
}

// Elements of one plane, with their weights. The output is the sum of weight * element.
struct GridTaps {
  static constexpr int kMost = 16;
  static constexpr int kAxes = 3;
  int count = 0;
  int64_t offset[kMost];
  double weight[kMost];
  double slope[kMost][kAxes];  // derivative of the weight by each number in the grid
};

struct GridSampling {
  GridSampling(const Layer& layer, const Shape& x, const Shape& grid)
      : interpolation(layer.param().grid_sample_param().interpolation()),
        padding(layer.param().grid_sample_param().padding()),
        align_corners(layer.param().grid_sample_param().align_corners()),
        axes(x.axes() - 2),
        samples(x[0]),
        channels(x[1]),
        in(x.count(2)),
        out(grid.count(1, grid.axes() - 1)),
        taps(interpolation == GridSampleParameter::NEAREST  ? 1
             : interpolation == GridSampleParameter::LINEAR ? 2
                                                            : 4) {
    for (int a = 0; a < axes; ++a) size[a] = x[a + 2];
  }

  // Linear interpolation of planes of two axes, with zeros outside.
  GridSampling(int64_t of_samples, int64_t of_channels, int64_t height, int64_t width,
               int64_t points)
      : interpolation(GridSampleParameter::LINEAR),
        padding(GridSampleParameter::ZEROS),
        align_corners(false),
        axes(2),
        samples(of_samples),
        channels(of_channels),
        in(height * width),
        out(points),
        taps(2),
        size{height, width, 0} {}

  // Returns the number of taps of a point.
  CREMA_HOST_DEVICE int MostTaps() const {
    int product = 1;
    for (int a = 0; a < axes; ++a) product *= taps;
    return product;
  }

  // Returns the number of taps of all points.
  int64_t TapCount() const { return samples * out * MostTaps(); }

  // Returns the place of a number of the grid on an axis.
  CREMA_HOST_DEVICE GridPlace Place(int a, double number) const {
    const auto n = static_cast<double>(size[a]);
    GridPlace at = align_corners ? GridPlace{(number + 1) / 2 * (n - 1), (n - 1) / 2}
                                 : GridPlace{((number + 1) * n - 1) / 2, n / 2};
    if (interpolation == GridSampleParameter::NEAREST) at = {std::rint(at.place), 0};
    const double least = align_corners ? 0 : -0.5, most = n - 1 - least;
    if (!(at.place < least || at.place > most)) return at;
    if (padding == GridSampleParameter::REFLECTION) return Reflected(at, least, most);
    if (padding == GridSampleParameter::BORDER) return {at.place < least ? 0 : n - 1, 0};
    return Near(a, at);
  }

  // Returns a place far outside as one that is near, where no tap is inside either.
  CREMA_HOST_DEVICE GridPlace Near(int a, GridPlace at) const {
    const auto n = static_cast<double>(size[a]);
    if (!(at.place < -3 || at.place > n + 2)) return at;
    return {at.place < 0 ? -3 : n + 2, 0};
  }

  // Returns the element of an axis at any position; -1 for zero.
  CREMA_HOST_DEVICE int64_t Element(int a, int64_t position) const {
    if (position >= 0 && position < size[a]) return position;
    if (padding == GridSampleParameter::ZEROS) return -1;
    const int64_t last = size[a] - 1;
    if (padding == GridSampleParameter::REFLECTION) {
      const double least = align_corners ? 0 : -0.5;
      position = static_cast<int64_t>(
          Reflected({static_cast<double>(position), 0}, least, static_cast<double>(last) - least)
              .place);
    }
    return position < 0 ? 0 : position > last ? last : position;
  }

  // Sets the weight of tap t at the fraction of its place, and its derivative.
  CREMA_HOST_DEVICE void Weigh(int t, double fraction, double* weight, double* slope) const {
    constexpr double a = -0.75;
    *weight = fraction == fraction ? 1 : fraction;  // NaN stays
    *slope = 0;
    if (taps == 2) {
      *weight = t == 0 ? 1 - fraction : fraction;
      *slope = t == 0 ? -1 : 1;
    } else if (taps == 4) {
      const double from = fraction - (t - 1), d = std::fabs(from);
      *weight = CubicWeight(a, from);
      *slope = d <= 1 ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a;
      if (from < 0) *slope = -*slope;
    }
  }

  // Returns the taps of a point, whose numbers are those of the last axis of x first.
  template <typename T>
  CREMA_HOST_DEVICE GridTaps TapsAt(const T* point) const {
    GridPlace places[GridTaps::kAxes] = {};
    for (int a = 0; a < axes; ++a) places[a] = Place(a, AsDouble(point[axes - 1 - a]));
    return TapsOf(places);
  }

  // Returns the taps of a place on each axis, which is NaN, or near the plane (see Near).
  CREMA_HOST_DEVICE GridTaps TapsOf(const GridPlace (&places)[GridTaps::kAxes]) const {
    GridTaps all;
    double weights[GridTaps::kAxes][4], slopes[GridTaps::kAxes][4];
    int64_t elements[GridTaps::kAxes][4];
    for (int a = 0; a < axes; ++a) {
      const GridPlace at = places[a];
      const double base = at.place == at.place ? std::floor(at.place) : 0;
      for (int t = 0; t < taps; ++t) {
        Weigh(t, at.place - base, &weights[a][t], &slopes[a][t]);
        slopes[a][t] *= at.slope;
        elements[a][t] = Element(a, static_cast<int64_t>(base) + t - (taps == 4 ? 1 : 0));
      }
    }
    for (int tap = 0; tap < MostTaps(); ++tap) Add(tap, elements, weights, slopes, &all);
    return all;
  }

  GridSampleParameter::Interpolation interpolation;
  GridSampleParameter::Padding padding;
  bool align_corners;
  int axes;  // spatial ones
  int64_t samples, channels;
  int64_t in, out;  // elements of a plane, and points of a sample
  int taps;         // of one axis
  int64_t size[GridTaps::kAxes]{};

 private:
  // Adds the tap that is number `tap` of all combinations, unless it is zero.
  CREMA_HOST_DEVICE void Add(int tap, const int64_t (&elements)[GridTaps::kAxes][4],
                             const double (&weights)[GridTaps::kAxes][4],
                             const double (&slopes)[GridTaps::kAxes][4], GridTaps* all) const {
    const int k = all->count;
    int64_t offset = 0, stride = 1;
    double weight = 1;
    for (int b = 0; b < axes; ++b) all->slope[k][b] = 1;
    for (int a = axes - 1; a >= 0; --a) {
      const int t = tap % taps;
      tap /= taps;
      if (elements[a][t] < 0) return;
      offset += elements[a][t] * stride;
      stride *= size[a];
      weight *= weights[a][t];
      for (int b = 0; b < axes; ++b) {
        // Number b of the grid is for axis axes - 1 - b.
        all->slope[k][b] *= b == axes - 1 - a ? slopes[a][t] : weights[a][t];
      }
    }
    all->offset[k] = offset;
    all->weight[k] = weight;
    ++all->count;
  }
};

// The points of a grid of T, at which functions of grid_points.h and grid_points.cuh sample. Other
// layers have points of their own, with the same members.
template <typename T>
struct GridPoints {
  CREMA_HOST_DEVICE GridTaps TapsAt(int64_t at) const { return s.TapsAt(grid + at * s.axes); }

  GridSampling s;
  const T* grid;
};

}  // namespace crema
