// The parameters of a net.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "crema.pb.h"
#include "plan/plan.h"
#include "runtime/load_report.h"

namespace crema {

enum class MissingLayers {
  kError,  // evaluate, deploy: the parameters of a layer must be in the file
  kKeep,   // train: such a layer keeps its values
};

// Handling of layers whose parameters in the file do not fit.
enum class OnMismatch {
  kError,
  kSkip,     // it keeps its values, as a missing layer always does
  kReshape,  // parameters of equal size are copied in order; others are errors
};

// Parameters by learned slot of a plan; slots that share have the same memory. Thread safety: const
// ones, any number of threads; otherwise one thread.
class Weights {
 public:
  // Runs the fillers, each with a random stream of its own. Parameters written in the net's text
  // replace the filler.
  static std::shared_ptr<Weights> Make(const Plan& plan, uint64_t seed,
                                       Allocator& allocator = CpuAllocator());
  // As Make, but parameters with fillers are zero until FillRest: for nets whose weights come from
  // files, as running fillers takes longer than reading them.
  static std::shared_ptr<Weights> MakeToLoad(const Plan& plan, uint64_t seed,
                                             Allocator& allocator = CpuAllocator());
  // Runs the fillers of parameters that Load has not set.
  void FillRest(const Plan& plan);
  // As Make, but layers whose names are in `other` use its memory: a test net uses what a training
  // net learns. Throws kInvalidArgument if shapes differ.
  static std::shared_ptr<Weights> ShareWith(const Plan& plan, const Weights& other, uint64_t seed);

  TensorView blob(size_t slot) { return blobs_[slot]->view(); }
  ConstTensorView blob(size_t slot) const { return std::as_const(*blobs_[slot]).view(); }
  size_t size() const { return blobs_.size(); }

  // Copies parameters of a caffemodel by layer name, converted to the current layout by
  // LayerType::adapt_blobs. If the file has several layers of a name, the last with parameters
  // counts, as in Caffe. Throws with all problems, without changes: different shapes or numbers of
  // parameters, and missing layers if they are errors. `file` is for messages.
  LoadReport Load(const Plan& plan, const NetParameter& model, const std::string& file,
                  MissingLayers missing, OnMismatch on_mismatch = OnMismatch::kError);

  // Returns the net with its parameters, as in a caffemodel.
  NetParameter Export(const Plan& plan) const;

 private:
  std::vector<std::shared_ptr<Tensor>> blobs_;             // by slot
  std::map<std::string, std::shared_ptr<Tensor>> by_key_;  // "<layer>\n<index>"
  std::vector<bool> to_fill_;                              // by slot; those that own
  uint64_t seed_ = 0;                                      // of the fillers
};

}  // namespace crema
