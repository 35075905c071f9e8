#include "solvers/epochs.h"

#include "core/error.h"
#include "core/strings.h"
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

}  // namespace crema
