// The parameters of a net.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "plan/plan.h"

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

// Reports which layers a file has filled.
struct LoadReport {
  struct Note {
    std::string layer;
    std::string text;
  };
  // A layer of the net that matches parameters of the file under another name.
  struct Rename {
    std::string layer;
    std::string layer_of_file;
    bool fits = false;  // the shapes are the same
  };

  std::vector<std::string> loaded;      // layers whose parameters came from the file
  std::vector<Note> reshaped;           // of these, parameters with another shape in the file
  std::vector<Note> skipped;            // layers whose parameters in the file do not fit, and why
  std::vector<std::string> at_fillers;  // layers with parameters that the file lacks
  std::vector<std::string> not_in_net;  // layers of the file that are not in the net
  std::vector<Rename> renames;
  std::set<int> filled;  // parameter slots (of owners) that came from the file
  int parameters = 0;    // number of parameters of the net, shared ones once
};

// Adds the report of a later file, which adds and overrides.
void MergeInto(LoadReport* all, const LoadReport& next);

// Returns "weights from FILE: loaded 8 layers (conv1, ...)", with up to five names of each kind,
// and lines for what was reshaped or skipped.
std::string DescribeLoad(const LoadReport& report, const std::string& file);

// Returns a warning if less than half of the net's parameters were loaded, with possible renames;
// else an empty text.
std::string LoadWarning(const LoadReport& report, const std::string& files);

// Parameters by parameter slot of a plan; slots that share have the same memory. Thread safety:
// const ones, any number of threads; otherwise one thread.
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
  // Like Make, but layers whose names are in `other` use its memory: a test net uses the parameters
  // of a training net. Throws kInvalidArgument if shapes differ.
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

// A sequence of weights files that a user names.
struct WeightsFiles {
  std::vector<std::string> paths;
  OnMismatch on_mismatch = OnMismatch::kError;
  MissingLayers missing = MissingLayers::kError;  // in all of the files together
  bool may_load_nothing = false;  // files without one parameter of the net are no error
};

// Loads the files in order: later ones add and override; fillers fill the rest of weights made by
// MakeToLoad. Writes a table for each file and warnings to `log`, unless it is null. Throws the
// errors of ReadCaffemodel and Weights::Load, and kInvalidArgument if no parameter came from the
// files, unless may_load_nothing is set or mismatches are skipped.
LoadReport LoadFiles(const WeightsFiles& files, const Plan& plan, Weights* weights, LogSink* log);

// Returns a warning if the weights of two or more layers that learn are all 0, as Caffe's default
// filler leaves them: they multiply each other's gradients, so that none of them learns. Else an
// empty text.
std::string ZeroWeightsWarning(const Plan& plan, const Weights& weights);

// Returns a warning that names the BatchNorm layers that normalize by stored statistics
// (use_global_stats) that are all 0; empty if there are none.
std::string EmptyStatisticsWarning(const Plan& plan, const Weights& weights);

}  // namespace crema
