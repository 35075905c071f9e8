#include "solvers/epochs.h"

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/epoch_runner.h"

namespace crema {

double Epochs::After(int64_t iterations) const {
  if (!known()) return 0;
  return static_cast<double>(iterations) * static_cast<double>(per_iteration_) /
         static_cast<double>(samples_);
}

int64_t Epochs::IterationsOf(int64_t epochs) const {
  CREMA_CHECK(known());
  return (epochs * samples_ + per_iteration_ - 1) / per_iteration_;
}

int64_t Epochs::Count(int64_t iterations, int64_t every) const {
  return iterations * per_iteration_ / (every * samples_);
}

bool Epochs::EndsAt(int64_t iterations, int64_t every) const {
  if (!known() || every <= 0) return false;
  return iterations == 0 || Count(iterations, every) > Count(iterations - 1, every);
}

Epochs RequireEpochs(const Session& train, int iter_size, const char* field) {
  const DataEpoch epoch =
      EpochOf(train, StrCat(field, " counts passes over the data: count iterations instead"));
  return {epoch.samples, epoch.batch * iter_size};
}

Epochs EpochsOf(const Session& train, int iter_size) {
  try {
    return RequireEpochs(train, iter_size, "");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return {};
  }
}

Epochs CountEpochs(const Session& train, SolverFile* solver) {
  SolverParameter& param = solver->solver;
  const char* field = param.max_epoch() > 0             ? "max_epoch"
                      : param.snapshot_epoch() > 0      ? "snapshot_epoch"
                      : param.test_interval_epoch() > 0 ? "test_interval_epoch"
                                                        : nullptr;
  if (field == nullptr) return {};
  Epochs epochs;
  try {
    epochs = RequireEpochs(train, param.iter_size(), field);
  } catch (const Error& error) {
    Fail(error.code(), error.problems().front().message, solver->source.Locate(field));
  }
  if (param.max_epoch() == 0) return epochs;
  const int64_t iterations = epochs.IterationsOf(param.max_epoch());
  if (iterations > INT32_MAX) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("max_epoch is ", iterations, " iterations; at most ", INT32_MAX, " can be counted"),
         solver->source.Locate("max_epoch"));
  }
  param.set_max_iter(static_cast<int>(iterations));
  return epochs;
}

}  // namespace crema
