#include "report/run_recorder.h"

#include "report/run_description.h"

namespace crema {
namespace {

RunFacts FactsOf(const Solver& solver, const RecorderOptions& options) {
  return {.command = options.command,
          .seed = solver.seed(),
          .threads = options.threads,
          .iteration = solver.iteration()};
}

}  // namespace

RunRecorder::RunRecorder(Solver& solver, const RecorderOptions& options, LogSink& log)
    : folder_(options.folder, options.start, RunTexts(solver.config(), FactsOf(solver, options)),
              log),
      starts_(folder_, "starts.jsonl", [] { return std::string(); }),
      metrics_(folder_, solver.iteration(), options.interval),
      events_(folder_, solver.session(),
              {.start = options.start,
               .first_iteration = solver.iteration(),
               .interval = options.interval,
               .histogram_interval = options.histogram_interval}) {
  starts_.Append(folder_.text("run.json"));
  observers_.Add(metrics_);
  observers_.Add(events_);
}

}  // namespace crema
