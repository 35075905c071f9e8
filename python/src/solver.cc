// Training runs in Python.
#include "solvers/solver.h"

#include <nanobind/stl/optional.h>

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "arrays.h"
#include "core/error.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "log.h"
#include "net.h"
#include "solvers/caffe_log.h"
#include "solvers/solver_config.h"
#include "solvers/training_observer.h"

namespace crema::python {
namespace {

nb::dict OutputsOf(const std::vector<OutputValue>& values) {
  nb::dict outputs;
  for (const OutputValue& value : values) {
    const nb::str blob(value.blob.c_str());
    if (!outputs.contains(blob)) outputs[blob] = nb::list();
    nb::cast<nb::list>(outputs[blob]).append(value.value);
  }
  return outputs;
}

// Calls functions of the program with a dict for each event.
class Callbacks final : public TrainingObserver {
 public:
  using Functions = std::vector<nb::object>;

  void OnIterationStart() override { Call(on_start); }
  void OnGradients() override { Call(on_gradients); }
  void OnIteration(const IterationReport& report) override {
    if (on_iteration.empty()) return;
    const GilHeld gil;
    nb::dict event;
    event["iteration"] = report.iteration;
    event["loss"] = report.loss;
    event["smoothed_loss"] = report.smoothed_loss;
    event["rate"] = report.rate;
    event["seconds"] = report.seconds;
    event["epoch"] = report.epoch;
    event["outputs"] = OutputsOf(report.outputs);
    for (const nb::object& function : on_iteration) function(event);
  }
  void OnTest(const TestReport& report) override {
    if (on_test.empty()) return;
    const GilHeld gil;
    nb::dict event;
    event["iteration"] = report.iteration;
    event["net"] = report.net;
    event["loss"] = report.has_loss ? nb::object(nb::float_(report.loss)) : nb::none();
    event["outputs"] = OutputsOf(report.outputs);
    for (const nb::object& function : on_test) function(event);
  }
  void OnSnapshot(const std::string& model, const std::string& state) override {
    if (on_snapshot.empty()) return;
    const GilHeld gil;
    nb::dict event;
    event["model"] = model;
    event["state"] = state;
    for (const nb::object& function : on_snapshot) function(event);
  }

  // The functions of each event, by its name.
  std::array<std::pair<const char*, Functions*>, 5> Lists() {
    return {{{"start", &on_start},
             {"gradients", &on_gradients},
             {"iteration", &on_iteration},
             {"test", &on_test},
             {"snapshot", &on_snapshot}}};
  }

  Functions on_start, on_gradients, on_iteration, on_test, on_snapshot;

 private:
  static void Call(const Functions& functions) {
    if (functions.empty()) return;
    const GilHeld gil;
    for (const nb::object& function : functions) function();
  }
};

struct PySolver {
  std::shared_ptr<Guard> guard = std::make_shared<Guard>();
  std::shared_ptr<PythonObjects> objects = std::make_shared<PythonObjects>();
  Callbacks callbacks;
  std::optional<CaffeLog> log;
  ObserverList observers;
  bool interrupted = false;        // Ctrl-C since the call began
  std::shared_ptr<Solver> solver;  // arrays of its nets own it too
};
using SolverPtr = std::shared_ptr<PySolver>;

// Lets Python handle its signals. Ctrl-C stops training after a snapshot, as in the command.
Request PollSignals(PySolver* solver) {
  const GilHeld gil;
  if (PyErr_CheckSignals() == 0) return Request::kNone;
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0) throw nb::python_error();
  PyErr_Clear();
  solver->interrupted = true;
  return Request::kStop;
}

SolverPtr Make(SolverFile file, const std::string& type, int threads,
               std::optional<uint64_t> seed) {
  auto made = std::make_shared<PySolver>();
  if (!type.empty()) file.solver.set_type(type);
  RunConfig config = MakeRunConfig(std::move(file));
  const SolverParameter& param = config.solver.solver;
  made->log.emplace(Log(), param.lr_policy(), param.display());
  made->observers.Add(*made->log);
  made->observers.Add(made->callbacks);
  SolverOptions options{.threads = threads,
                        .log = &Log(),
                        .observer = &made->observers,
                        .poll = [raw = made.get()] { return PollSignals(raw); },
                        .seed = seed};
  options.plan.optimize = false;  // programs read and write blobs
  const std::vector<std::string> weights(param.weights().begin(), param.weights().end());
  const ReuseObjects reuse(made->objects.get(), false);
  made->solver = std::make_shared<Solver>(std::move(config), Layers(), std::move(options));
  SetInitialParameters(made->solver->plan(), &made->solver->session());
  if (!weights.empty()) made->solver->LoadWeights(weights);
  return made;
}

SolverPtr OpenFile(const std::string& path, const std::string& type, int threads,
                   std::optional<uint64_t> seed) {
  const GilReleased released;
  return Make(ReadSolver(path), type, threads, seed);
}

SolverPtr OpenText(const std::string& text, const std::string& type, int threads,
                   std::optional<uint64_t> seed) {
  const GilReleased released;
  return Make(ParseSolver(text, "<text>"), type, threads, seed);
}

// Runs part of the training, then raises KeyboardInterrupt if Ctrl-C has stopped it.
template <typename Body>
void Train(const SolverPtr& solver, Body&& body) {
  const Guard::Run run(*solver->guard);
  solver->interrupted = false;
  {
    const GilReleased released;
    const RunningNet running(solver->solver);
    body(*solver->solver);
  }
  if (!solver->interrupted) return;
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw nb::python_error();
}

std::shared_ptr<Net> NetOf(const SolverPtr& solver, Session* session) {
  return NetOf(solver->guard, solver->objects, {solver->solver, session});
}

nb::list TestNets(const SolverPtr& solver) {
  nb::list nets;
  for (size_t i = 0; i < solver->solver->test_count(); ++i) {
    nets.append(NetOf(solver, &solver->solver->test_session(i)));
  }
  return nets;
}

void AddCallback(const SolverPtr& solver, const std::string& event, nb::object function) {
  for (const auto& [name, functions] : solver->callbacks.Lists()) {
    if (event == name) return functions->push_back(std::move(function));
  }
  Fail(ErrorCode::kInvalidArgument,
       "a solver has no event '" + event + "'; it has start, gradients, iteration, test, snapshot");
}

// Show the garbage collector the callbacks, which may refer to their solver.
int TraverseSolver(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const auto& [name, functions] : nb::inst_ptr<PySolver>(self)->callbacks.Lists()) {
    for (const nb::object& function : *functions) Py_VISIT(function.ptr());
  }
  return 0;
}

int ClearSolver(PyObject* self) {
  for (const auto& [name, functions] : nb::inst_ptr<PySolver>(self)->callbacks.Lists()) {
    functions->clear();
  }
  return 0;
}

PyType_Slot kSolverSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(TraverseSolver)},
                              {Py_tp_clear, reinterpret_cast<void*>(ClearSolver)},
                              {0, nullptr}};

}  // namespace

void BindSolver(nb::module_& module) {
  nb::class_<PySolver>(module, "Solver", nb::type_slots(kSolverSlots), "A training run.")
      .def_static("open", &OpenFile, nb::arg("path"), nb::arg("type") = "", nb::arg("threads") = 0,
                  nb::arg("seed") = nb::none())
      .def_static("parse", &OpenText, nb::arg("text"), nb::arg("type") = "", nb::arg("threads") = 0,
                  nb::arg("seed") = nb::none())
      .def_prop_ro(
          "net", [](const SolverPtr& solver) { return NetOf(solver, &solver->solver->session()); })
      .def_prop_ro("test_nets", &TestNets, nb::sig("def test_nets(self) -> list[Net]"))
      .def_prop_ro("iteration", [](const SolverPtr& solver) { return solver->solver->iteration(); })
      .def_prop_ro("rate", [](const SolverPtr& solver) { return solver->solver->rate(); })
      .def_prop_ro(
          "text",
          [](const SolverPtr& solver) { return PrintText(solver->solver->config().solver.solver); })
      .def("solve", [](const SolverPtr& solver) { Train(solver, [](Solver& of) { of.Solve(); }); })
      .def("step", [](const SolverPtr& solver,
                      int64_t count) { Train(solver, [count](Solver& of) { of.Step(count); }); })
      .def("update",
           [](const SolverPtr& solver) { Train(solver, [](Solver& of) { of.Update(); }); })
      .def("snapshot",
           [](const SolverPtr& solver) { Train(solver, [](Solver& of) { of.Snapshot(); }); })
      .def("restore",
           [](const SolverPtr& solver, const std::string& path) {
             Train(solver, [&path](Solver& of) { of.Restore(path); });
           })
      .def("load",
           [](const SolverPtr& solver, const std::vector<std::string>& paths) {
             Train(solver, [&paths](Solver& of) { of.LoadWeights(paths); });
           })
      .def(
          "test",
          [](const SolverPtr& solver, size_t net) {
            TestReport report;
            Train(solver, [&](Solver& of) {
              if (net >= of.test_count()) {
                Fail(ErrorCode::kNotFound,
                     "the run has " + std::to_string(of.test_count()) + " test nets");
              }
              report = of.Test(net);
            });
            return OutputsOf(report.outputs);
          },
          nb::sig("def test(self, net: int) -> dict[str, list[float]]"))
      .def("add_callback", &AddCallback, nb::arg("event"), nb::arg("function"));
}

}  // namespace crema::python
