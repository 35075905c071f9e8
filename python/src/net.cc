#include "net.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/memory_feed.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "log.h"
#include "look.h"
#include "plan/plan.h"
#include "plan/summary.h"
#include "solvers/run_memory.h"
#include "state_dict.h"

namespace crema::python {
namespace {

using NetPtr = std::shared_ptr<Net>;

class NetBlob final : public Blob {
 public:
  NetBlob(NetPtr net, std::string name) : net_(std::move(net)), name_(std::move(name)) {}

  HeldView Data() override {
    const Guard::Lock lock(*net_->guard);
    const ReuseObjects reuse(net_->objects.get(), true);
    return net_->net->Data(name_);
  }
  HeldView Gradient() override {
    const Guard::Lock lock(*net_->guard);
    const ReuseObjects reuse(net_->objects.get(), true);
    return net_->net->Gradient(name_);
  }
  Shape GetShape() override {
    const Guard::Lock lock(*net_->guard);
    return net_->net->ShapeOf(name_);
  }
  void Reshape(const Shape& shape) override {
    const Guard::Run run(*net_->guard);
    net_->net->Reshape(name_, shape);
  }

 private:
  NetPtr net_;
  std::string name_;
};

class ParameterBlob final : public Blob {
 public:
  ParameterBlob(NetPtr net, size_t slot) : net_(std::move(net)), slot_(slot) {}

  HeldView Data() override {
    const Guard::Lock lock(*net_->guard);
    return net_->net->Parameter(slot_);
  }
  HeldView Gradient() override {
    const Guard::Lock lock(*net_->guard);
    return net_->net->ParameterGradient(slot_);
  }
  Shape GetShape() override { return Data().view.shape(); }
  void Reshape(const Shape&) override {
    Fail(ErrorCode::kUnsupported, "the shape of a parameter follows from the net's text");
  }

 private:
  NetPtr net_;
  size_t slot_;
};

// A layer by its index or name; none: the first or the last.
using LayerName = std::optional<std::variant<size_t, std::string>>;

// A layer of a net, as an entry of net.layers.
struct NetLayer {
  NetPtr net;
  size_t index;

  // Requires the guard of the net.
  const PlannedLayer& Planned() const { return net->net->layers()[index]; }
};

NetState StateOf(const NetParameter& net, const InteractiveOptions& options) {
  NetState state = net.state();
  state.set_phase(options.phase);
  state.set_level(options.level);
  for (const std::string& stage : options.stages) state.add_stage(stage);
  return state;
}

NetPtr Open(NetFile file, InteractiveOptions options, const nb::object& data) {
  auto net = std::make_shared<Net>();
  net->guard = std::make_shared<Guard>();
  ForgetFeeds(&file);
  if (!data.is_none()) {
    const GilHeld gil;
    FeedNet(data, StateOf(file.net, options), false, net->guard, &file, net->objects.get());
  }
  options.log = &Log();
  const std::vector<std::string> weights = std::exchange(options.weights, {});
  const ReuseObjects reuse(net->objects.get(), true);
  net->net = std::make_unique<InteractiveNet>(std::move(file), Layers(), std::move(options));
  if (!weights.empty()) net->net->LoadWeights(weights);
  return net;
}

using PhaseName = std::variant<int, std::string>;

Phase PhaseNamed(const PhaseName& phase) {
  if (phase == PhaseName(0) || phase == PhaseName("TRAIN")) return TRAIN;
  if (phase == PhaseName(1) || phase == PhaseName("TEST")) return TEST;
  const std::string given = std::visit([](const auto& value) { return StrCat(value); }, phase);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("phase is '", given, "', expected 'TRAIN' (or 0) or 'TEST' (or 1)"));
}

InteractiveOptions OptionsOf(const PhaseName& phase, int level, std::vector<std::string> stages,
                             const Paths& weights, int threads, uint64_t seed, bool keep_blobs) {
  InteractiveOptions options{.phase = PhaseNamed(phase),
                             .level = level,
                             .stages = std::move(stages),
                             .threads = threads,
                             .seed = seed,
                             .keep_blobs = keep_blobs};
  options.weights = NamesOf(weights);
  return options;
}

NetPtr OpenFile(const Path& path, const PhaseName& phase, int level,
                std::vector<std::string> stages, const Paths& weights, int threads, uint64_t seed,
                bool keep_blobs, nb::object data) {
  const GilReleased released;
  return Open(ReadNet(path.string()),
              OptionsOf(phase, level, std::move(stages), weights, threads, seed, keep_blobs), data);
}

NetPtr OpenText(const std::string& text, const PhaseName& phase, int threads, uint64_t seed,
                nb::object data, int level, std::vector<std::string> stages, const Paths& weights,
                bool keep_blobs) {
  const GilReleased released;
  return Open(ParseNet(text, "<text>"),
              OptionsOf(phase, level, std::move(stages), weights, threads, seed, keep_blobs), data);
}

void Call(const std::vector<nb::object>& callbacks, size_t layer) {
  if (callbacks.empty()) return;
  const GilHeld gil;
  const Apart apart;
  const std::vector<nb::object> now = callbacks;  // one of them may add others
  for (const nb::object& callback : now) WaitIfExiting([&] { callback(layer); });
}

// Returns the index of a layer that is given by its index or name, or for None `otherwise`.
// Requires the guard.
size_t LayerIndex(const NetPtr& net, const LayerName& given, size_t otherwise) {
  if (!given) return otherwise;
  if (const auto* const index = std::get_if<size_t>(&*given)) return *index;
  std::vector<std::string> names;
  for (const PlannedLayer& layer : net->net->layers()) names.push_back(layer.name());
  const std::string& name = std::get<std::string>(*given);
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  Fail(ErrorCode::kNotFound, StrCat("the net has no layer '", name, "'", DidYouMean(name, names)));
}

double Forward(const NetPtr& net, const LayerName& from, const LayerName& to) {
  const Guard::Run run(*net->guard);
  const size_t first = LayerIndex(net, from, 0);
  const size_t last = LayerIndex(net, to, net->net->layers().size() - 1);
  const GilReleased released;
  const ReuseObjects reuse(net->objects.get(), true);  // layers that did not fit are planned again
  net->net->TakeShapes();
  const RunningNet running([&] { return net->net->memory(); });
  if (net->callbacks.before_forward.empty() && net->callbacks.after_forward.empty()) {
    return net->net->Forward(first, last);
  }
  double loss = 0;
  for (size_t layer = first; layer <= last; ++layer) {
    Call(net->callbacks.before_forward, layer);
    loss += net->net->Forward(layer, layer);
    Call(net->callbacks.after_forward, layer);
  }
  return loss;
}

// From layer `from` down to `to`, as pycaffe counts.
void Backward(const NetPtr& net, const LayerName& from, const LayerName& to) {
  const Guard::Run run(*net->guard);
  const size_t first = LayerIndex(net, from, net->net->layers().size() - 1);
  const size_t last = LayerIndex(net, to, 0);
  const GilReleased released;
  const ReuseObjects reuse(net->objects.get(), true);
  net->net->TakeShapes();
  const RunningNet running([&] { return net->net->memory(); });
  if (net->callbacks.before_backward.empty() && net->callbacks.after_backward.empty()) {
    return net->net->Backward(last, first);
  }
  for (size_t layer = first + 1; layer-- > last;) {
    Call(net->callbacks.before_backward, layer);
    net->net->Backward(layer, layer);
    Call(net->callbacks.after_backward, layer);
  }
}

nb::list BlobsOf(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  nb::list blobs;
  for (const std::string& name : net->net->blobs()) {
    blobs.append(nb::cast(std::shared_ptr<Blob>(std::make_shared<NetBlob>(net, name))));
  }
  return blobs;
}

nb::dict BlobsByName(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  nb::dict blobs;
  for (const std::string& name : net->net->blobs()) {
    blobs[name.c_str()] = nb::cast(std::shared_ptr<Blob>(std::make_shared<NetBlob>(net, name)));
  }
  return blobs;
}

nb::list LayersOf(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  nb::list layers;
  for (size_t i = 0; i < net->net->layers().size(); ++i) layers.append(NetLayer{net, i});
  return layers;
}

// Returns the index; throws IndexError. Requires the guard.
size_t LayerAt(const NetPtr& net, int64_t i) {
  const size_t count = net->net->layers().size();
  if (i >= 0 && static_cast<size_t>(i) < count) return static_cast<size_t>(i);
  throw nb::index_error(StrCat("layer ", i, ": the net has ", count, " layers").c_str());
}

nb::list ParametersOf(const NetLayer& layer) {
  const Guard::Lock lock(*layer.net->guard);
  nb::list blobs;
  for (const int slot : layer.Planned().parameters) {
    blobs.append(nb::cast(std::shared_ptr<Blob>(
        std::make_shared<ParameterBlob>(layer.net, static_cast<size_t>(slot)))));
  }
  return blobs;
}

nb::dict ParametersByLayer(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  nb::dict parameters;
  for (size_t i = 0; i < net->net->layers().size(); ++i) {
    const NetLayer layer{net, i};
    if (layer.Planned().parameters.empty()) continue;
    parameters[layer.Planned().name().c_str()] = ParametersOf(layer);
  }
  return parameters;
}

std::vector<std::string> LayerNames(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  std::vector<std::string> names;
  for (const PlannedLayer& layer : net->net->layers()) names.push_back(layer.name());
  return names;
}

void LoadWeights(const NetPtr& net, const Paths& paths) {
  const Guard::Run run(*net->guard);
  const GilReleased released;
  net->net->LoadWeights(NamesOf(paths));
  if (net->on_weights) net->on_weights();
}

void Save(const NetPtr& net, const Path& to, bool hdf5) {
  const std::string path = to.string();
  const Guard::Run run(*net->guard);
  const GilReleased released;
  const NetParameter written = net->net->Export();
  if (hdf5) {
    WriteCaffemodelHdf5(written, path);
  } else {
    WriteCaffemodel(written, path);
  }
}

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

// Feeds a MemoryData layer, without a copy.
void SetArrays(const NetPtr& net, const std::string& layer, const FloatArray& data,
               const FloatArray& labels) {
  const Guard::Run run(*net->guard);
  auto* const feed = dynamic_cast<MemoryFeed*>(net->net->session().MutableState(layer));
  if (feed == nullptr) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", layer, "' is no MemoryData layer of this net"));
  }
  using Arrays = std::pair<FloatArray, FloatArray>;
  std::shared_ptr<const Arrays> owner(new Arrays(data, labels), [](const Arrays* arrays) {
    if (!nb::is_alive()) return;
    const GilHeld gil;
    delete arrays;
  });
  feed->SetArrays({data.data(), data.size()}, {labels.data(), labels.size()}, std::move(owner));
}

void ShareWith(const NetPtr& net, const NetPtr& other) {
  // In one order, as another thread may share the other way.
  const auto [first, second] =
      std::minmax({net->guard.get(), other->guard.get()}, std::less<Guard*>());
  const Guard::Lock lock_first(*first);
  const Guard::Lock lock_second(*second);
  const Guard::Run run(*net->guard);
  if (first == second) return;  // a net itself, or nets of one solver
  if (net->net->OwnsWeights()) {
    const ReuseObjects reuse(net->objects.get(), true);
    return net->net->ShareWeightsWith(*other->net);
  }
  if (!other->net->OwnsWeights()) {
    Fail(ErrorCode::kUnsupported,
         "both nets belong to solvers, which train parameters of their own; copy the values");
  }
  const Guard::Run run_other(*other->guard);
  const ReuseObjects reuse(other->objects.get(), true);
  net->net->TakeWeightsOf(other->net.get());
  net->on_weights();
}

int PhaseOf(const NetPtr& net) { return net->net->plan().state.phase() == TRAIN ? 0 : 1; }

std::string MemoryOf(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  const Plan& plan = net->net->plan();
  const NetSummary sizes = Summarize(plan);
  return StrCat("weights ", Mebibytes(sizes.weight_bytes), ", their gradients ",
                Mebibytes(sizes.gradient_bytes), ", blobs ", Mebibytes(sizes.arena_bytes),
                plan.options.optimize
                    ? StrCat(" (shared, of ", Mebibytes(plan.unshared_bytes), ")")
                    : " (every named blob is kept; keep_blobs=False shares their memory)",
                ", scratch ", Mebibytes(sizes.scratch_bytes));
}

std::string ReprOf(const NetPtr& net) {
  const Guard::Lock lock(*net->guard);
  return StrCat("<crema.Net '", net->net->name(), "': ", PhaseOf(net) == 0 ? "TRAIN" : "TEST", ", ",
                net->net->layers().size(), " layers, ", net->net->plan().ParameterCount(),
                " parameters; memory: ", MemoryOf(net), ">");
}

// Show the garbage collector the callbacks and the objects of layers, which may refer to their net.
int TraverseNet(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Net& net = *nb::inst_ptr<Net>(self);
  const NetCallbacks& all = net.callbacks;
  for (const auto* list :
       {&all.before_forward, &all.after_forward, &all.before_backward, &all.after_backward}) {
    for (const nb::object& callback : *list) Py_VISIT(callback.ptr());
  }
  return net.objects.use_count() == 1 ? net.objects->Traverse(visit, arg) : 0;
}

int ClearNet(PyObject* self) {
  nb::inst_ptr<Net>(self)->callbacks = {};
  return 0;
}

PyType_Slot kNetSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(TraverseNet)},
                           {Py_tp_clear, reinterpret_cast<void*>(ClearNet)},
                           {0, nullptr}};

void BindLayer(nb::module_& module) {
  nb::class_<NetLayer>(module, "NetLayer", "A layer of a net.")
      .def_prop_ro("name",
                   [](const NetLayer& layer) {
                     const Guard::Lock lock(*layer.net->guard);
                     return layer.Planned().name();
                   })
      .def_prop_ro("type",
                   [](const NetLayer& layer) {
                     const Guard::Lock lock(*layer.net->guard);
                     return layer.Planned().layer->param().type();
                   })
      .def_prop_ro("blobs", &ParametersOf, nb::sig("def blobs(self) -> list[Blob]"),
                   "The parameters.");
  nb::class_<LayerBlobs>(module, "BlobVec", "The parameters of a Python layer.")
      .def("__len__", [](const LayerBlobs& of) { return of.blobs.size(); })
      .def("__getitem__",
           [](const LayerBlobs& of, int64_t i) {
             const auto count = static_cast<int64_t>(of.blobs.size());
             if (i < -count || i >= count) throw nb::index_error();
             return std::shared_ptr<Blob>(of.blobs[static_cast<size_t>(i < 0 ? i + count : i)]);
           })
      .def(
          "add_blob",
          [](LayerBlobs& of, const nb::args& sizes) {
            of.blobs.push_back(std::make_shared<LayerBlob>(ShapeOf(sizes)));
          },
          nb::sig("def add_blob(self, *sizes: int) -> None"),
          "Adds a parameter of these sizes; call it in setup.");
}

}  // namespace

std::vector<nb::object>& NetCallbacks::At(const std::string& event) {
  if (event == "before_forward") return before_forward;
  if (event == "after_forward") return after_forward;
  if (event == "before_backward") return before_backward;
  if (event == "after_backward") return after_backward;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("a net has no event '", event,
              "'; it has before_forward, after_forward, before_backward, after_backward"));
}

std::shared_ptr<Net> NetOf(std::shared_ptr<Guard> guard, std::shared_ptr<PythonObjects> objects,
                           std::shared_ptr<Session> session, std::function<void()> on_weights) {
  auto net = std::make_shared<Net>();
  net->guard = std::move(guard);
  net->objects = std::move(objects);
  net->net = std::make_unique<InteractiveNet>(std::move(session), &Log());
  net->on_weights = std::move(on_weights);
  return net;
}

void BindNet(nb::module_& module) {
  BindLayer(module);
  BindFeed(module);
  nb::class_<Net>(module, "Net", nb::type_slots(kNetSlots),
                  "A net whose blobs a program reads and writes between layers.")
      .def_static("open", &OpenFile, nb::arg("path"), nb::arg("phase"), nb::arg("level") = 0,
                  nb::arg("stages") = std::vector<std::string>(),
                  nb::arg("weights") = std::vector<Path>(), nb::arg("threads") = 0,
                  nb::arg("seed") = 1, nb::arg("keep_blobs") = true, nb::arg("data") = nb::none(),
                  nb::sig("def open(path: str | os.PathLike[str], phase: int | str, level: int = "
                          "0, stages: collections.abc.Sequence[str] = (), weights: str | "
                          "os.PathLike[str] | collections.abc.Sequence[str | os.PathLike[str]] = "
                          "(), threads: int = 0, seed: int = 1, keep_blobs: bool = True, data: "
                          "object = None) -> Net"),
                  "Opens a net in phase 'TRAIN' (0) or 'TEST' (1).\n\n"
                  "With keep_blobs=False, blobs share memory and layers are fused, as in a Model:\n"
                  "the net runs forward only, as a whole, and has the blobs that are inputs and\n"
                  "outputs. Inputs are to be set before each pass. `data` (crema.data) feeds the\n"
                  "net: each forward pass takes the next batch.")
      .def_static("parse", &OpenText, nb::arg("text"), nb::arg("phase"), nb::arg("threads") = 0,
                  nb::arg("seed") = 1, nb::arg("data") = nb::none(), nb::arg("level") = 0,
                  nb::arg("stages") = std::vector<std::string>(),
                  nb::arg("weights") = std::vector<Path>(), nb::arg("keep_blobs") = true,
                  nb::sig("def parse(text: str, phase: int | str, threads: int = 0, seed: int = 1, "
                          "data: object = None, level: int = 0, stages: "
                          "collections.abc.Sequence[str] = (), weights: str | os.PathLike[str] | "
                          "collections.abc.Sequence[str | os.PathLike[str]] = (), keep_blobs: bool "
                          "= True) -> Net"),
                  "The same for a text.")
      .def_prop_ro("name",
                   [](const NetPtr& net) {
                     const Guard::Lock lock(*net->guard);
                     return net->net->name();
                   })
      .def_prop_ro("phase", &PhaseOf, "0: TRAIN, 1: TEST.")
      .def_prop_ro("memory", &MemoryOf, "The memory of the net, as one line of text.")
      .def_prop_ro("blob_names",
                   [](const NetPtr& net) {
                     const Guard::Lock lock(*net->guard);
                     return net->net->blobs();
                   })
      .def_prop_ro("layer_names", &LayerNames)
      .def_prop_ro("input_names",
                   [](const NetPtr& net) {
                     const Guard::Lock lock(*net->guard);
                     return net->net->inputs();
                   })
      .def_prop_ro("output_names",
                   [](const NetPtr& net) {
                     const Guard::Lock lock(*net->guard);
                     return net->net->outputs();
                   })
      .def("bottoms",
           [](const NetPtr& net, int64_t i) {
             const Guard::Lock lock(*net->guard);
             return net->net->BottomsOf(LayerAt(net, i));
           })
      .def("tops",
           [](const NetPtr& net, int64_t i) {
             const Guard::Lock lock(*net->guard);
             return net->net->TopsOf(LayerAt(net, i));
           })
      .def("loss_weight",
           [](const NetPtr& net, const std::string& blob) {
             const Guard::Lock lock(*net->guard);
             return net->net->LossWeight(blob);
           })
      .def("blob_list", &BlobsOf, nb::sig("def blob_list(self) -> list[Blob]"))
      .def("layer_list", &LayersOf, nb::sig("def layer_list(self) -> list[NetLayer]"))
      .def_prop_ro("blobs", &BlobsByName, nb::sig("def blobs(self) -> dict[str, Blob]"),
                   "The blobs by name, in the order of the net; a new dict.")
      .def_prop_ro("params", &ParametersByLayer,
                   nb::sig("def params(self) -> dict[str, list[Blob]]"),
                   "The parameters of each layer that has some, by its name; a new dict.")
      .def("forward", &Forward, nb::arg("first") = nb::none(), nb::arg("last") = nb::none(),
           "Runs all layers, or those from first to last (names or indices); returns their loss.")
      .def("backward", &Backward, nb::arg("first") = nb::none(), nb::arg("last") = nb::none(),
           "Runs all layers backward, or those from first down to last (names or indices).")
      .def("reshape",
           [](const NetPtr& net) {
             const Guard::Run run(*net->guard);
             const GilReleased released;
             const ReuseObjects reuse(net->objects.get(), true);
             net->net->UpdateShapes();
           })
      .def("clear_parameter_gradients",
           [](const NetPtr& net) {
             const Guard::Run run(*net->guard);
             net->net->ZeroParameterGradients();
           })
      .def("load", &LoadWeights, nb::arg("paths"),
           nb::sig("def load(self, paths: str | os.PathLike[str] | collections.abc.Sequence[str | "
                   "os.PathLike[str]]) -> None"))
      .def("save", &Save, nb::arg("path"), nb::arg("hdf5") = false,
           nb::sig("def save(self, path: str | os.PathLike[str], hdf5: bool = False) -> None"))
      .def(
          "to_torch_state_dict",
          [](const NetPtr& net) {
            const Guard::Lock lock(*net->guard);
            return TorchEntriesOf(net->net->plan(), net->net->session().weights());
          },
          nb::sig("def to_torch_state_dict(self) -> dict[str, typing.Any]"),
          "Returns the parameters as an equivalent module of PyTorch names them: "
          "\"conv1.weight\",\n"
          "\"bn1.running_mean\". BatchNorm and the Scale after it are one module. Tensors are "
          "new,\n"
          "and NumPy arrays where PyTorch is not installed. Raises crema.Error, naming all layers\n"
          "without such a module.")
      .def("set_arrays", &SetArrays, nb::arg("layer"), nb::arg("data"), nb::arg("labels"))
      .def("share_with", &ShareWith)
      .def("__repr__", &ReprOf)
      .def("_repr_html_",
           [](const NetPtr& net) {
             const Guard::Lock lock(*net->guard);
             return nb::module_::import_("crema._look")
                 .attr("layers_html")(net->net->name(), MemoryOf(net),
                                      LayersJson(net->net->plan()));
           })
      .def("describe",
           [](const NetPtr& net) {
             const Guard::Lock lock(*net->guard);
             return DescribePlan(net->net->plan());
           })
      .def("to_text",
           [](const NetPtr& net) {
             const Guard::Lock lock(*net->guard);
             NetFile text{.net = net->net->plan().written, .source = {}, .warnings = {}};
             ForgetFeeds(&text);
             return PrintText(text.net);
           })
      .def("add_callback", [](const NetPtr& net, const std::string& event, nb::object callback) {
        std::vector<nb::object>& callbacks = net->callbacks.At(event);
        RequireCallable(callback);
        const Guard::Lock lock(*net->guard);
        if (net->net->plan().options.optimize) {
          Fail(ErrorCode::kUnsupported,
               "a net that was opened with keep_blobs=False runs as a whole, without callbacks "
               "between layers; open it with keep_blobs=True");
        }
        callbacks.push_back(std::move(callback));
      });
}

}  // namespace crema::python
