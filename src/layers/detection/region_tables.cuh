// Lookup tables of pooling over regions on GPUs: the positions of each bin and the bins of each
// position, by axis and region. Each pass fills them in its scratch memory. They are small compared
// to the channels, which all share them.
#pragma once

#include <limits>

#include "layers/detection/region_bins.h"
#include "layers/gpu_implementation.h"
#include "math/scratch.h"

namespace crema {

// Tables of one axis for all regions.
struct RegionAxis {
  int64_t bins = 0;
  int64_t map_size = 0;
  BinRange* places = nullptr;  // regions x bins: positions that the bin reads
  BinRange* owners = nullptr;  // regions x map_size: bins that read the position
  float* weights = nullptr;    // regions x bins x map_size; null means equal weights

  CREMA_HOST_DEVICE BinRange Places(int64_t region, int64_t bin) const {
    return places[region * bins + bin];
  }
  CREMA_HOST_DEVICE BinRange Owners(int64_t region, int64_t place) const {
    return owners[region * map_size + place];
  }
  CREMA_HOST_DEVICE const float* Weights(int64_t region, int64_t bin) const {
    return weights + (region * bins + bin) * map_size;
  }
};

struct RegionTables {
  int64_t regions = 0;
  int64_t images = 0;
  int64_t channels = 0;      // of the output
  int64_t* image = nullptr;  // indexed by region; -1 for a region that the CPU would reject
  RegionAxis rows = {};
  RegionAxis columns = {};

  CREMA_HOST_DEVICE int64_t Bins() const { return rows.bins * columns.bins; }
};

// Coordinates of an element of the output: region, bin and channel.
struct RegionBin {
  int64_t region, channel, row, column;
  CREMA_HOST_DEVICE RegionBin(const RegionTables& t, int64_t index)
      : region(index / t.Bins() / t.channels),
        channel(index / t.Bins() % t.channels),
        row(index / t.columns.bins % t.rows.bins),
        column(index % t.columns.bins) {}
};

// Coordinates of an element of the map.
struct MapPlace {
  int64_t image, channel, row, column;
  CREMA_HOST_DEVICE MapPlace(const RegionTables& t, int64_t channels, int64_t index)
      : image(index / t.columns.map_size / t.rows.map_size / channels),
        channel(index / t.columns.map_size / t.rows.map_size % channels),
        row(index / t.columns.map_size % t.rows.map_size),
        column(index % t.columns.map_size) {}
};

CREMA_HOST_DEVICE inline float NoRegion() { return std::numeric_limits<float>::quiet_NaN(); }

// Returns tables with the shapes of the map, the regions and the output, without memory.
inline RegionTables RegionTablesOf(const Shape& map, const Shape& regions, const Shape& out) {
  RegionTables t{.regions = regions[0], .images = map[0], .channels = out[1]};
  t.rows.bins = out[2];
  t.rows.map_size = map[2];
  t.columns.bins = out[3];
  t.columns.map_size = map[3];
  return t;
}

inline void CutRegionTables(ScratchCutter* cutter, bool weighted, RegionTables* t) {
  t->image = cutter->Take<int64_t>(t->regions);
  for (RegionAxis* axis : {&t->rows, &t->columns}) {
    axis->places = cutter->Take<BinRange>(t->regions * axis->bins);
    axis->owners = cutter->Take<BinRange>(t->regions * axis->map_size);
    if (weighted) axis->weights = cutter->Take<float>(t->regions * axis->bins * axis->map_size);
  }
}

inline size_t RegionTablesScratch(const OpDesc& query, bool weighted) {
  RegionTables t = RegionTablesOf(query.context.inputs[0].shape, query.context.inputs[1].shape,
                                  query.info.outputs[0].shape);
  return ScratchCutter::Booked([&](ScratchCutter* c) { CutRegionTables(c, weighted, &t); });
}

template <typename T>
static void FillImages(const CudaQueue& queue, const T* regions, double scale,
                       const RegionTables& t) {
  int64_t* image = t.image;
  const int64_t images = t.images;
  ForElements(queue, "RegionImages", t.regions, [=] CREMA_HOST_DEVICE(int64_t r) {
    const T* row = regions + 5 * r;
    const auto value = static_cast<double>(ToFloat(row[0]));
    bool good = value >= 0 && value < static_cast<double>(images) && value == std::floor(value);
    for (int k = 1; k < 5; ++k) {
      good = good && CornerFits(static_cast<double>(ToFloat(row[k])), scale);
    }
    image[r] = good ? static_cast<int64_t>(value) : -1;
  });
}

// `first` is the column of the axis's lower corner in a row of regions.
template <typename T, typename Rule>
static void FillPlaces(const CudaQueue& queue, const T* regions, int64_t first, const Rule& rule,
                       const RegionTables& t, const RegionAxis& axis) {
  const int64_t* image = t.image;
  const RegionAxis a = axis;
  const Rule of = rule;
  ForElements(queue, "RegionPlaces", t.regions * a.bins, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t r = i / a.bins;
    a.places[i] = BinRange{0, 0};
    if (image[r] < 0 || a.map_size == 0) return;
    const RegionSide side =
        of.Side(static_cast<double>(ToFloat(regions[5 * r + first])),
                static_cast<double>(ToFloat(regions[5 * r + first + 2])), a.bins);
    a.places[i] = of.Places(side, i % a.bins, a.map_size);
  });
}

[[maybe_unused]] static void FillOwners(const CudaQueue& queue, const RegionTables& t,
                                        const RegionAxis& axis) {
  const RegionAxis a = axis;
  ForElements(queue, "RegionOwners", t.regions * a.map_size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t r = i / a.map_size;
    BinRange owners{0, 0};
    for (int64_t bin = 0; bin < a.bins; ++bin) {
      if (!a.Places(r, bin).Has(i % a.map_size)) continue;
      if (owners.end == 0) owners.begin = bin;
      owners.end = bin + 1;
    }
    a.owners[i] = owners;
  });
}

// A rule has `scale`, Side(low, high, bins) and Places(side, bin, map_size), callable on the GPU.
// This one rounds the limits of bins outwards.
template <RegionSide (*kSide)(double, double, double, int64_t)>
struct BinRule {
  double scale;
  CREMA_HOST_DEVICE RegionSide Side(double low, double high, int64_t bins) const {
    return kSide(low, high, scale, bins);
  }
  CREMA_HOST_DEVICE BinRange Places(const RegionSide& side, int64_t bin, int64_t map_size) const {
    return BinOf(side.start, side.bin, bin, map_size);
  }
};

template <typename Args, typename Rule>
RegionTables MakeRegionTables(const Args& args, const Shape& out, const Rule& rule, bool weighted) {
  RegionTables t = RegionTablesOf(args.inputs[0].shape(), args.inputs[1].shape(), out);
  ScratchCutter cutter(args.scratch);
  CutRegionTables(&cutter, weighted, &t);
  FillImages(args.queue, args.x(1), rule.scale, t);
  FillPlaces(args.queue, args.x(1), 2, rule, t, t.rows);
  FillPlaces(args.queue, args.x(1), 1, rule, t, t.columns);
  return t;
}

// Writes each element of the output: value(index, bin, x, rows, columns), with the map of its
// channel and the positions that the bin reads. `of_bins` means that each bin has its own channels.
template <typename T, typename Value>
static void PoolRegions(const GpuForward<T>& args, std::string_view name,
                        const RegionTables& tables, bool of_bins, const Value& value) {
  const RegionTables t = tables;
  const int64_t outputs = t.channels * t.Bins(), channels = of_bins ? outputs : t.channels;
  const T* x = args.x();
  T* y = args.y();
  ForElements(args.queue, name, t.regions * outputs, [=] CREMA_HOST_DEVICE(int64_t i) {
    const RegionBin bin(t, i);
    const int64_t image = t.image[bin.region];
    const int64_t channel = of_bins ? i % channels : bin.channel;
    const T* from = x + (image * channels + channel) * t.rows.map_size * t.columns.map_size;
    const float pooled = value(i, bin, from, t.rows.Places(bin.region, bin.row),
                               t.columns.Places(bin.region, bin.column));
    y[i] = FromFloat<T>(image < 0 ? NoRegion() : pooled);
  });
}

// Writes the gradient of each element of the map, to which add(index, place, region, &sum) adds
// that of one region. So a position gathers from the bins that read it.
template <typename T, typename Add>
static void SpreadRegions(const GpuBackward<T>& args, std::string_view name,
                          const RegionTables& tables, int64_t channels, const Add& add) {
  const RegionTables t = tables;
  T* dx = args.dx();
  ForElements(args.queue, name, t.images * channels * t.rows.map_size * t.columns.map_size,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const MapPlace place(t, channels, i);
                float sum = 0;
                for (int64_t r = 0; r < t.regions; ++r) {
                  if (t.image[r] == place.image) add(i, place, r, &sum);
                }
                dx[i] = FromFloat<T>(sum);
              });
}

}  // namespace crema
