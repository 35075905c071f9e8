#include "layers/loss/class_weights.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

// Returns true if SegNet's list is used. SegNet applies it only if weight_by_label_freqs is true;
// here it applies unless weight_by_label_freqs is explicitly false.
bool SegNetListCounts(const LossParameter& param) {
  return !param.has_weight_by_label_freqs() || param.weight_by_label_freqs();
}

bool IsBalanced(const Layer& layer, const LossParameter& param) {
  const std::string& mode = param.class_weighting_mode();
  if (mode != "list" && mode != "balanced") {
    FailField(layer, "loss_param.class_weighting_mode",
              StrCat("class_weighting_mode is \"", mode, "\", expected \"list\" or \"balanced\""));
  }
  const bool has_list = param.class_weight_size() + param.class_weighting_size() > 0;
  if (mode == "balanced" && has_list) {
    FailField(layer, "loss_param.class_weighting_mode",
              "class_weighting_mode \"balanced\" takes its weights from the labels of each batch; "
              "remove the list of weights");
  }
  // weight_by_label_freqs without a list can only mean the label frequencies.
  return mode == "balanced" || (param.weight_by_label_freqs() && !has_list);
}

}  // namespace

ClassWeights::ClassWeights(const Layer& layer) {
  const LossParameter& param = layer.param().loss_param();
  balanced_ = IsBalanced(layer, param);
  if (param.class_weight_size() > 0 && param.class_weighting_size() > 0) {
    FailField(layer, "loss_param.class_weighting",
              "class_weight and class_weighting are two names of one list; give one of them");
  }
  if (param.class_weight_size() > 0) {
    list_.assign(param.class_weight().begin(), param.class_weight().end());
  } else if (SegNetListCounts(param)) {
    list_.assign(param.class_weighting().begin(), param.class_weighting().end());
    list_field_ = "class_weighting";
  }
  for (double weight : list_) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    FailField(layer, StrCat("loss_param.", list_field_),
              StrCat(list_field_, " holds ", weight, ", expected finite weights of 0 or more"));
  }
}

void ClassWeights::CheckCount(const Layer& layer, int64_t classes) const {
  if (list_.empty() || static_cast<int64_t>(list_.size()) == classes) return;
  FailField(layer, StrCat("loss_param.", list_field_),
            StrCat("there are ", list_.size(), " values of ", list_field_, " for ", classes,
                   " classes; give one for each"));
}

template <typename T>
void ClassWeights::Factors(std::span<const T> labels, std::optional<int32_t> ignored,
                           std::span<double> factors) const {
  if (!balanced_) {
    if (list_.empty()) {
      std::ranges::fill(factors, 1);
    } else {
      std::ranges::copy(list_, factors.begin());
    }
    return;
  }
  std::ranges::fill(factors, 0);
  double all = 0;
  for (const T label : labels) {
    if (ignored && static_cast<double>(label) == *ignored) continue;
    ++factors[static_cast<size_t>(label)];
    ++all;
  }
  const auto held =
      static_cast<double>(factors.size()) - static_cast<double>(std::ranges::count(factors, 0.0));
  for (double& factor : factors) {
    if (factor > 0) factor = all / (held * factor);
  }
}

template void ClassWeights::Factors(std::span<const float>, std::optional<int32_t>,
                                    std::span<double>) const;
template void ClassWeights::Factors(std::span<const double>, std::optional<int32_t>,
                                    std::span<double>) const;

}  // namespace crema
