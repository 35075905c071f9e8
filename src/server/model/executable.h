// The server's interface to a model: its inputs and outputs, and executors.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/cascade.h"
#include "inference/detector.h"
#include "inference/image_input.h"
#include "inference/model.h"
#include "inference/segmenter.h"

namespace crema::server {

struct ModelDescription {
  // "classify", "detect" or "segment", of the file or found from the net; empty: tensors only.
  std::string task;
  // A dimension of -1 means any size. All are FP32, but the only input of a cascade is UINT8: the
  // pixels of an image of any size, which is not preprocessed.
  std::vector<BlobInfo> inputs;
  std::vector<BlobInfo> outputs;
  bool batches = false;  // requests may be batched along the first axis
  std::vector<std::string> labels;
  Preprocessing preprocessing;
  std::shared_ptr<const BoxReader> detector;   // of the task "detect"
  std::shared_ptr<const Segmenter> segmenter;  // of the task "segment"
  std::string task_problem;                    // why there is none of these; empty: no problem
  std::string sizes_input;                     // ImageModel::sizes_input
};

// Returns the input that takes images, N x 1 or 3 x H x W; H and W are -1 if they are those of each
// image. Null: there are other inputs than this one and the sizes of images.
const BlobInfo* ImageInput(const ModelDescription& model);
inline bool TakesImage(const ModelDescription& model) { return ImageInput(model) != nullptr; }
// Returns true for an input of a cascade.
inline bool TakesPixels(const BlobInfo& input) { return input.dtype == DType::kU8; }

// Thread safety: one thread at a time.
class Executor {
 public:
  virtual ~Executor() = default;
  // Like ModelRunner.
  virtual void Run(std::span<const NamedTensor> inputs) = 0;
  // Does the same. A model that runs in several steps throws kCancelled between two of them once
  // `cancelled` returns true.
  virtual void RunUnless(const std::function<bool()>& /*cancelled*/,
                         std::span<const NamedTensor> inputs) {
    Run(inputs);
  }
  virtual ConstTensorView Output(std::string_view name) const = 0;
};

// Thread safety: const.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const ModelDescription& description() const = 0;
  virtual std::unique_ptr<Executor> MakeExecutor() const = 0;
};

// Throws kUnsupported if an input or output is not FP32.
std::shared_ptr<const Executable> ToExecutable(std::shared_ptr<const Model> model);
std::shared_ptr<const Executable> ToExecutable(std::shared_ptr<const Cascade> cascade,
                                               const std::vector<std::string>& labels);

}  // namespace crema::server
