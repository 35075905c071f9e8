// A net whose blobs, gradients and parameters a program reads and writes between layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/tensor.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "runtime/session.h"
#include "runtime/weights.h"

namespace crema {

// Memory that lives as long as `owner` is held, also after its net has made other memory.
struct HeldView {
  TensorView view;
  std::shared_ptr<const void> owner;
};

// Returns an owner of `owner`, and of the memory to which blobs of the session have moved because
// they outgrew the plan.
std::shared_ptr<const void> WithGrown(std::shared_ptr<const void> owner, const Session& session);

struct InteractiveOptions {
  Phase phase = Phase{};  // TRAIN
  int level = 0;
  std::vector<std::string> stages = {};
  // Weights files to start from, in order. Layers that they lack keep their fillers.
  std::vector<std::string> weights = {};
  int threads = 0;  // 0: all processors
  uint64_t seed = 1;
  LogSink* log = nullptr;  // may be null
  // False shares the memory of blobs and fuses layers. The net then has the blobs that are inputs
  // and outputs, and runs as a whole, forward.
  bool keep_blobs = true;
};

// Computes on the CPU. Every blob keeps its values and gradients after a pass, layers that the text
// runs in place excepted, and layers and blobs have the names that Caffe gives them (with "_split"
// layers). A net is named by its blobs: the value of a name is the one that the last pass wrote,
// or, for the top of a data or Input layer, the one that this layer gives. As if layers that the
// text runs in place did so, a pass of some layers reads that value, and gradients alike.
//
// Gradients of outputs are first their loss weights; the program may change them. Backward starts
// from their values. Thread safety: one thread at a time.
class InteractiveNet {
 public:
  // Plans and allocates the net of a file. `registry` must outlive it. Throws Error with all
  // problems of the net, and those of reading the weights.
  InteractiveNet(NetFile file, const Registry& registry, InteractiveOptions options);
  // Takes a session that is run elsewhere too, such as that of a solver. Requires: its plan was
  // made with optimize = false. `log` may be null.
  explicit InteractiveNet(std::shared_ptr<Session> session, LogSink* log = nullptr);

  const std::string& name() const { return plan().name; }
  const Plan& plan() const { return session_->plan(); }
  const std::vector<PlannedLayer>& layers() const { return plan().layers; }
  // Returns the names of all blobs, in the order in which layers first make them.
  const std::vector<std::string>& blobs() const { return blobs_; }
  // Tops of Input layers, and blobs that no layer reads (ordered by name).
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  // The blobs that a layer reads and makes.
  std::vector<std::string> BottomsOf(size_t layer) const;
  std::vector<std::string> TopsOf(size_t layer) const;
  double LossWeight(const std::string& blob) const;

  // Return a blob, its gradient, and a parameter (a parameter slot of the plan) and its gradient.
  // Gradients that are not planned are zeros, which nothing reads. Throw kNotFound for an unknown
  // name or slot.
  HeldView Data(const std::string& blob);
  HeldView Gradient(const std::string& blob);
  HeldView Parameter(size_t slot) const;
  HeldView ParameterGradient(size_t slot);
  Shape ShapeOf(const std::string& blob) const;

  // Gives an input another shape, for Data at once and for the other blobs with the next call that
  // runs layers, or UpdateShapes. Memory of the net is then made anew; views keep the old one.
  // Layers that do not accept the shapes throw when they are run, and others still run. Throws
  // kInvalidArgument for a blob that is not an input.
  void Reshape(const std::string& input, const Shape& shape);
  // Throws kInvalidArgument if a layer does not accept the shapes; the net then has those before.
  void UpdateShapes();
  // Like UpdateShapes, but layers of a net with keep_blobs that do not accept the shapes keep those
  // before, and throw when they are run.
  void TakeShapes();

  // Run the layers from `first` to `last` (both included), backward from `last` to `first`. Forward
  // returns the loss of these layers. Gradients of parameters are added to.
  double Forward(size_t first, size_t last);
  void Backward(size_t first, size_t last);
  void ZeroParameterGradients() { session_->ZeroParameterGradients(); }

  // Copies parameters from files (.caffemodel, HDF5) by layer name; ignores layers that one side
  // lacks. Throws kInvalidArgument, without changes, if shapes differ.
  void LoadWeights(const std::vector<std::string>& paths);
  // Uses the memory of parameters of layers that have the same name in `other`. Requires
  // OwnsWeights.
  void ShareWeightsWith(const InteractiveNet& other);
  // The same for a net of which only `other` owns its weights: that one uses the memory of this one
  // then, to which it copies its values.
  void TakeWeightsOf(InteractiveNet* other);
  // Returns false for a session that is run elsewhere: its weights stay where they are.
  bool OwnsWeights() const { return weights_ != nullptr; }
  // Returns the net with its parameters, as in a caffemodel.
  NetParameter Export() const { return session_->weights().Export(plan()); }

  Session& session() { return *session_; }
  // Returns the owner of the memory that Data and the like return now.
  std::shared_ptr<const void> memory() const { return WithGrown(session_, *session_); }

 private:
  struct Source {  // of a net that was read from a file
    NetFile file;
    const Registry* registry;
    InteractiveOptions options;
    NetState state;
  };

  std::shared_ptr<const Plan> MakePlanOf(const NetParameter& net,
                                         const Plan* before = nullptr) const;
  void ReplanFrom(const Plan* before);
  void RequireFit(size_t first, size_t last);
  void Start(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights);
  void NameBlobs();
  // Throws kInvalidArgument if these are not all layers of a net without keep_blobs.
  void CheckPass(size_t first, size_t last) const;
  void CopyInputsFrom(Session* old);
  void ForgetPasses();
  void GiveData(size_t first, size_t last);
  void GiveGradients(size_t first, size_t last);
  int GradientValueOf(const std::string& blob) const;
  int ValueOf(const std::string& blob) const;  // throws kNotFound
  HeldView Unplanned(const std::string& key, const Shape& shape);

  std::optional<Source> source_;
  LogSink* log_;                      // may be null
  std::shared_ptr<Weights> weights_;  // null for a session that is run elsewhere
  std::shared_ptr<Session> session_;
  std::vector<std::string> blobs_, inputs_, outputs_;
  std::map<std::string, Shape> reshaped_;                     // inputs whose shape is to change
  std::map<std::string, std::shared_ptr<Tensor>> unplanned_;  // gradients, by name
  std::set<std::string> chains_;  // blobs that layers write in place: they have several values
  // Those of them that the last passes wrote; absent: the last value, and the first gradient, as
  // after a pass of all layers.
  std::map<std::string, int> data_now_, gradient_now_;
  uint64_t step_ = 0;  // of the session after the last pass of this
};

}  // namespace crema
