#include <string_view>

#include "math/blocked_bias.h"
#include "math/cpu/onednn/own_weight_gradient.h"
#include "math/cpu/onednn/pieces.h"

namespace crema::onednn {

std::optional<OwnWeightGradient> OwnWeightGradient::Choose(const BlockedConvConfig& c,
                                                           const ToWeightDesc& desc) {
  if (!c.bfloat16 || c.plain_input || c.channels_last) return std::nullopt;
  if (!IsBF16GradientShape(c.shape)) return std::nullopt;
  // oneDNN 2 uses tiles itself; which are faster is not measured.
  const std::string_view theirs = desc.impl_info_str();
  if (theirs.find("amx") != std::string_view::npos) return std::nullopt;
  const auto unit = HasBF16Unit(BF16Unit::kTiles) ? BF16Unit::kTiles : BF16Unit::kVectors;
  if (!HasBF16Unit(unit)) return std::nullopt;
  if (!IsReference(desc) && !BF16GradientPays(unit, c.shape)) return std::nullopt;
  return OwnWeightGradient(c, unit);
}

void OwnWeightGradient::Run(const BlockedConvGrads& grads, const void* dy,
                            std::span<std::byte> scratch) const {
  const auto* x = static_cast<const BFloat16*>(grads.x);
  const auto* gradients = static_cast<const BFloat16*>(dy);
  if (grads.dweight != nullptr) {
    BF16WeightGradient(unit_, shape_, threads_, x, gradients, grads.dweight, scratch);
  }
  if (grads.dbias != nullptr) {
    AddBlockedChannelSums(threads_, shape_.batch, shape_.out_channels, shape_.h.out * shape_.w.out,
                          gradients, grads.dbias);
  }
}

}  // namespace crema::onednn
