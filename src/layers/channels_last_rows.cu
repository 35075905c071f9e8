#include <array>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "layers/channels_last_row.h"
#include "layers/channels_last_rows.h"

namespace crema {
namespace {

// Of those that rows on halves are made for.
constexpr std::array<std::string_view, 14> kTypes{
    "AbsVal", "Clip", "ELU",   "Eltwise", "GELU",  "HardSigmoid", "HardSwish",
    "Mish",   "ReLU", "ReLU6", "Sigmoid", "Split", "Swish",       "TanH"};

}  // namespace

void AddChannelsLastRows(Registry* registry) {
  for (const std::string_view type : kTypes) {
    std::vector<Kernel> rows;
    for (const Kernel& row : registry->Find(type)->kernels) {
      if (row.device == DeviceType::kCuda) rows.push_back(InChannelsLast(row));
    }
    CREMA_CHECK(rows.size() == 1);
    registry->AddKernel(type, std::move(rows[0]));
  }
}

}  // namespace crema
