#include "solvers/batch_choice.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/exec_context.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/field_setting.h"
#include "runtime/epoch_runner.h"
#include "solvers/run_memory.h"

namespace crema {
namespace {

constexpr int64_t kStep = 8;

class Chooser {
 public:
  Chooser(const std::function<RunConfig(int64_t)>& config_of, const Registry& registry,
          PlanOptions options, int64_t memory)
      : config_of_(config_of),
        registry_(registry),
        options_(std::move(options)),
        usable_(memory / 10 * 9) {
    options_.implementation_timer = nullptr;
  }

  BatchChoice Choose() {
    const RunConfig written = config_of_(0);
    const std::shared_ptr<const Plan> plan = PlanOf(written.train);
    choice_.written = FirstBatch(*plan);
    RequireFreeBatch(*plan);
    const int64_t samples = SamplesOf(*plan);
    const bool few = samples > 0 && samples < kLargestChosenBatch;
    const std::vector<int64_t> sizes = Sizes(few ? samples : kLargestChosenBatch);
    const auto first_too_large = std::ranges::partition_point(
        sizes, [&](int64_t batch) { return BytesOf(batch) <= usable_; });
    if (first_too_large == sizes.begin()) FailAll();
    choice_.batch = *(first_too_large - 1);
    choice_.needed = BytesOf(choice_.batch);
    choice_.limit = first_too_large != sizes.end() ? StrCat(*first_too_large, " would need ",
                                                            Mebibytes(BytesOf(*first_too_large)))
                    : few ? StrCat("the data set has ", samples, " samples")
                          : StrCat(kLargestChosenBatch, " is the most that AUTO takes");
    return choice_;
  }

 private:
  std::shared_ptr<const Plan> PlanOf(const NetOfRun& net) const {
    std::vector<Problem> reported_by_the_run;
    return PlanNetOfRun(net, registry_, options_, &reported_by_the_run);
  }

  // Throws unless other batches can be planned, as the batch is written in the data layers alone.
  void RequireFreeBatch(const Plan& plan) const {
    for (const PlannedLayer& layer : plan.layers) {
      const ReshapeParameter& reshape = layer.layer->param().reshape_param();
      const BlobShape& shape = reshape.shape();
      const bool names_batch = layer.type->name == "Reshape" && reshape.axis() == 0 &&
                               shape.dim_size() > 0 && shape.dim(0) == choice_.written &&
                               choice_.written > 1;
      if (names_batch) FailFixed(layer.name(), StrCat("its first dim is ", choice_.written));
    }
    const RunConfig other = config_of_(choice_.written == kStep ? 2 * kStep : kStep);
    try {
      PlanOf(other.train);
    } catch (const Error& error) {
      const Problem& problem = error.problems().front();
      if (problem.code == ErrorCode::kInternal) throw;
      FailFixed(problem.where.layer, problem.message);
    }
  }

  [[noreturn]] void FailFixed(const std::string& layer, const std::string& reason) const {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("batch_size=AUTO: the net works with its batch of ", choice_.written,
                " only: ", reason, "; a Reshape takes the batch of its bottom with dim: 0"),
         {.layer = layer});
  }

  [[noreturn]] void FailAll() {
    Fail(
        ErrorCode::kOutOfMemory,
        StrCat("batch_size=AUTO: not even a batch of 1 fits: the nets need ", Mebibytes(BytesOf(1)),
               " of memory, and there are ", Mebibytes(usable_), " for them"));
  }

  // 1, 2, 4 and the multiples of kStep.
  static std::vector<int64_t> Sizes(int64_t most) {
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size <= most; size += size < kStep ? size : kStep) sizes.push_back(size);
    return sizes;
  }

  // Returns the size of the smallest data set; 0 if none has an end.
  static int64_t SamplesOf(const Plan& plan) {
    int64_t least = 0;
    for (const PlannedLayer& layer : plan.layers) {
      if (!layer.inputs.empty()) continue;
      const auto state = layer.layer->MakeState(ExecContext(1, 1), TRAIN);
      const int64_t samples = state == nullptr ? 0 : state->EpochSize();
      if (samples > 0 && (least == 0 || samples < least)) least = samples;
    }
    return least;
  }

  int64_t BytesOf(int64_t batch) const {
    const RunConfig config = config_of_(batch);
    return RunBytes(config, registry_, *PlanOf(config.train));
  }

  const std::function<RunConfig(int64_t)>& config_of_;
  const Registry& registry_;
  PlanOptions options_;
  const int64_t usable_;
  BatchChoice choice_;
};

}  // namespace

BatchChoice ChooseBatch(const std::function<RunConfig(int64_t batch)>& config_of,
                        const Registry& registry, const PlanOptions& options, int64_t memory) {
  return Chooser(config_of, registry, options, memory).Choose();
}

}  // namespace crema
