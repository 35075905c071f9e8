// Captured graphs, which a queue launches again.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "math/cuda/check.h"
#include "math/cuda/queue_state.h"

namespace crema {

// Repeats the same calls with the same arguments.
class CudaQueue::EmulatedGraph final : public DeviceGraph {
 public:
  EmulatedGraph(CudaQueue& queue, std::vector<std::function<void()>> work)
      : queue_(queue), work_(std::move(work)) {}

  void Launch() override {
    queue_.Bind();
    if (queue_.state_->trace != nullptr) ++queue_.state_->trace->replays;
    for (const std::function<void()>& part : work_) part();
  }

 private:
  CudaQueue& queue_;
  std::vector<std::function<void()>> work_;
};

#ifdef __CUDACC__

class CudaQueue::Graph final : public DeviceGraph {
 public:
  Graph(CudaQueue& queue, cudaGraph_t graph) : queue_(queue) {
    CheckCuda(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
  }
  ~Graph() override {
    if (queue_.lost().empty()) cudaGraphExecDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void Launch() override {
    LosingQueue(&queue_, [&] {
      queue_.Bind();
      CheckCuda(cudaGraphLaunch(graph_, queue_.stream()), "cudaGraphLaunch");
    });
  }

 private:
  CudaQueue& queue_;
  cudaGraphExec_t graph_ = nullptr;
};

// Ends a capture, also a failed one; returns a graph only after a complete one.
static cudaGraph_t EndCapture(cudaStream_t stream, bool whole) {
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &graph);
  if (whole && status == cudaSuccess) return graph;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // clears the error of an abandoned capture
  return nullptr;
}

#endif

std::unique_ptr<DeviceGraph> CudaQueue::Capture(const std::function<void()>& body) {
  Bind();
  State& state = *state_;
  if (state.no_graphs) Fail(ErrorCode::kUnsupported, "--cuda_graphs=0 switches them off");
  if (state.trace != nullptr) ++state.trace->captures;
  std::vector<std::function<void()>> captured;
#ifdef __CUDACC__
  // This thread only: other threads may allocate meanwhile for other sessions.
  if (!emulated()) {
    CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
  }
#endif
  if (emulated()) state.captured = &captured;
  state.capturing = true;
  state.refused = nullptr;
  std::string reason;
  try {
    body();
  } catch (const Error& error) {
    reason = state.refused != nullptr ? state.refused : error.what();
  } catch (...) {
    reason = "it ends with an exception";
  }
  state.captured = nullptr;
  state.capturing = false;
#ifdef __CUDACC__
  if (!emulated()) {
    cudaGraph_t graph = EndCapture(stream_, reason.empty());
    if (graph != nullptr) {
      // If memory is insufficient for the graph, queuing the work again may still succeed.
      std::unique_ptr<DeviceGraph> made;
      try {
        made = std::make_unique<Graph>(*this, graph);
      } catch (const Error& error) {
        reason = error.what();
      }
      cudaGraphDestroy(graph);
      if (made != nullptr) return made;
    }
    if (reason.empty()) reason = "CUDA does not keep what it does";
  }
#endif
  if (!reason.empty()) Fail(ErrorCode::kUnsupported, reason);
  return std::make_unique<EmulatedGraph>(*this, std::move(captured));
}

}  // namespace crema
