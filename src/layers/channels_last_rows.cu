#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "layers/channels_last_row.h"
#include "layers/channels_last_rows.h"
#include "layers/through_row_major.h"

namespace crema {
namespace {

// Of those that rows on halves are made for.
constexpr std::array<std::string_view, 14> kTypes{
    "AbsVal", "Clip", "ELU",   "Eltwise", "GELU",  "HardSigmoid", "HardSwish",
    "Mish",   "ReLU", "ReLU6", "Sigmoid", "Split", "Swish",       "TanH"};

// Those by cuDNN may say no to other extents than a plan's.
constexpr std::array<std::string_view, 5> kConvolutions{"Convolution", "Convolution3D",
                                                        "ConvolutionDepthwise", "Deconvolution",
                                                        "DepthwiseConvolution"};

// The only row of GPUs so far.
Kernel RowOf(const Registry& registry, std::string_view type) {
  std::vector<Kernel> rows;
  for (const Kernel& row : registry.Find(type)->kernels) {
    if (row.device == DeviceType::kCuda) rows.push_back(row);
  }
  CREMA_CHECK(rows.size() == 1);
  return std::move(rows[0]);
}

}  // namespace

void AddChannelsLastRows(Registry* registry) {
  for (const std::string_view type : kTypes) {
    registry->AddKernel(type, InChannelsLast(RowOf(*registry, type)));
  }
  for (const std::string_view type : kConvolutions) {
    registry->AddKernel(type, ThroughRowMajor(RowOf(*registry, type)));
  }
}

}  // namespace crema
