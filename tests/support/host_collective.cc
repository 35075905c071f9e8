#include "support/host_collective.h"

#include "core/device_memory.h"
#include "core/error.h"

namespace crema {

void HostCollective::Meet() {
  if (!rendezvous_.Wait()) {
    Fail(ErrorCode::kCancelled, "another device of this run has stopped computing");
  }
}

void HostCollective::Sum(int rank, const ExecContext& context, std::span<float> values) {
  const auto own = static_cast<size_t>(rank);
  values_[own].resize(values.size());
  Download(context, values_[own].data(), values.data(), values.size_bytes());
  Meet();
  std::vector<float>& sums = sums_[own];
  sums = values_[0];
  for (size_t r = 1; r < values_.size(); ++r) {
    CREMA_CHECK(values_[r].size() == values.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values_[r][i];
  }
  Meet();  // all ranks have read values_
  Upload(context, values.data(), sums.data(), values.size_bytes());
}

void HostCollective::CopyFromFirst(int rank, const ExecContext& context,
                                   std::span<const TensorView> blobs) {
  if (rank == 0) {
    blobs_.clear();
    for (const TensorView& blob : blobs) {
      blobs_.emplace_back(blob.bytes());
      Download(context, blobs_.back().data(), blob.raw(), blob.bytes());
    }
  }
  Meet();
  CREMA_CHECK(blobs_.size() == blobs.size());
  for (size_t i = 0; i < blobs.size() && rank != 0; ++i) {
    CREMA_CHECK(blobs_[i].size() == blobs[i].bytes());
    Upload(context, blobs[i].raw(), blobs_[i].data(), blobs[i].bytes());
  }
  Meet();
}

}  // namespace crema
