// A net with its weights for inference: used by `deploy` and `serve`.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"
#include "core/tensor.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "inference/image_input.h"
#include "plan/plan.h"
#include "runtime/compute_device.h"
#include "runtime/session.h"
#include "runtime/weights.h"

namespace crema {

// An input or output of a model. A dimension of -1 means any size.
struct BlobInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// Metadata of a model besides its layers.
struct ModelCard {
  std::string name;
  std::string task;  // "classify", "detect", "segment"; empty: tensors only
  Preprocessing preprocessing;
  std::vector<std::string> labels;  // by class; may be empty
  // Of detectors that end in raw outputs (inference/detection_heads.h).
  std::string head = {};                    // empty: found from the net
  std::optional<double> head_overlap = {};  // NMS; empty: as the head has it
};

struct ModelOptions {
  int threads = 1;        // per runner
  PlanOptions plan = {};  // `backward` and the device have no effect
  ComputeDevice device = {};
  size_t max_plans = 16;                    // number of cached plans, one per input shape
  int64_t max_elements = int64_t{1} << 28;  // of one input
};

// Refers to the registry it was made with, which must outlive it. Thread safety: const; each thread
// makes its own ModelRunner.
class Model {
 public:
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Makes a model from a deploy net and weights files. Throws kInvalidArgument if they do not fit,
  // for example for a training net.
  static std::shared_ptr<const Model> Make(const NetFile& net, const WeightsFiles& weights,
                                           const ModelCard& card, const ModelOptions& options,
                                           const Registry& registry, LogSink& log);
  // The same with the parameters of another net, in its memory: a layer has those of the layer of
  // its name.
  static std::shared_ptr<const Model> MakeSharing(const NetFile& net, const Weights& weights,
                                                  const ModelCard& card,
                                                  const ModelOptions& options,
                                                  const Registry& registry, LogSink& log);
  // Opens a file written by `deploy export`. Throws kDataLoss if it is truncated or altered, or if
  // the recorded run is not reproduced; kInvalidArgument for another format or a newer version.
  static std::shared_ptr<const Model> Open(const std::string& path, const ModelOptions& options,
                                           const Registry& registry, LogSink& log);

  const ModelCard& card() const;
  // In the order of the net. The first dimension is -1 if Batches().
  const std::vector<BlobInfo>& inputs() const;
  const std::vector<BlobInfo>& outputs() const;
  // Returns true if the first axis of every input and output counts independent samples, so that
  // requests may be batched.
  bool Batches() const;

  // Returns the plan for these input shapes, in the order of inputs(). Caches plans and evicts the
  // least recently used one. Throws kInvalidArgument if the net does not accept the shapes.
  std::shared_ptr<const Plan> PlanFor(std::span<const Shape> inputs) const;
  const std::shared_ptr<const Weights>& weights() const;

  struct Parts;  // inference/model_parts.h
  const Parts& parts() const { return *parts_; }

 private:
  explicit Model(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

struct RunningSession;  // inference/model_parts.h

struct NamedTensor {
  std::string_view name;
  ConstTensorView value;  // host memory
};

// Runs a model. Thread safety: one thread at a time.
class ModelRunner {
 public:
  explicit ModelRunner(std::shared_ptr<const Model> model);
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // Takes each input of the model once, in any order, of any shape that the net accepts, with the
  // element type of BlobInfo. The result depends on these alone: hidden states of recurrent layers
  // start from zero. Throws kInvalidArgument and kOutOfMemory; the runner remains usable then.
  void Run(std::span<const NamedTensor> inputs);
  // Returns an output of the last Run in host memory, valid until the next. Throws kInvalidArgument
  // for an unknown name.
  ConstTensorView Output(std::string_view name) const;

  // Passes the session of the last Run, with its packed weights, to the next runner that is made.
  // This runner starts anew.
  void PassToNext();

 private:
  void Run(RunningSession* running, std::span<const ConstTensorView> inputs);
  RunningSession* RunningOf(std::span<const ConstTensorView> inputs);
  RunningSession* Begin(const std::shared_ptr<const Plan>& plan);

  const std::shared_ptr<const Model> model_;
  std::list<std::unique_ptr<RunningSession>> running_;  // most recently used first
  std::vector<std::unique_ptr<HostView>> answers_;      // outputs of the last Run
};

}  // namespace crema
