#include "parallel/collective.h"

#include "core/error.h"
#ifdef CREMA_HAVE_CUDA
#include "math/cuda/cuda_queue.h"
#include "math/cuda/nccl.h"
#endif

namespace crema {

#ifdef CREMA_HAVE_CUDA

namespace {

class GpuCollective final : public Collective {
 public:
  explicit GpuCollective(const std::vector<int>& gpus) : group_(gpus) {}

  void Sum(int rank, const ExecContext& context, std::span<float> values) override {
    group_.Sum(rank, BoundQueue(context), values.data(), std::ssize(values));
  }
  void CopyFromFirst(int rank, const ExecContext& context,
                     std::span<const TensorView> blobs) override {
    std::vector<NcclGroup::Bytes> bytes;
    bytes.reserve(blobs.size());
    for (const TensorView& blob : blobs) bytes.push_back({blob.raw(), blob.bytes()});
    group_.Broadcast(rank, BoundQueue(context), bytes);
  }
  void Abort() noexcept override { group_.Abort(); }

 private:
  NcclGroup group_;
};

}  // namespace

std::unique_ptr<Collective> MakeGpuCollective(const std::vector<int>& gpus) {
  return std::make_unique<GpuCollective>(gpus);
}

#else

std::unique_ptr<Collective> MakeGpuCollective(const std::vector<int>&) {
  Fail(ErrorCode::kDeviceFailure, "this program was built without CUDA");
}

#endif

}  // namespace crema
