// Writes TensorBoard's event file of a run folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/event_file.h"
#include "report/pace.h"
#include "report/run_folder.h"
#include "runtime/session.h"
#include "solvers/training_observer.h"

namespace crema {

struct EventOptions {
  RunStart start = RunStart::kFresh;
  int64_t first_iteration = 0;     // of a continued run: supersedes earlier files from here on
  int64_t interval = 0;            // of scalars; 0: displayed iterations
  int64_t histogram_interval = 0;  // of parameters and gradients; 0: none
};

// Writes scalars, the graph, and optionally histograms of parameters and gradients. The gradients
// are those accumulated by the iteration and not yet applied. Thread safety: one thread.
class TensorboardWriter final : public TrainingObserver {
 public:
  // Each start has its own file. All arguments must outlive this.
  TensorboardWriter(RunFolder& folder, Session& session, EventOptions options);

  void OnIteration(const IterationReport& report) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshotStart() override { file_.Sync(); }

 private:
  std::string Beginning() const;
  void WriteHistograms(int64_t iteration);

  Session& session_;
  EventOptions options_;
  const std::string folder_;
  Pace pace_;  // since the last scalars
  GrowingFile file_;
};

// Returns the values with tags "<group>/<blob>", followed by "/<element>" if a blob has several.
std::vector<NamedScalar> ScalarsOf(const std::string& group,
                                   const std::vector<OutputValue>& outputs);

// Returns a name that sorts after the event files in `folder`, whatever the clock:
// events.out.tfevents.<seconds>.<host>.<process>.
std::string NextEventFile(const std::string& folder);

// Returns a serialised GraphDef with one node per layer: its type, inputs and output shapes. Omits
// inserted Splits. Replaces characters that TensorBoard does not allow in names by '_', and numbers
// layers of equal names.
std::string GraphDefOf(const Plan& plan);

}  // namespace crema
