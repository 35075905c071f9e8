// Collective operations through host memory: for tests in which one or no GPU stands for several.
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/collective.h"
#include "parallel/rank_group.h"

namespace crema {

// Supports contexts of any device. Waits for their queues.
class HostCollective final : public Collective {
 public:
  explicit HostCollective(int ranks)
      : rendezvous_(ranks), values_(static_cast<size_t>(ranks)), sums_(values_.size()) {}

  void Sum(int rank, const ExecContext& context, std::span<float> values) override;
  void CopyFromFirst(int rank, const ExecContext& context,
                     std::span<const TensorView> blobs) override;
  void Abort() noexcept override { rendezvous_.Release(); }

 private:
  void Meet();

  Rendezvous rendezvous_;
  std::vector<std::vector<float>> values_;  // by rank
  std::vector<std::vector<float>> sums_;
  std::vector<std::vector<std::byte>> blobs_;  // of rank 0
};

}  // namespace crema
