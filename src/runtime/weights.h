// The learned blobs of a net.
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
  kError,  // evaluate, deploy: a layer with learned blobs must be in the file
  kKeep,   // train: such a layer keeps its values
};

// What to do with a layer whose blobs in the file do not fit.
enum class OnMismatch {
  kError,
  kSkip,     // it keeps its values; so does, always, a layer that is missing
  kReshape,  // blobs of as many values are taken in their order; others are errors
};

// Reports which layers a file has filled.
struct LoadReport {
  struct Note {
    std::string layer;
    std::string text;
  };
  // A layer of the net that would find blobs in the file under another name.
  struct Rename {
    std::string layer;
    std::string layer_of_file;
    bool fits = false;  // the shapes are the same
  };

  std::vector<std::string> loaded;      // layers whose blobs came from the file
  std::vector<Note> reshaped;           // of these, blobs taken under another shape
  std::vector<Note> skipped;            // layers whose blobs in the file do not fit, and why
  std::vector<std::string> at_fillers;  // layers with learned blobs that the file does not hold
  std::vector<std::string> not_in_net;  // layers of the file that the net has no use for
  std::vector<Rename> renames;
  std::set<int> filled;  // learned slots (of owners) that came from the file
  int learned = 0;       // learned blobs of the net, shared ones once
};

// Adds the report of a later file, which adds and overrides.
void MergeInto(LoadReport* all, const LoadReport& next);

// A table of what was loaded, a line a layer.
std::string DescribeLoad(const LoadReport& report, const std::string& file);

// A warning when less than half of the net's learned blobs was loaded, with what could be renamed;
// empty otherwise.
std::string LoadWarning(const LoadReport& report, const std::string& files);

// Blobs by learned slot of a plan; slots that share have the same memory.
// Thread safety: const ones, any number of threads; otherwise one thread.
class Weights {
 public:
  // Filled by the fillers, each blob from a random stream of its own. Blobs written in the net's
  // text replace the filler.
  static std::shared_ptr<Weights> Make(const Plan& plan, uint64_t seed,
                                       Allocator& allocator = CpuAllocator());
  // As Make, but what a filler would fill is zero until FillRest: for nets whose weights come from
  // files, as drawing them takes longer than reading them.
  static std::shared_ptr<Weights> MakeToLoad(const Plan& plan, uint64_t seed,
                                             Allocator& allocator = CpuAllocator());
  // Runs the fillers of blobs that Load has not set.
  void FillRest(const Plan& plan);
  // As Make, but layers that `other` knows by name use its memory: a test net sees what a training
  // net learns. Throws kInvalidArgument where shapes differ.
  static std::shared_ptr<Weights> ShareWith(const Plan& plan, const Weights& other, uint64_t seed);

  TensorView blob(size_t slot) { return blobs_[slot]->view(); }
  ConstTensorView blob(size_t slot) const { return std::as_const(*blobs_[slot]).view(); }
  size_t size() const { return blobs_.size(); }

  // Copies blobs of a caffemodel by layer name, brought into our layout by LayerType::adapt_blobs.
  // Of layers of one name in the file the last with blobs counts, as in Caffe. Throws with all
  // problems, having changed nothing: shapes or numbers of blobs that differ, and missing layers,
  // where they are errors. `file` is for messages.
  LoadReport Load(const Plan& plan, const NetParameter& model, const std::string& file,
                  MissingLayers missing, OnMismatch on_mismatch = OnMismatch::kError);

  // The net with its blobs, as written to a caffemodel.
  NetParameter Export(const Plan& plan) const;

 private:
  std::vector<std::shared_ptr<Tensor>> blobs_;             // by slot
  std::map<std::string, std::shared_ptr<Tensor>> by_key_;  // "<layer>\n<index>"
  std::vector<bool> to_fill_;                              // by slot; those that own
  uint64_t seed_ = 0;                                      // of the fillers
};

// Weights files that a user names.
struct WeightsFiles {
  std::vector<std::string> paths;
  OnMismatch on_mismatch = OnMismatch::kError;
  MissingLayers missing = MissingLayers::kError;  // in all of the files together
};

// Loads the files in their order: later ones add and override; fillers do the rest of weights that
// were made to be loaded. Writes a table for each file and warnings to `log`, unless it is null.
// Throws what ReadCaffemodel and Weights::Load throw.
LoadReport LoadFiles(const WeightsFiles& files, const Plan& plan, Weights* weights, LogSink* log);

}  // namespace crema
