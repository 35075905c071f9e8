#include "runtime/memory_fit.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "core/strings.h"
#include "plan/memory/liveness.h"
#include "plan/memory/recompute.h"
#include "runtime/epoch_runner.h"

namespace crema {
namespace {

std::string Mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// Returns the bytes of the staging memory of batches on a GPU (SourceTransfer).
int64_t ArrivalBytes(const Plan& plan) {
  if (plan.options.device.type == DeviceType::kCpu) return 0;
  int64_t bytes = 0;
  for (const PlannedLayer& layer : plan.layers) {
    if (!layer.inputs.empty() || !layer.forward || layer.type->name == "Input") continue;
    for (const int v : layer.outputs) {
      bytes += StoredBytes(plan.values[static_cast<size_t>(v)].spec);
    }
  }
  return bytes;
}

template <typename Counts>
int64_t BytesOf(const Plan& plan, const Counts& counts) {
  int64_t elements = 0;
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    if (slot.owner == static_cast<int>(s) && counts(slot)) elements += slot.shape.count();
  }
  return elements * static_cast<int64_t>(SizeOf(plan.options.dtype));
}

struct FullestPass {
  std::string layer;
  const char* pass;
  int64_t bytes;
};

// Finds the pass where the largest part of the arena is live.
FullestPass FindFullest(const Plan& plan) {
  Plan copy = plan;
  const std::vector<int64_t> live = LiveBytes(FindLifetimes(&copy));
  const auto most = std::ranges::max_element(live);
  if (most == live.end() || plan.layers.empty()) return {"", "forward", 0};
  const auto step = static_cast<int>(most - live.begin());
  const auto layers = static_cast<int>(plan.layers.size());
  const auto name = [&](int i) { return plan.layers[static_cast<size_t>(i)].name(); };
  if (step < layers) return {name(step), "forward", *most};
  const Timeline timeline(copy);
  int at = layers - 1;  // the first in backward; its recomputed layers run just before it
  while (at > 0 && timeline.Backward(at) < step) --at;
  return {name(at), "backward", *most};
}

// Memory beyond the plan: tables of the update, and rounding by the driver.
constexpr int64_t kSlack = int64_t{1} << 20;

bool Fits(const MemoryShortage& shortage, int64_t batch) {
  return SessionBytes(*shortage.plan_of(batch)) + shortage.others + kSlack <= shortage.free;
}

// Returns 0 if none fits; nothing if the net cannot be planned with other batches (DummyData sets
// its own).
std::optional<int64_t> LargestBatch(const MemoryShortage& shortage) {
  try {
    if (shortage.batch > 1 && FirstBatch(*shortage.plan_of(1)) != 1) return std::nullopt;
    int64_t fits = 0;
    int64_t too_large = shortage.batch;
    while (too_large - fits > 1) {
      const int64_t middle = fits + (too_large - fits) / 2;
      (Fits(shortage, middle) ? fits : too_large) = middle;
    }
    return fits;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string Advice(const MemoryShortage& shortage) {
  const std::optional<int64_t> batch = LargestBatch(shortage);
  if (!batch) return "use a smaller batch";
  if (*batch == 0) return "not even a batch of 1 fits";
  return StrCat("a batch of ", *batch, " fits");
}

}  // namespace

int64_t WeightBytes(const Plan& plan) {
  return BytesOf(plan, [](const ParameterSlot&) { return true; });
}

int64_t GradientBytes(const Plan& plan) {
  return BytesOf(plan, [](const ParameterSlot& slot) { return slot.wants_gradient; });
}

int64_t SessionBytes(const Plan& plan) {
  return plan.arena_bytes + plan.scratch_bytes + WeightBytes(plan) + plan.state_bytes +
         GradientBytes(plan) + ArrivalBytes(plan);
}

Error ExplainShortage(const Error& cause, const MemoryShortage& s) {
  const FullestPass fullest = FindFullest(s.plan);
  std::string text =
      StrCat(s.what, " needs ", Mebibytes(SessionBytes(s.plan) + s.others), " on ",
             ToString(s.plan.options.device), ", of which ", Mebibytes(s.free),
             " are free: ", Mebibytes(s.plan.arena_bytes), " for values (most are live in the ",
             fullest.pass, " pass of this layer, ", Mebibytes(fullest.bytes), "), ",
             Mebibytes(s.plan.scratch_bytes), " for scratch, ",
             Mebibytes(WeightBytes(s.plan) + s.plan.state_bytes), " for weights and ",
             Mebibytes(GradientBytes(s.plan)), " for their gradients");
  if (s.others > 0) text += StrCat(", ", Mebibytes(s.others), " for ", s.of_others);
  text += StrCat(". The batch is ", s.batch, "; ", Advice(s), ". (", cause.what(), ")");
  return Error(Problem{ErrorCode::kOutOfMemory, {.layer = fullest.layer}, std::move(text)});
}

}  // namespace crema
