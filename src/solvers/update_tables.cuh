// Tables of the blobs of an update in GPU memory. Blobs are divided into chunks, so that one
// launch, one team for each chunk, updates all blobs of a net.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/device_memory.h"
#include "core/tensor.h"

namespace crema {

// GPU memory for `count` rows.
template <typename Row>
class DeviceRows {
 public:
  void Allocate(const ExecContext& context, size_t count) {
    const size_t doubles = (count * sizeof(Row) + sizeof(double) - 1) / sizeof(double);
    memory_ = Tensor(Shape{static_cast<int64_t>(std::max<size_t>(1, doubles))}, DType::kF64,
                     context.allocator());
  }
  Row* rows() { return static_cast<Row*>(memory_.view().raw()); }

 private:
  Tensor memory_;
};

// A table that the host fills. Its rows hardly ever change, so usually nothing is uploaded.
template <typename Row>
class DeviceTable {
 public:
  // Returns true if the rows have changed.
  bool Set(const ExecContext& context, const std::vector<Row>& rows) {
    if (rows == rows_) return false;
    if (rows.size() != rows_.size()) memory_.Allocate(context, rows.size());
    rows_ = rows;
    Upload(context, memory_.rows(), rows.data(), rows.size() * sizeof(Row));
    return true;
  }
  const Row* rows() { return memory_.rows(); }
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }

 private:
  std::vector<Row> rows_;
  DeviceRows<Row> memory_;
};

// A range of elements of one blob.
struct UpdateChunk {
  int64_t begin;
  int32_t count;
  int32_t blob;
  friend bool operator==(const UpdateChunk&, const UpdateChunk&) = default;
};

// Small enough that small nets keep a GPU busy, and large enough to limit the number of chunks.
constexpr int64_t kChunkElements = 1 << 13;

// `count_of(b)` is the number of elements of blob b.
template <typename CountOf>
std::vector<UpdateChunk> ChunksOf(size_t blobs, const CountOf& count_of) {
  std::vector<UpdateChunk> chunks;
  for (size_t b = 0; b < blobs; ++b) {
    const int64_t count = count_of(b);
    for (int64_t begin = 0; begin < count; begin += kChunkElements) {
      chunks.push_back({begin, static_cast<int32_t>(std::min(kChunkElements, count - begin)),
                        static_cast<int32_t>(b)});
    }
  }
  return chunks;
}

}  // namespace crema
