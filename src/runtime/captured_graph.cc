#include "runtime/captured_graph.h"

#include "core/error.h"

namespace crema {

void CapturedGraph::Forget() {
  graph_ = nullptr;
  ran_ = false;
}

void CapturedGraph::Refuse(const std::string& reason) {
  Forget();
  if (reason_.empty()) reason_ = reason;
}

void CapturedGraph::Run(DeviceQueue* queue, const uint64_t& version,
                        const std::function<void()>& body) {
  if (!reason_.empty()) return body();
  if (version != version_) Forget();
  version_ = version;
  if (graph_ == nullptr && ran_) {
    try {
      graph_ = queue->Capture(body);
    } catch (const Error& error) {
      // A graph needs memory that queuing the work again does not.
      const bool goes_without =
          error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kOutOfMemory;
      if (!goes_without) throw;
      Refuse(error.what());
      return body();
    }
  }
  if (graph_ != nullptr) return graph_->Launch();
  body();
  version_ = version;
  ran_ = true;
}

}  // namespace crema
