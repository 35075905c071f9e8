// TensorBoard's event files: TFRecords of Event messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

// CRC-32C (Castagnoli). The record format stores it rotated and offset ("masked").
uint32_t Crc32c(std::string_view bytes);
uint32_t MaskedCrc32c(std::string_view bytes);

// Format: length (8 bytes), masked CRC of the length, data, masked CRC of the data.
std::string TfRecord(std::string_view data);

// Histogram of a blob's values.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  // number of finite values; others are ignored
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;  // upper limits, ascending
  std::vector<double> counts;  // by limit
};

// Buckets of equal width from the smallest to the largest value; a single one if all are equal or
// there are none.
Histogram HistogramOf(std::span<const float> values, int buckets = 64);

struct EventTime {
  double wall = 0;  // seconds since 1970
  int64_t step = 0;
};

struct NamedScalar {
  std::string tag;
  double value = 0;  // stored as f32
};

struct NamedHistogram {
  std::string tag;
  Histogram histogram;
};

// Each returns the record of one event, ready to append.
std::string FileVersionEvent(double wall);  // the first of every file
// Tells readers to discard data of earlier files from this step on.
std::string RestartEvent(EventTime time);
std::string GraphEvent(double wall, std::string_view graph_def);
std::string ScalarsEvent(EventTime time, std::span<const NamedScalar> scalars);
std::string HistogramsEvent(EventTime time, std::span<const NamedHistogram> histograms);

}  // namespace crema
