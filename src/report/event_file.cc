#include "report/event_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "report/message_writer.h"

namespace crema {
namespace {

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
namespace event {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kGraphDef = 4;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
}  // namespace event
namespace summary {
constexpr int kValue = 1;
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
constexpr int kHistogram = 5;
}  // namespace summary

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // bit-reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

MessageWriter EventAt(EventTime time) {
  MessageWriter event;
  event.Double(event::kWallTime, time.wall);
  if (time.step != 0) event.Integer(event::kStep, time.step);
  return event;
}

MessageWriter HistogramMessage(const Histogram& histogram) {
  MessageWriter message;
  message.Double(1, histogram.min);
  message.Double(2, histogram.max);
  message.Double(3, histogram.count);
  message.Double(4, histogram.sum);
  message.Double(5, histogram.sum_squares);
  message.PackedDoubles(6, histogram.limits);
  message.PackedDoubles(7, histogram.counts);
  return message;
}

std::string SummaryEvent(EventTime time, const MessageWriter& values) {
  MessageWriter event = EventAt(time);
  event.Message(event::kSummary, values);
  return TfRecord(event.bytes());
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  return ~crc;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  constexpr uint32_t kDelta = 0xA282EAD8;
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kDelta;
}

std::string TfRecord(std::string_view data) {
  std::string record = LittleEndian(static_cast<uint64_t>(data.size()));
  record += LittleEndian(MaskedCrc32c(record));
  record += data;
  record += LittleEndian(MaskedCrc32c(data));
  return record;
}

std::string FileVersionEvent(double wall) {
  MessageWriter event = EventAt({.wall = wall});
  event.Bytes(event::kFileVersion, "brain.Event:2");
  return TfRecord(event.bytes());
}

std::string RestartEvent(EventTime time) {
  constexpr int kStatus = 1;
  constexpr int kStart = 1;
  MessageWriter log;
  log.Integer(kStatus, kStart);
  MessageWriter event = EventAt(time);
  event.Message(event::kSessionLog, log);
  return TfRecord(event.bytes());
}

std::string GraphEvent(double wall, std::string_view graph_def) {
  MessageWriter event = EventAt({.wall = wall});
  event.Bytes(event::kGraphDef, graph_def);
  return TfRecord(event.bytes());
}

std::string ScalarsEvent(EventTime time, std::span<const NamedScalar> scalars) {
  MessageWriter values;
  for (const NamedScalar& scalar : scalars) {
    MessageWriter value;
    value.Bytes(summary::kTag, scalar.tag);
    value.Float(summary::kSimpleValue, static_cast<float>(scalar.value));
    values.Message(summary::kValue, value);
  }
  return SummaryEvent(time, values);
}

std::string HistogramsEvent(EventTime time, std::span<const NamedHistogram> histograms) {
  MessageWriter values;
  for (const NamedHistogram& named : histograms) {
    MessageWriter value;
    value.Bytes(summary::kTag, named.tag);
    value.Message(summary::kHistogram, HistogramMessage(named.histogram));
    values.Message(summary::kValue, value);
  }
  return SummaryEvent(time, values);
}

Histogram HistogramOf(std::span<const float> values, int buckets) {
  Histogram h;
  for (const double x : values) {
    if (!std::isfinite(x)) continue;
    h.min = h.count == 0 ? x : std::min(h.min, x);
    h.max = h.count == 0 ? x : std::max(h.max, x);
    h.count += 1;
    h.sum += x;
    h.sum_squares += x * x;
  }
  const double width = (h.max - h.min) / buckets;
  if (!(width > 0)) {
    h.limits = {h.max};
    h.counts = {h.count};
    return h;
  }
  for (int i = 1; i < buckets; ++i) h.limits.push_back(h.min + i * width);
  h.limits.push_back(h.max);
  h.counts.assign(static_cast<size_t>(buckets), 0);
  for (const double x : values) {
    if (!std::isfinite(x)) continue;
    const int i = std::clamp(static_cast<int>((x - h.min) / width), 0, buckets - 1);
    h.counts[static_cast<size_t>(i)] += 1;
  }
  return h;
}

}  // namespace crema
