#include "runtime/torch_modules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

constexpr int kLstmGates = 4;
constexpr std::array<int64_t, kLstmGates> kTorchGate = {0, 1, 3, 2};  // of i, f, o, g

struct EntryOfRole {
  std::string_view role;
  std::string_view entry;
  std::optional<float> without = {};
};

constexpr EntryOfRole kEntries[] = {
    {"weight", "weight"},
    {"bias", "bias", 0.0F},
    {"scale", "weight", 1.0F},
    {"shift", "bias", 0.0F},
    {"slope", "weight"},
    {"embedding", "weight"},
    {"value", ""},
    {"mean", "running_mean"},
    {"mean sum", "running_mean"},
    {"variance", "running_var"},
    {"variance sum", "running_var"},
};

struct RecurrentEntry {
  std::string_view role;
  std::string_view entry;
  std::string_view added = {};
  TorchOrder order = TorchOrder::kSame;
};

constexpr RecurrentEntry kLstm[] = {
    {"W_xc", "weight_ih_l0", "", TorchOrder::kGates},
    {"b_c", "bias_ih_l0", "bias_hh_l0", TorchOrder::kGates},
    {"W_hc", "weight_hh_l0", "", TorchOrder::kGates},
};
constexpr RecurrentEntry kGru[] = {
    {"W_x", "weight_ih_l0"}, {"b_x", "bias_ih_l0"}, {"W_h", "weight_hh_l0"}, {"b_h", "bias_hh_l0"}};

std::string OneWord(std::string role) {
  std::ranges::replace(role, ' ', '_');
  return role;
}

bool IsRecurrent(const std::string& type) {
  return type == "LSTM" || type == "GRU" || type == "RNN";
}

// Returns the reason for which no module of PyTorch has these parameters.
std::string RefusalOf(const LayerParameter& layer, const std::vector<TorchParameter>& parameters) {
  const auto has = [&](std::string_view role) {
    return std::ranges::any_of(parameters,
                               [&](const TorchParameter& p) { return p.role.starts_with(role); });
  };
  const std::string& type = layer.type();
  if (type == "RNN") return "Caffe's RNN has an output product (W_ho), which torch.nn.RNN lacks";
  if (type == "GRU" && !has("b_h")) {
    return "torch.nn.GRU applies the reset gate after the product: set reset_after: true";
  }
  if (IsRecurrent(type) && (has("W_xc_static") || has("W_x_static"))) {
    return "modules of PyTorch have no x_static";
  }
  if (type == "BN" && !has("variance")) {
    return "SegNet's BN stores no statistics; use BatchNorm and Scale";
  }
  return "";
}

class ModuleMaker {
 public:
  explicit ModuleMaker(const Plan& plan) : plan_(plan) {}

  std::vector<TorchModule> Make() {
    for (size_t i = 0; i < plan_.layers.size(); ++i) AddLayer(static_cast<int>(i));
    return std::move(modules_);
  }

 private:
  void AddLayer(int index) {
    const PlannedLayer& layer = plan_.layers[static_cast<size_t>(index)];
    std::vector<TorchParameter> parameters;
    for (const int slot : layer.parameters) {
      if (plan_.parameters[static_cast<size_t>(slot)].owner != slot) continue;
      parameters.push_back(ParameterOf(layer.layer->param(), slot));
    }
    if (parameters.empty()) return;
    if (TorchModule* norm = NormBefore(layer)) {
      norm->layers.push_back(index);
      std::ranges::move(parameters, std::back_inserter(norm->parameters));
      return;
    }
    std::string refusal = RefusalOf(layer.layer->param(), parameters);
    if (layer.layer->param().type() == "BatchNorm" && !layer.outputs.empty()) {
      open_norms_[layer.outputs[0]] = modules_.size();
    }
    modules_.push_back({{index}, std::move(parameters), std::move(refusal)});
  }

  // Returns the module of a BatchNorm without a scale, whose values only this Scale reads.
  TorchModule* NormBefore(const PlannedLayer& layer) {
    if (layer.layer->param().type() != "Scale" || layer.inputs.size() != 1) return nullptr;
    const auto found = open_norms_.find(layer.inputs[0]);
    if (found == open_norms_.end()) return nullptr;
    TorchModule& norm = modules_[found->second];
    const bool plain = std::ranges::none_of(
        norm.parameters, [](const TorchParameter& p) { return p.entry == "weight"; });
    const auto reads = [&](const PlannedLayer& other) {
      return std::ranges::count(other.inputs, layer.inputs[0]) > 0;
    };
    if (!plain || std::ranges::count_if(plan_.layers, reads) != 1) return nullptr;
    open_norms_.erase(found);
    return &norm;
  }

  TorchParameter ParameterOf(const LayerParameter& layer, int slot) const {
    const ParameterSlot& s = plan_.parameters[static_cast<size_t>(slot)];
    TorchParameter parameter{.slot = slot, .role = OneWord(s.role), .entry = s.role};
    parameter.shape = s.shape;
    if (IsRecurrent(layer.type())) {
      SetRecurrent(layer.type(), s, &parameter);
    } else if (s.role == "factor") {
      parameter.order = TorchOrder::kFactor;
    } else if (const auto* entry =
                   std::ranges::find(kEntries, std::string_view(s.role), &EntryOfRole::role);
               entry != std::end(kEntries)) {
      parameter.entry = entry->entry;
      parameter.without = entry->without;
    }
    if (layer.type() == "InnerProduct" && layer.inner_product_param().transpose() &&
        s.shape.axes() == 2) {
      parameter.order = TorchOrder::kTransposed;
      parameter.shape = Shape{s.shape[1], s.shape[0]};
    }
    return parameter;
  }

  static void SetRecurrent(const std::string& type, const ParameterSlot& slot,
                           TorchParameter* parameter) {
    constexpr std::string_view kReverse = "_reverse";
    std::string_view role = slot.role;
    const bool reverse = role.ends_with(kReverse);
    if (reverse) role.remove_suffix(kReverse.size());
    const std::string_view end = reverse ? kReverse : "";
    const std::span<const RecurrentEntry> entries =
        type == "LSTM" ? std::span<const RecurrentEntry>(kLstm) : kGru;
    for (const RecurrentEntry& entry : entries) {
      if (entry.role != role) continue;
      parameter->entry = StrCat(entry.entry, end);
      if (!entry.added.empty()) parameter->added = StrCat(entry.added, end);
      parameter->order = entry.order;
      if (slot.shape.axes() == 1) parameter->without = 0.0F;
    }
  }

  const Plan& plan_;
  std::vector<TorchModule> modules_;
  std::map<int, size_t> open_norms_;  // modules by the value that their BatchNorm writes
};

void Apply(const float* from, float* to, int64_t count, bool add) {
  for (int64_t i = 0; i < count; ++i) to[i] = add ? to[i] + from[i] : from[i];
}

// Copies the gates of `from`, in one order, to the other one, which swaps the last two.
void ApplyGates(const float* from, float* to, int64_t count, bool add) {
  const int64_t gate = count / kLstmGates;
  for (size_t g = 0; g < kLstmGates; ++g) {
    Apply(from + kTorchGate[g] * gate, to + static_cast<int64_t>(g) * gate, gate, add);
  }
}

void ApplyTransposed(const float* from, const Shape& to_shape, float* to, bool add) {
  for (int64_t i = 0; i < to_shape[0]; ++i) {
    for (int64_t j = 0; j < to_shape[1]; ++j) {
      Apply(from + j * to_shape[0] + i, to + i * to_shape[1] + j, 1, add);
    }
  }
}

// Returns the factor that turns the sums of a BatchNorm into averages; 1 for other parameters.
float FactorOf(const Plan& plan, const Weights& weights, const TorchModule& module,
               const TorchParameter& parameter) {
  const std::string& role = plan.parameters[static_cast<size_t>(parameter.slot)].role;
  if (role != "mean sum" && role != "variance sum") return 1;
  for (const TorchParameter& other : module.parameters) {
    if (other.order != TorchOrder::kFactor) continue;
    const float sum = weights.blob(static_cast<size_t>(other.slot)).span<float>()[0];
    return sum == 0 ? 0 : 1 / sum;
  }
  return 1;
}

Tensor ToTorch(const TorchParameter& parameter, const ConstTensorView& slot, float factor) {
  Tensor value(parameter.shape, DType::kF32);
  float* to = value.view().data<float>();
  if (parameter.order == TorchOrder::kGates) {
    ApplyGates(slot.data<float>(), to, slot.count(), false);
  } else if (parameter.order == TorchOrder::kTransposed) {
    ApplyTransposed(slot.data<float>(), parameter.shape, to, false);
  } else {
    Apply(slot.data<float>(), to, slot.count(), false);
  }
  if (factor != 1) {
    for (float& v : value.view().span<float>()) v *= factor;
  }
  return value;
}

// BN's 1 x C x 1 x 1 is C in PyTorch.
Shape ShapeWithoutOnes(const Shape& shape) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  std::erase(dims, 1);
  return dims.empty() ? Shape{1} : Shape(dims);
}

void AddEntries(const Plan& plan, const Weights& weights, const TorchModule& module,
                std::vector<TorchEntry>* entries) {
  const std::string& name = NameOf(module, plan);
  for (TorchParameter parameter : module.parameters) {
    if (parameter.order == TorchOrder::kFactor) continue;
    const std::string& type =
        plan.layers[static_cast<size_t>(module.layers[0])].layer->param().type();
    if (type == "BN" || type == "PReLU") parameter.shape = ShapeWithoutOnes(parameter.shape);
    const auto full = [&](const std::string& entry) {
      return entry.empty() ? name : StrCat(name, ".", entry);
    };
    entries->push_back({full(parameter.entry),
                        ToTorch(parameter, weights.blob(static_cast<size_t>(parameter.slot)),
                                FactorOf(plan, weights, module, parameter))});
    if (!parameter.added.empty()) {
      entries->push_back({full(parameter.added), Tensor(parameter.shape, DType::kF32)});
    }
  }
}

}  // namespace

std::vector<TorchModule> TorchModulesOf(const Plan& plan) { return ModuleMaker(plan).Make(); }

const std::string& NameOf(const TorchModule& module, const Plan& plan) {
  return plan.layers[static_cast<size_t>(module.layers[0])].name();
}

void CopyFromTorch(const TorchParameter& parameter, const ConstTensorView& values, bool add,
                   const TensorView& slot) {
  CREMA_CHECK(values.count() == slot.count());
  float* to = slot.data<float>();
  if (parameter.order == TorchOrder::kGates) {
    ApplyGates(values.data<float>(), to, slot.count(), add);
  } else if (parameter.order == TorchOrder::kTransposed) {
    ApplyTransposed(values.data<float>(), slot.shape(), to, add);
  } else {
    Apply(values.data<float>(), to, slot.count(), add);
  }
}

std::vector<TorchEntry> ToTorchEntries(const Plan& plan, const Weights& weights) {
  std::vector<TorchEntry> entries;
  std::vector<Problem> problems;
  const auto problem = [&](ErrorCode code, const TorchModule& module, const std::string& text) {
    problems.push_back({code, {.layer = NameOf(module, plan)}, text});
  };
  std::set<std::string> names;
  for (const TorchModule& module : TorchModulesOf(plan)) {
    if (!names.insert(NameOf(module, plan)).second) {
      problem(ErrorCode::kInvalidArgument, module, "two layers have this name; rename one");
    } else if (!module.refusal.empty()) {
      problem(ErrorCode::kUnsupported, module, "has no equivalent module: " + module.refusal);
    } else {
      AddEntries(plan, weights, module, &entries);
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return entries;
}

}  // namespace crema
