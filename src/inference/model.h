// A net with its weights that answers: what `deploy` and `serve` run.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
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
#include "runtime/host_view.h"
#include "runtime/session.h"
#include "runtime/weights_files.h"

namespace crema {

// An input or output of a model. An extent of -1 may be any.
struct BlobInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// What travels with a net and is none of its layers.
struct ModelCard {
  std::string name;
  std::string task;  // "classify", "detect", "segment"; empty: only tensors in, tensors out
  Preprocessing preprocessing;
  std::vector<std::string> labels;  // by class; may be empty
};

struct ModelOptions {
  int threads = 1;        // of one runner
  PlanOptions plan = {};  // its `backward` counts as false, its device is `device`
  ComputeDevice device = {};
  size_t max_plans = 16;                    // extents of inputs whose plans are kept
  int64_t max_elements = int64_t{1} << 28;  // of one input
};

// Points into the registry that it was made with, which must live as long. Thread safety: const;
// each thread makes a ModelRunner of its own.
class Model {
 public:
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // A deploy net and its weights files. Throws kInvalidArgument where they do not fit, for example
  // a training net.
  static std::shared_ptr<const Model> Make(const NetFile& net, const WeightsFiles& weights,
                                           const ModelCard& card, const ModelOptions& options,
                                           const Registry& registry, LogSink& log);
  // A file of `deploy export`. Throws kDataLoss where it is truncated or altered, or does not
  // compute what it was recorded to; kInvalidArgument where it is no such file or too new.
  static std::shared_ptr<const Model> Open(const std::string& path, const ModelOptions& options,
                                           const Registry& registry, LogSink& log);

  const ModelCard& card() const;
  // In the order of the net. The first extent is -1 where Batches().
  const std::vector<BlobInfo>& inputs() const;
  const std::vector<BlobInfo>& outputs() const;
  // Whether the first axis of every input and output counts samples that do not know of each other,
  // so that requests may be put together and their answers taken apart.
  bool Batches() const;

  // The plan for inputs of these extents, in the order of inputs(); kept for the next time, the
  // least recently used one goes. Throws kInvalidArgument where the net cannot take them.
  std::shared_ptr<const Plan> PlanFor(std::span<const Shape> inputs) const;
  const std::shared_ptr<const Weights>& weights() const;

  struct Parts;  // inference/model_parts.h
  const Parts& parts() const { return *parts_; }

 private:
  explicit Model(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

struct RunningSession;  // inference/running_session.h

struct NamedTensor {
  std::string_view name;
  ConstTensorView value;  // memory of the host
};

// Runs a model. Thread safety: one thread at a time.
class ModelRunner {
 public:
  explicit ModelRunner(std::shared_ptr<const Model> model);
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // Each input of the model once, in any order, of any extents that the net takes; elements of
  // other types than BlobInfo says are refused. What is computed depends on these alone: hidden
  // states of recurrent layers start from zero. Throws kInvalidArgument, and kOutOfMemory, after
  // which the runner can be used on.
  void Run(std::span<const NamedTensor> inputs);
  // Of the last Run; of the host; valid until the next. Throws kInvalidArgument for an unknown
  // name.
  ConstTensorView Output(std::string_view name) const;

  // The runner that is made next begins with the session of the last Run, and what that has made
  // of the weights. This one begins anew.
  void LeaveToNext();

 private:
  void Run(RunningSession* running, std::span<const ConstTensorView> inputs);
  RunningSession* RunningOf(std::span<const ConstTensorView> inputs);
  RunningSession* Begin(const std::shared_ptr<const Plan>& plan);

  const std::shared_ptr<const Model> model_;
  std::list<std::unique_ptr<RunningSession>> running_;  // the latest first
  std::vector<std::unique_ptr<HostView>> answers_;      // by output, of the last Run
};

}  // namespace crema
