// The parameters of a net under the names, and in the order of elements, of PyTorch's modules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/weights.h"

namespace crema {

// Order of the elements of a parameter in PyTorch.
enum class TorchOrder : uint8_t {
  kSame,
  kTransposed,  // InnerProduct with `transpose`: PyTorch has outputs x inputs
  kGates,       // LSTM: PyTorch's gates are i, f, g, o
  kFactor,      // BatchNorm's factor: 1, without an entry; PyTorch has averages
};

struct TorchParameter {
  int slot = -1;           // of the plan; an owner
  std::string role;        // "mean_sum": that of the slot, in one word
  std::string entry;       // "weight", "running_mean", "bias_ih_l0"; empty: the module's own name
  std::string added = {};  // a second entry, added to the first: "bias_hh_l0"; empty: none
  TorchOrder order = TorchOrder::kSame;
  // The value that a module without this entry computes with, such as 0 for a bias.
  std::optional<float> without = {};
  Shape shape = {};  // of the entry
};

// A layer, or a BatchNorm together with the Scale after it.
struct TorchModule {
  std::vector<int> layers;  // of the plan, in order
  std::vector<TorchParameter> parameters;
  // A reason if no module of PyTorch computes the same; empty: one does.
  std::string refusal = {};
};

// Returns the modules of all layers with parameters of their own, in the order of the plan.
// Requires: a plan without optimizations.
std::vector<TorchModule> TorchModulesOf(const Plan& plan);

// Returns the name of its first layer.
const std::string& NameOf(const TorchModule& module, const Plan& plan);

// Copies the f32 values of an entry into the slot of the parameter; `add` adds them to those there.
// Requires: as many elements as the slot has.
void CopyFromTorch(const TorchParameter& parameter, const ConstTensorView& values, bool add,
                   const TensorView& slot);

struct TorchEntry {
  std::string name;  // "conv1.weight"
  Tensor value;      // f32
};

// Returns the state dict of modules equivalent to the layers, under their names. A BatchNorm with
// the factor 0 has mean 0 and variance 0. Throws kUnsupported, listing all layers without such a
// module, and kInvalidArgument if two entries would have one name.
std::vector<TorchEntry> ToTorchEntries(const Plan& plan, const Weights& weights);

}  // namespace crema
