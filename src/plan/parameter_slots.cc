#include "plan/parameter_slots.h"

#include <cmath>
#include <map>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "math/filler.h"

namespace crema {
namespace {

// Returns the path of this filler, such as "inner_product_param.weight_filler", or an empty string
// if the net text does not contain it. Among equal fillers, prefers the one with the role
// ("weight", "bias") in its name.
std::string PathOfFiller(const LayerParameter& param, const FillerParameter& filler,
                         const std::string& role) {
  std::string path;
  std::vector<const google::protobuf::FieldDescriptor*> parts;
  param.GetReflection()->ListFields(param, &parts);
  for (const auto* part : parts) {
    if (part->is_repeated() || part->message_type() == nullptr) continue;
    const google::protobuf::Message& message = param.GetReflection()->GetMessage(param, part);
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const auto* field : fields) {
      if (field->is_repeated() || field->message_type() != FillerParameter::descriptor()) continue;
      const auto& found = message.GetReflection()->GetMessage(message, field);
      if (found.SerializeAsString() != filler.SerializeAsString()) continue;
      const bool named = field->name().starts_with(role);
      if (path.empty() || named) path = StrCat(part->name(), ".", field->name());
      if (named) return path;
    }
  }
  return path;
}

class Assigner {
 public:
  Assigner(const Graph& graph, const std::vector<LayerInfo>& infos, const GradientFlow& flow)
      : graph_(graph), infos_(infos), flow_(flow) {}

  std::vector<ParameterSlot> Assign() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) AddNode(n);
    if (!problems_.empty()) throw Error(std::move(problems_));
    return std::move(slots_);
  }

 private:
  void AddNode(size_t n) {
    const LayerParameter& param = graph_.nodes[n].layer->param();
    const size_t count = infos_[n].parameters.size();
    if (count > 0 && param.name().empty() && std::exchange(has_unnamed_, true)) {
      Report(n, "",
             "a second layer with parameter blobs and without a name; weights are stored by "
             "name, so give each its own");
    }
    if (count > 0 && !param.name().empty()) {
      const auto [first, added] = named_.emplace(param.name(), n);
      if (!added) {
        const Where where = graph_.Locate(graph_.nodes[first->second], "");
        Report(n, "name",
               StrCat("another layer with parameter blobs has this name (line ", where.line,
                      "); weights are stored by name, so give each layer its own"));
      }
    }
    if (static_cast<size_t>(param.param_size()) > count) {
      Report(n, StrCat("param[", count, "]"),
             StrCat("has ", param.param_size(), " param entries, but the layer has ", count,
                    " parameter blobs"));
    }
    for (size_t i = 0; i < count; ++i) {
      const ParamSpec spec =
          static_cast<int>(i) < param.param_size() ? param.param(static_cast<int>(i)) : ParamSpec();
      AddSlot(n, i, spec);
    }
  }

  // Checked here because the creation of weights no longer knows the text position of the filler.
  void CheckFiller(size_t n, size_t i) {
    const LayerParameter& param = graph_.nodes[n].layer->param();
    if (static_cast<int>(i) < param.blobs_size()) return;  // holds the values
    const ParameterInfo& blob = infos_[n].parameters[i];
    Where where;
    where.field = PathOfFiller(param, *blob.filler, blob.role);
    try {
      ValidateFiller(*blob.filler, blob.shape, where);
    } catch (const Error& error) {
      for (const Problem& problem : error.problems()) {
        Report(n, problem.where.field, problem.message);
      }
    }
  }

  void AddSlot(size_t n, size_t i, const ParamSpec& spec) {
    // Checks before the values spread to layers that share the blob.
    RequireFinite(n, i, "lr_mult", spec.lr_mult());
    RequireFinite(n, i, "decay_mult", spec.decay_mult());
    if (std::isfinite(spec.lr_mult()) && spec.lr_mult() < 0) {
      Report(n, StrCat("param[", i, "].lr_mult"),
             StrCat("lr_mult is ", spec.lr_mult(), "; use 0 or more"));
    }
    const ParameterInfo& blob = infos_[n].parameters[i];
    ParameterSlot slot{
        .layer = static_cast<int>(n),
        .index = static_cast<int>(i),
        .role = blob.role,
        .shape = blob.shape,
        .filler = *blob.filler,
        .share_name = spec.name(),
        .owner = static_cast<int>(slots_.size()),
        .lr_mult = blob.statistic ? 0 : spec.lr_mult(),
        .decay_mult = blob.statistic ? 0 : spec.decay_mult(),
        .statistic = blob.statistic,
        .wants_gradient = flow_.nodes[n].backward && flow_.nodes[n].to_parameters[i]};
    if (!spec.name().empty()) {
      const auto [found, is_first] = owners_.emplace(
          spec.name(), Owner{slot.owner, spec.has_lr_mult(), spec.has_decay_mult()});
      if (!is_first) Share(n, i, spec, &found->second, &slot);
    }
    if (slot.owner == static_cast<int>(slots_.size())) CheckFiller(n, i);
    slots_.push_back(std::move(slot));
  }

  void RequireFinite(size_t n, size_t i, const char* field, float value) {
    if (std::isfinite(value)) return;
    // Omits the sign of a NaN, which has no meaning.
    const std::string text = std::isnan(value) ? "nan" : StrCat(value);
    Report(n, StrCat("param[", i, "].", field),
           StrCat(field, " is ", text, ", not a finite number"));
  }

  struct Owner {
    int slot;
    bool lr_given;
    bool decay_given;
  };

  void Share(size_t n, size_t i, const ParamSpec& spec, Owner* owner, ParameterSlot* slot) {
    ParameterSlot& first = slots_[static_cast<size_t>(owner->slot)];
    const std::string& first_layer = graph_.nodes[static_cast<size_t>(first.layer)].name();
    const std::string field = StrCat("param[", i, "]");
    slot->owner = owner->slot;
    first.wants_gradient = first.wants_gradient || slot->wants_gradient;
    const bool fits = spec.share_mode() == ParamSpec::PERMISSIVE
                          ? first.shape.count() == slot->shape.count()
                          : first.shape == slot->shape;
    if (!fits) {
      Report(n, field,
             StrCat("shares '", spec.name(), "' with layer \"", first_layer, "\", but is ",
                    ToString(slot->shape), " and not ", ToString(first.shape)));
    }
    Merge(n, field + ".lr_mult", spec.has_lr_mult(), spec.lr_mult(), &owner->lr_given,
          &first.lr_mult, first_layer);
    Merge(n, field + ".decay_mult", spec.has_decay_mult(), spec.decay_mult(), &owner->decay_given,
          &first.decay_mult, first_layer);
  }

  void Merge(size_t n, const std::string& field, bool given, float value, bool* owner_given,
             float* owner_value, const std::string& first_layer) {
    if (!given || !std::isfinite(value) || !std::isfinite(*owner_value)) return;  // reported before
    if (*owner_given && *owner_value != value) {
      Report(n, field,
             StrCat("is ", value, ", but layer \"", first_layer, "\", which shares the blob, says ",
                    *owner_value));
    }
    if (!*owner_given) *owner_value = value;
    *owner_given = true;
  }

  void Report(size_t n, const std::string& field, std::string message) {
    problems_.push_back(
        {ErrorCode::kInvalidArgument, graph_.Locate(graph_.nodes[n], field), std::move(message)});
  }

  const Graph& graph_;
  const std::vector<LayerInfo>& infos_;
  const GradientFlow& flow_;
  std::vector<ParameterSlot> slots_;
  std::map<std::string, Owner> owners_;
  std::map<std::string, size_t> named_;  // layers with parameters
  bool has_unnamed_ = false;             // a layer with parameters
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<ParameterSlot> AssignParameterSlots(const Graph& graph,
                                                const std::vector<LayerInfo>& infos,
                                                const GradientFlow& flow) {
  return Assigner(graph, infos, flow).Assign();
}

}  // namespace crema
