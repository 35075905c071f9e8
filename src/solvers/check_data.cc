#include "solvers/check_data.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/strings.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"
#include "solvers/diagnose.h"

namespace crema {
namespace {

constexpr size_t kMostProblems = 10;  // of one net

// The shortest source; 0 when none has an end.
int64_t ShortestEpoch(const Session& session) {
  int64_t epoch = 0;
  for (size_t i = 0; i < session.plan().layers.size(); ++i) {
    const LayerSessionState* state = session.state(i);
    const int64_t size = state == nullptr ? 0 : state->EpochSize();
    if (size > 0 && (epoch == 0 || size < epoch)) epoch = size;
  }
  return epoch;
}

// Readers stay before a batch that they cannot read.
void GoBehind(const PassMark& bad, int64_t batch, Session* session) {
  SolverState readers = bad.readers();
  for (LayerState& layer : *readers.mutable_layer_state()) {
    if (layer.has_position()) layer.set_position(layer.position() + static_cast<uint64_t>(batch));
  }
  session->RestoreState("train", readers);
}

bool IsAboutData(const Error& error) { return ExitCode(error.code()) == 3; }

}  // namespace

std::vector<Problem> CheckData(const DataCheck& check, const Weights& weights,
                               CheckedNet* checked) {
  std::vector<Problem> warnings;  // planned before, and told then
  const auto plan =
      MakePlan(check.net.file.net, check.net.file.source, check.net.state, check.registry,
               {.threads = check.threads, .backward = false}, &warnings);
  const std::shared_ptr<const Weights> shared = Weights::ShareWith(*plan, weights, check.seed);
  Session session(plan, shared, ExecContext(check.threads, check.seed));
  checked->batch = FirstBatch(*plan);
  checked->epoch = ShortestEpoch(session);
  int64_t samples = check.samples;
  if (checked->epoch > 0) samples = std::min(samples, checked->epoch);
  std::vector<Problem> problems;
  PassMark mark;
  for (int64_t done = 0; done < samples && problems.size() < kMostProblems;
       done += checked->batch) {
    mark.Take(session);
    try {
      const double loss = session.Forward();
      if (!std::isfinite(loss)) {
        const DivergedRun run{.iteration = done / checked->batch};
        throw DiagnoseDivergence(check.net, check.registry, session, *shared, mark, loss, run);
      }
      if (checked->samples == 0) checked->loss = loss;
      checked->samples += checked->batch;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      problems.push_back(error.problems().front());
      if (error.code() == ErrorCode::kDiverged) problems.back().code = ErrorCode::kDataLoss;
      if (!IsAboutData(Error(problems.back()))) return problems;
      GoBehind(mark, checked->batch, &session);
    }
  }
  return problems;
}

}  // namespace crema
