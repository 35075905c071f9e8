// The results of check, summary and draw, in Python.
#include "look.h"

#include <nanobind/stl/map.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "arrays.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/dot.h"
#include "graph/infer.h"
#include "log.h"
#include "plan/net_costs.h"
#include "python_layer.h"
#include "solvers/check_run.h"
#include "user_code.h"

namespace crema::python {
namespace {

// A path, or else prototxt.
struct Source {
  std::string text;
  bool is_path;
};

NetFile NetOf(const Source& source) {
  return source.is_path ? ReadNet(source.text) : ParseNet(source.text, "<text>");
}

SolverFile SolverOf(const Source& source) {
  return source.is_path ? ReadSolver(source.text) : ParseSolver(source.text, "<text>");
}

// Returns the phases that rules of layers name; TEST if there are none.
std::set<Phase> PhasesOf(const NetParameter& net) {
  std::set<Phase> phases;
  if (net.state().has_phase()) return {net.state().phase()};
  for (const LayerParameter& layer : net.layer()) {
    for (const NetStateRule& rule : layer.include()) {
      if (rule.has_phase()) phases.insert(rule.phase());
    }
    for (const NetStateRule& rule : layer.exclude()) {
      if (rule.has_phase()) phases.insert(rule.phase() == TRAIN ? TEST : TRAIN);
    }
  }
  return phases.empty() ? std::set<Phase>{TEST} : phases;
}

// Collects the problems that `body` throws, each once.
template <typename Body>
void Collect(std::vector<Problem>* problems, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kOutOfMemory) throw;
    for (const Problem& problem : error.problems()) {
      const auto same = [&](const Problem& p) { return ToString(p) == ToString(problem); };
      if (std::ranges::none_of(*problems, same)) problems->push_back(problem);
    }
  }
}

void PlanAs(Phase phase, const NetParameter& net, const NetFile& file) {
  NetState state = net.state();
  state.set_phase(phase);
  std::vector<Problem> ignored;
  MakePlan(net, file.source, state, Layers(), {.backward = phase == TRAIN}, &ignored);
}

CheckReport CheckNet(const Source& source) {
  CheckReport report;
  Collect(&report.problems, [&] {
    const NetFile file = NetOf(source);
    report.warnings = file.warnings;
    for (const Phase phase : PhasesOf(file.net)) {
      Collect(&report.problems, [&] { PlanAs(phase, file.net, file); });
      // Missing data hide later problems.
      Collect(&report.problems, [&] {
        NetParameter without_data = file.net;
        ReplaceSources({}, Layers(), &without_data);
        PlanAs(phase, without_data, file);
      });
    }
  });
  return report;
}

CheckReport CheckSolver(const Source& source, int threads, int64_t samples) {
  CheckReport report;
  Collect(&report.problems, [&] {
    const SolverFile solver = SolverOf(source);
    WeightsFiles weights;
    weights.paths = {solver.solver.weights().begin(), solver.solver.weights().end()};
    report = CheckRun(solver, Layers(),
                      {.threads = threads, .samples = samples, .weights = std::move(weights)});
  });
  return report;
}

nb::list Check(const std::string& text, bool is_path, bool is_net, int threads, int64_t samples) {
  CheckReport report;
  {
    const GilReleased released;
    const Apart apart;  // a layer may call this while its net is planned
    const ListExceptions lists;
    const Source source{text, is_path};
    report = is_net ? CheckNet(source) : CheckSolver(source, threads, samples);
    for (const Problem& warning : report.warnings) {
      Log().Write(Severity::kWarning, ToString(warning));
    }
  }
  nb::list problems;
  for (const Problem& problem : report.problems) problems.append(ErrorOf(problem));
  return problems;
}

// Returns the table and the JSON object of `summary`, and the net in Graphviz's language.
nb::tuple Summary(const std::string& text, bool is_path, int phase, int level,
                  const std::vector<std::string>& stages, int64_t batch,
                  const std::map<std::string, std::vector<int64_t>>& shapes, int threads) {
  std::string table, json, dot;
  {
    const GilReleased released;
    const Apart apart;  // a layer may call this while its net is planned
    NetFile file = NetOf({text, is_path});
    CostOptions options;
    options.sources.batch = batch;
    for (const auto& [blob, sizes] : shapes) {
      options.sources.given.emplace(blob, Shape(std::span<const int64_t>(sizes)));
    }
    options.state.set_phase(phase == 0 ? TRAIN : TEST);
    options.state.set_level(level);
    for (const std::string& stage : stages) options.state.add_stage(stage);
    options.plan.threads = threads;
    const NetCosts costs = CostsOf(file, Layers(), options);
    table = TextOf(costs);
    json = JsonOf(costs);
    ReplaceSources(options.sources, Layers(), &file.net);
    std::vector<Problem> ignored;
    const Graph graph = BuildGraph(file.net, file.source, options.state, Layers(), &ignored);
    dot = ToDot(graph, InferShapes(graph, {}));
  }
  return nb::make_tuple(table, json, dot);
}

}  // namespace

std::string LayersJson(const Plan& plan) {
  return JsonOf({.net = Summarize(plan), .inference = {}, .training = {}, .no_training = "-"});
}

void BindLook(nb::module_& module) {
  module.def("check", &Check,
             nb::sig("def check(text: str, is_path: bool, is_net: bool, threads: int, samples: int)"
                     " -> list[crema._errors.Error]"));
  module.def("summary", &Summary,
             nb::sig("def summary(text: str, is_path: bool, phase: int, level: int, stages: "
                     "collections.abc.Sequence[str], batch: int, shapes: collections.abc.Mapping["
                     "str, collections.abc.Sequence[int]], threads: int) -> tuple[str, str, str]"));
}

}  // namespace crema::python
