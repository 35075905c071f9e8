// Training runs in Python.
#include "solvers/solver.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "arrays.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "feed.h"
#include "format/prototxt.h"
#include "log.h"
#include "net.h"
#include "report/tensorboard_writer.h"
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
    const Apart apart;
    nb::dict event;
    event["iteration"] = report.iteration;
    event["loss"] = report.loss;
    event["smoothed_loss"] = report.smoothed_loss;
    event["rate"] = report.rate;
    event["seconds"] = report.seconds;
    event["wait_seconds"] = report.wait_seconds;
    event["epoch"] = report.epoch;
    event["outputs"] = OutputsOf(report.outputs);
    try {
      for (const nb::object& function : Functions(on_iteration)) {
        WaitIfExiting([&] { function(event); });
      }
    } catch (const nb::python_error&) {
      raised = std::current_exception();
    }
  }
  void OnTest(const TestReport& report) override {
    if (on_test.empty()) return;
    const GilHeld gil;
    const Apart apart;
    nb::dict event;
    event["iteration"] = report.iteration;
    event["net"] = report.net;
    event["loss"] = report.has_loss ? nb::object(nb::float_(report.loss)) : nb::none();
    event["outputs"] = OutputsOf(report.outputs);
    for (const nb::object& function : Functions(on_test)) WaitIfExiting([&] { function(event); });
  }
  void OnSnapshot(const std::string& model, const std::string& state) override {
    if (on_snapshot.empty()) return;
    const GilHeld gil;
    const Apart apart;
    nb::dict event;
    event["model"] = model;
    event["state"] = state;
    for (const nb::object& function : Functions(on_snapshot))
      WaitIfExiting([&] { function(event); });
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
  // An exception of on_iteration, until the iteration has ended: its update follows.
  std::exception_ptr raised;

 private:
  static void Call(const Functions& functions) {
    if (functions.empty()) return;
    const GilHeld gil;
    const Apart apart;
    for (const nb::object& function : functions) function();
  }
};

// Records the metrics of the run, by the names that TensorBoard shows. Thread safety: any number of
// threads.
class Curves final : public TrainingObserver {
 public:
  void OnIteration(const IterationReport& report) override {
    const std::lock_guard lock(ForkSafeMutex());
    Add("train/loss", report.iteration, report.loss);
    Add("train/lr", report.iteration, report.rate);
    Add(report.iteration, ScalarsOf("train_output", report.outputs));
  }
  void OnTest(const TestReport& report) override {
    const std::lock_guard lock(ForkSafeMutex());
    const std::string group = StrCat("test_", report.net);
    Add(report.iteration, ScalarsOf(group, report.outputs));
    if (report.has_loss) Add(group + "/total_loss", report.iteration, report.loss);
  }

  // Returns new arrays.
  nb::dict Arrays() const {
    std::unique_lock lock(ForkSafeMutex());
    const std::map<std::string, Curve> curves = curves_;
    lock.unlock();  // a thread that holds the GIL may wait for it
    const nb::object make = nb::module_::import_("crema._results").attr("Curve");
    nb::dict arrays;
    for (const auto& [name, curve] : curves) {
      arrays[name.c_str()] = make(CopyOf(curve.iterations), CopyOf(curve.values));
    }
    return arrays;
  }

 private:
  struct Curve {
    std::vector<int64_t> iterations;
    std::vector<double> values;
  };

  template <typename T>
  static nb::object CopyOf(const std::vector<T>& values) {
    const nb::ndarray<nb::numpy, const T, nb::ndim<1>> array(values.data(), {values.size()});
    return nb::cast(array, nb::rv_policy::copy);
  }

  void Add(int64_t iteration, const std::vector<NamedScalar>& scalars) {
    for (const NamedScalar& scalar : scalars) Add(scalar.tag, iteration, scalar.value);
  }

  // A run that was restored replaces what came after the snapshot.
  void Add(const std::string& name, int64_t iteration, double value) {
    Curve& curve = curves_[name];
    while (!curve.iterations.empty() && curve.iterations.back() >= iteration) {
      curve.iterations.pop_back();
      curve.values.pop_back();
    }
    curve.iterations.push_back(iteration);
    curve.values.push_back(value);
  }

  std::map<std::string, Curve> curves_;  // under ForkSafeMutex()
};

// Shows where the run is, by crema._progress.Progress while a Shown lives.
class ProgressBar final : public TrainingObserver {
 public:
  void OnIteration(const IterationReport& report) override {
    const auto now = std::chrono::steady_clock::now();
    const bool last = report.iteration + 1 >= report.max_iterations;
    if (!is_shown_ || (!last && now - drawn_ < std::chrono::milliseconds(100))) return;
    drawn_ = now;
    const GilHeld gil;
    WaitIfExiting([&] {
      shown_.attr("update")(report.iteration + 1, report.max_iterations, report.smoothed_loss,
                            report.rate);
    });
  }
  void OnTest(const TestReport& report) override {
    if (!is_shown_) return;
    const GilHeld gil;
    nb::dict values;
    for (const auto& [tag, value] : ScalarsOf(StrCat("test_", report.net), report.outputs)) {
      values[tag.c_str()] = value;
    }
    WaitIfExiting([&] { shown_.attr("test")(report.iteration, values); });
  }

  class Shown {
   public:
    explicit Shown(ProgressBar& bar) : bar_(bar) {
      const GilHeld gil;
      bar_.shown_ = nb::module_::import_("crema._progress").attr("Progress")();
      bar_.is_shown_ = true;
    }
    ~Shown() {
      const GilHeld gil;
      bar_.is_shown_ = false;
      try {
        std::exchange(bar_.shown_, nb::object()).attr("close")();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("closing the progress bar");
      }
    }
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;

   private:
    ProgressBar& bar_;
  };

 private:
  bool is_shown_ = false;
  nb::object shown_;
  std::chrono::steady_clock::time_point drawn_;
};

struct PySolver {
  std::shared_ptr<Guard> guard = std::make_shared<Guard>();
  std::shared_ptr<PythonObjects> objects = std::make_shared<PythonObjects>();
  Callbacks callbacks;
  Curves curves;
  ProgressBar progress;
  std::optional<CaffeLog> log;
  ObserverList observers;
  bool interrupted = false;        // Ctrl-C since the call began
  bool nested = false;             // the call is one of another run, which stops too
  nb::object interrupts;           // a crema._interrupts.Deferred, during a call
  std::shared_ptr<Solver> solver;  // arrays of its nets own it too
};
using SolverPtr = std::shared_ptr<PySolver>;

// Lets Python handle its signals. Ctrl-C stops training after a snapshot, as in the command.
Request PollSignals(PySolver* solver) {
  const GilHeld gil;
  if (std::exception_ptr& raised = solver->callbacks.raised; raised != nullptr) {
    try {
      std::rethrow_exception(raised);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;  // Train clears `raised`
    }
    return Request::kStop;
  }
  const Apart apart;
  if (PyErr_CheckSignals() != 0) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0) throw nb::python_error();
    PyErr_Clear();
    solver->interrupted = true;
  }
  const bool stops = solver->interrupted || nb::cast<bool>(solver->interrupts.attr("seen"));
  return stops ? Request::kStop : Request::kNone;
}

// Data of the program, for the training net and for all test nets; None: they read their own.
struct Data {
  nb::object train, test;
};

void FeedNets(const Data& data, RunConfig* config, PySolver* solver) {
  const auto feed = [&](const nb::object& from, bool whole_passes, NetOfRun* net) {
    FeedNet(from, net->state, whole_passes, solver->guard, &net->file, solver->objects.get());
  };
  ForgetFeeds(&config->train.file);
  for (NetOfRun& net : config->tests) ForgetFeeds(&net.file);
  const GilHeld gil;
  if (!data.train.is_none()) {
    feed(data.train, false, &config->train);
    const auto inputs = InputsOf(config->train.file.net, config->train.state);
    if (!inputs.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the training net has the inputs ", Join(inputs, ", "),
                  ", which data does not set: add arrays of these names to its batches"));
    }
  }
  for (size_t i = 0; i < config->tests.size(); ++i) {
    NetOfRun& net = config->tests[i];
    if (!data.test.is_none()) {
      feed(data.test, config->test_iterations[i] == 0, &net);
    } else if (const auto inputs = InputsOf(net.file.net, net.state);
               !data.train.is_none() && !inputs.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("test net #", i, " has the inputs ", Join(inputs, ", "),
                  ", which nothing sets: give test_data beside data"));
    }
  }
}

SolverPtr Make(SolverFile file, const std::string& type, int threads, std::optional<uint64_t> seed,
               const Data& data) {
  auto made = std::make_shared<PySolver>();
  if (!type.empty()) file.solver.set_type(type);
  RunConfig config = MakeRunConfig(std::move(file));
  FeedNets(data, &config, made.get());
  const SolverParameter& param = config.solver.solver;
  made->log.emplace(Log(), param.lr_policy(), param.display());
  made->observers.Add(*made->log);
  made->observers.Add(made->curves);
  made->observers.Add(made->progress);
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
  if (!weights.empty()) made->solver->LoadWeights(weights);
  return made;
}

SolverPtr OpenFile(const std::filesystem::path& path, const std::string& type, int threads,
                   std::optional<uint64_t> seed, nb::object data, nb::object test_data) {
  const Data both{std::move(data), std::move(test_data)};
  const GilReleased released;
  return Make(ReadSolver(path.string()), type, threads, seed, both);
}

SolverPtr OpenText(const std::string& text, const std::string& type, int threads,
                   std::optional<uint64_t> seed, nb::object data, nb::object test_data) {
  const Data both{std::move(data), std::move(test_data)};
  const GilReleased released;
  return Make(ParseSolver(text, "<text>"), type, threads, seed, both);
}

// While it lives, Ctrl-C ends training after the iteration, also while code of the user runs.
class DeferInterrupts {
 public:
  explicit DeferInterrupts(PySolver* solver) : solver_(*solver) {
    solver_.interrupts = nb::module_::import_("crema._interrupts").attr("Deferred")();
    solver_.interrupted = false;
    solver_.nested = !nb::object(solver_.interrupts.attr("outer")).is_none();
    solver_.callbacks.raised = nullptr;
  }
  ~DeferInterrupts() {
    try {
      if (nb::cast<bool>(solver_.interrupts.attr("end")())) solver_.interrupted = true;
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("crema.Solver");
    }
    solver_.interrupts.reset();
  }
  DeferInterrupts(const DeferInterrupts&) = delete;
  DeferInterrupts& operator=(const DeferInterrupts&) = delete;

 private:
  PySolver& solver_;
};

// Returns the owner of the memory of all nets of the run.
std::shared_ptr<const void> MemoryOf(const std::shared_ptr<Solver>& solver) {
  std::shared_ptr<const void> owner = WithGrown(solver, solver->session());
  for (size_t i = 0; i < solver->test_count(); ++i) {
    owner = WithGrown(std::move(owner), solver->test_session(i));
  }
  return owner;
}

// Runs part of the training, then raises KeyboardInterrupt if Ctrl-C has stopped it. `body` returns
// false if it has not come to its end: the same Ctrl-C stops the outer run anyway.
template <typename Body>
void Train(const SolverPtr& solver, Body&& body) {
  const Guard::Run run(*solver->guard);
  bool ended = false;
  {
    const DeferInterrupts defer(solver.get());
    const GilReleased released;
    const ReuseObjects reuse(solver->objects.get(), false);  // tests plan smaller batches
    const RunningNet running([&] { return MemoryOf(solver->solver); });
    if constexpr (std::is_void_v<decltype(body(*solver->solver))>) {
      body(*solver->solver);
      ended = true;
    } else {
      ended = body(*solver->solver);
    }
  }
  if (const std::exception_ptr raised = std::exchange(solver->callbacks.raised, nullptr)) {
    std::rethrow_exception(raised);
  }
  if (!solver->interrupted || (solver->nested && ended)) return;
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw nb::python_error();
}

void Solve(const SolverPtr& solver, bool progress) {
  Train(solver, [&](Solver& of) {
    std::optional<ProgressBar::Shown> shown;
    if (progress) shown.emplace(solver->progress);
    of.Solve();
    return of.iteration() >= of.config().solver.solver.max_iter();
  });
}

std::string ReprOf(const SolverPtr& solver) {
  const SolverParameter& param = solver->solver->config().solver.solver;
  return StrCat("<crema.Solver '", solver->solver->plan().name, "': ", param.type(), ", iteration ",
                solver->solver->iteration(), " of ", param.max_iter(), ", rate ",
                solver->solver->rate(), ">");
}

std::shared_ptr<Net> NetOf(const SolverPtr& solver, Session* session) {
  return NetOf(solver->guard, solver->objects, {solver->solver, session},
               [of = solver->solver] { of->TakeWeights(); });
}

nb::list TestNets(const SolverPtr& solver) {
  nb::list nets;
  for (size_t i = 0; i < solver->solver->test_count(); ++i) {
    nets.append(NetOf(solver, &solver->solver->test_session(i)));
  }
  return nets;
}

void AddCallback(const SolverPtr& solver, const std::string& event, nb::object function) {
  RequireCallable(function);
  for (const auto& [name, functions] : solver->callbacks.Lists()) {
    if (event == name) return functions->push_back(std::move(function));
  }
  Fail(ErrorCode::kInvalidArgument,
       "a solver has no event '" + event + "'; it has start, gradients, iteration, test, snapshot");
}

// Show the garbage collector the callbacks and the objects of layers, which may refer to their
// solver.
int TraverseSolver(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  PySolver& solver = *nb::inst_ptr<PySolver>(self);
  for (const auto& [name, functions] : solver.callbacks.Lists()) {
    for (const nb::object& function : *functions) Py_VISIT(function.ptr());
  }
  return solver.objects.use_count() == 1 ? solver.objects->Traverse(visit, arg) : 0;
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
      .def_static(
          "open", &OpenFile, nb::arg("path"), nb::arg("type") = "", nb::arg("threads") = 0,
          nb::arg("seed") = nb::none(), nb::arg("data") = nb::none(),
          nb::arg("test_data") = nb::none(),
          nb::sig("def open(path: str | os.PathLike[str], type: str = '', threads: int = 0, "
                  "seed: int | None = None, data: object = None, test_data: object = None) -> "
                  "Solver"),
          "Opens the run of a file. `data` and `test_data` (crema.data) feed the training "
          "net and the test nets, in the place of their Input and data layers.")
      .def_static("parse", &OpenText, nb::arg("text"), nb::arg("type") = "", nb::arg("threads") = 0,
                  nb::arg("seed") = nb::none(), nb::arg("data") = nb::none(),
                  nb::arg("test_data") = nb::none(), "The same for a text.")
      .def_prop_ro(
          "net", [](const SolverPtr& solver) { return NetOf(solver, &solver->solver->session()); })
      .def_prop_ro("test_nets", &TestNets, nb::sig("def test_nets(self) -> list[Net]"))
      .def_prop_ro("iteration", [](const SolverPtr& solver) { return solver->solver->iteration(); })
      .def_prop_ro("rate", [](const SolverPtr& solver) { return solver->solver->rate(); })
      .def_prop_ro(
          "text",
          [](const SolverPtr& solver) { return PrintText(solver->solver->config().solver.solver); })
      .def_prop_ro(
          "metrics", [](const SolverPtr& solver) { return solver->curves.Arrays(); },
          nb::sig("def metrics(self) -> dict[str, crema._results.Curve]"),
          "The values so far, as new arrays, by TensorBoard's names: train/loss and train/lr of "
          "each\n"
          "iteration, train_output/BLOB of displayed ones, test_NET/BLOB of each test.")
      .def(
          "solve", &Solve, nb::arg("progress") = false,
          "Trains to max_iter, with tests and snapshots.\n\n"
          "With `progress`, shows one line on a terminal (stderr), or a bar in a notebook. Ctrl-C\n"
          "stops after the iteration, with a snapshot, and raises KeyboardInterrupt. Raises\n"
          "crema.Error, and what callbacks raise.")
      .def("step",
           [](const SolverPtr& solver, int64_t count) {
             if (count < 0) throw nb::value_error("step takes a number of iterations, 0 or more");
             Train(solver, [count](Solver& of) {
               const int64_t end = of.iteration() + count;
               of.Step(count);
               return of.iteration() >= end;
             });
           })
      .def("update",
           [](const SolverPtr& solver) { Train(solver, [](Solver& of) { of.Update(); }); })
      .def("snapshot",
           [](const SolverPtr& solver) { Train(solver, [](Solver& of) { of.Snapshot(); }); })
      .def(
          "restore",
          [](const SolverPtr& solver, const Path& path) {
            Train(solver, [&path](Solver& of) { of.Restore(path.string()); });
          },
          nb::arg("path"), nb::sig("def restore(self, path: str | os.PathLike[str]) -> None"))
      .def(
          "load",
          [](const SolverPtr& solver, const Paths& paths) {
            Train(solver, [&paths](Solver& of) { of.LoadWeights(NamesOf(paths)); });
          },
          nb::arg("paths"),
          nb::sig("def load(self, paths: str | os.PathLike[str] | collections.abc.Sequence[str | "
                  "os.PathLike[str]]) -> None"))
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
      .def("add_callback", &AddCallback, nb::arg("event"), nb::arg("function"))
      .def("__repr__", &ReprOf);
}

}  // namespace crema::python
