#include "solvers/check_data.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"
#include "solvers/diagnose.h"

namespace crema {
namespace {

constexpr size_t kMostProblems = 10;  // of one net
// A net that fails in every batch would be planned and run once more for each.
constexpr int64_t kMostBadBatches = 100;

// Returns the size of the smallest source; 0 if all are endless.
int64_t ShortestEpoch(const Session& session) {
  int64_t epoch = 0;
  for (size_t i = 0; i < session.plan().layers.size(); ++i) {
    const LayerSessionState* state = session.state(i);
    const int64_t size = state == nullptr ? 0 : state->EpochSize();
    if (size > 0 && (epoch == 0 || size < epoch)) epoch = size;
  }
  return epoch;
}

// Moves readers past a batch that they cannot read.
void SkipBatch(const PassMark& bad, int64_t batch, Session* session) {
  SolverState readers = bad.readers();
  for (LayerState& layer : *readers.mutable_layer_state()) {
    if (layer.has_position()) layer.set_position(layer.position() + static_cast<uint64_t>(batch));
  }
  session->RestoreState("train", readers);
}

bool IsAboutData(const Problem& problem) { return ExitCode(problem.code) == 3; }

// The problems of batches, each once.
class BadBatches {
 public:
  // `begin` is put before the first message of this problem.
  void Add(const Problem& problem, const std::string& begin = "") {
    ++batches_;
    for (Entry& entry : entries_) {
      if (ToString(entry.problem) != ToString(problem)) continue;
      ++entry.more;
      return;
    }
    entries_.push_back({problem, begin});
  }

  bool IsFull() const { return entries_.size() >= kMostProblems || batches_ >= kMostBadBatches; }

  std::vector<Problem> Report() const {
    std::vector<Problem> problems;
    for (const Entry& entry : entries_) {
      Problem& told = problems.emplace_back(entry.problem);
      told.message = entry.begin + told.message;
      if (entry.more == 0) continue;
      told.message +=
          StrCat("; the same in ", entry.more, entry.more == 1 ? " more batch" : " more batches");
    }
    return problems;
  }

 private:
  struct Entry {
    Problem problem;
    std::string begin;
    int64_t more = 0;  // batches, besides the first
  };

  std::vector<Entry> entries_;
  int64_t batches_ = 0;
};

// The session, its data, and the findings.
class BatchChecker {
 public:
  BatchChecker(const DataCheck& check, const Weights& weights, Session* session,
               CheckedNet* checked)
      : check_(check), weights_(weights), session_(*session), checked_(*checked) {}

  std::vector<Problem> Check(int64_t samples) {
    for (int64_t done = 0; done < samples && !bad_.IsFull(); done += checked_.batch) {
      mark_.Take(session_);
      if (!Run(done / checked_.batch)) break;
    }
    return bad_.Report();
  }

 private:
  // Returns false if the data after this batch cannot be read.
  bool Run(int64_t batch) {
    try {
      const double loss = session_.Forward();
      if (!std::isfinite(loss)) {
        AddBroken(batch, loss);
        return true;
      }
      if (checked_.samples == 0) checked_.loss = loss;
      checked_.samples += checked_.batch;
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      bad_.Add(error.problems().front());
      if (!IsAboutData(error.problems().front())) return false;
      SkipBatch(mark_, checked_.batch, &session_);
      return true;
    }
  }

  // Nothing was trained yet: neither rate nor snapshot matters.
  void AddBroken(int64_t batch, double loss) {
    const BrokenPass pass =
        DiagnosePass(check_.net, check_.registry, session_, weights_, mark_, /*iteration=*/0);
    const std::string samples = pass.samples.empty() ? "" : StrCat(" (samples ", pass.samples, ")");
    bad_.Add({ErrorCode::kDataLoss, {.layer = pass.layer}, pass.text},
             StrCat("the loss of batch ", batch, samples, " is ", PrintNumber(loss), ". "));
  }

  const DataCheck& check_;
  const Weights& weights_;
  Session& session_;
  CheckedNet& checked_;
  BadBatches bad_;
  PassMark mark_;
};

}  // namespace

std::vector<Problem> CheckData(const DataCheck& check, const Weights& weights,
                               CheckedNet* checked) {
  std::vector<Problem> warnings;  // from planning, reported at the end
  const auto plan =
      MakePlan(check.net.file.net, check.net.file.source, check.net.state, check.registry,
               {.threads = check.threads, .backward = false}, &warnings);
  const std::shared_ptr<const Weights> shared = Weights::ShareWith(*plan, weights, check.seed);
  Session session(plan, shared, ExecContext(check.threads, check.seed));
  checked->batch = FirstBatch(*plan);
  checked->epoch = ShortestEpoch(session);
  if (check.on_open) check.on_open(session);
  int64_t samples = check.samples;
  if (checked->epoch > 0) samples = std::min(samples, checked->epoch);
  return BatchChecker(check, *shared, &session, checked).Check(samples);
}

}  // namespace crema
