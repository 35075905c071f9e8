#include "feed.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/graph.h"
#include "graph/layer.h"
#include "log.h"
#include "python_layer.h"

namespace crema::python {
namespace {

// The messages in which an Input has the number of its feed, and the batch size of a smaller plan.
constexpr std::array kMessages{"python_param", "memory_data_param"};

// Returns the feed of an Input layer of a net that this thread plans; null: the program sets it.
// Nets find their own feeds alone, so that the text of another net reaches none.
std::shared_ptr<Feed> FeedOf(const LayerParameter& param) {
  const PythonObjects* const objects = ReusedObjects();
  if (objects == nullptr || !param.has_python_param()) return nullptr;
  const auto number = static_cast<size_t>(std::atoi(param.python_param().param_str().c_str()));
  return number > 0 && number <= objects->feeds.size() ? objects->feeds[number - 1] : nullptr;
}

// The position in the data: batches taken so far, and the seed of their order. Python has no state
// that counts: it gives the batch of the position that it is asked for.
class FeedState final : public LayerSessionState {
 public:
  FeedState(const Feed& feed, Phase phase) {
    const GilHeld gil;
    seed_ = nb::cast<uint64_t>((*feed.object).attr("seed"));
    epoch_size_ =
        nb::cast<int64_t>((*feed.object).attr(phase == TRAIN ? "train_epoch" : "samples"));
  }

  void Save(LayerState* state) const override {
    state->add_counters(position_);
    state->add_counters(seed_);
  }
  void Restore(const LayerState& state) override {
    if (state.counters_size() != 2) return;  // of a net that read other data
    position_ = state.counters(0);
    seed_ = state.counters(1);
  }
  int64_t EpochSize() const override { return epoch_size_; }
  double WaitedSeconds() const override { return waited_; }

  // Takes the next batch. Requires the GIL.
  void Next(Feed* feed, const nb::list& arrays, std::span<Shape> shapes) {
    nb::object filled = WaitIfExiting(
        [&] { return nb::object((*feed->object).attr("fill")(position_, seed_, arrays)); });
    for (size_t o = 0; o < shapes.size(); ++o) {
      const auto dims = nb::cast<std::vector<int64_t>>(filled[0][o]);
      shapes[o] = Shape(std::span<const int64_t>(dims));
    }
    waited_ += nb::cast<double>(filled[1]);
    ++position_;
    WaitIfExiting([&] { (*feed->object).attr("release")(position_); });
  }

 private:
  uint64_t position_ = 0;
  uint64_t seed_ = 0;
  int64_t epoch_size_ = 0;
  double waited_ = 0;
};

// An Input whose blobs are read from Python in each pass. Batches may be smaller than planned.
class FeedLayer final : public Layer {
 public:
  FeedLayer(std::unique_ptr<const Layer> input, std::shared_ptr<Feed> feed)
      : Layer(input->param()), input_(std::move(input)), feed_(std::move(feed)) {}

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info = input_->Infer(context);
    info.dynamic_outputs = true;
    if (!param().has_memory_data_param()) return info;
    const int64_t written = info.outputs[0].shape[0];
    for (BlobSpec& output : info.outputs) {
      const bool has_batch = output.shape.axes() > 0 && output.shape[0] == written;
      if (has_batch) output.shape = output.shape.With(0, param().memory_data_param().batch_size());
    }
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const GilHeld gil;
    nb::list arrays;
    for (const TensorView& output : args.outputs) {
      arrays.append(ArrayOf({output, RunningOwner()}));
    }
    static_cast<FeedState*>(args.state)->Next(feed_.get(), arrays, args.output_shapes);
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase phase) const override {
    return std::make_unique<FeedState>(*feed_, phase);
  }

 private:
  std::unique_ptr<const Layer> input_;
  std::shared_ptr<Feed> feed_;
};

// Returns true for layers that data can replace.
bool IsSource(const LayerParameter& layer, const NetState& state) {
  return layer.bottom_size() == 0 && layer.top_size() > 0 && layer.type() != "Parameter" &&
         IsIncluded(layer, state);
}

int64_t BatchSizeOf(const LayerParameter& layer) {
  if (layer.has_data_param()) return layer.data_param().batch_size();
  if (layer.has_image_data_param()) return layer.image_data_param().batch_size();
  if (layer.has_hdf5_data_param()) return layer.hdf5_data_param().batch_size();
  if (layer.has_window_data_param()) return layer.window_data_param().batch_size();
  return layer.memory_data_param().batch_size();
}

// Returns (name, tops, shapes, batch size) of a source; without shapes unless it is an Input.
nb::tuple Describe(const LayerParameter& layer) {
  nb::list tops;
  nb::list shapes;
  int64_t batch = BatchSizeOf(layer);
  const auto& written = layer.input_param().shape();
  for (int t = 0; t < layer.top_size(); ++t) {
    tops.append(layer.top(t));
    if (layer.type() != "Input" || written.empty()) continue;
    nb::list shape;
    for (const int64_t size : written.Get(t < written.size() ? t : 0).dim()) shape.append(size);
    if (t == 0 && shape.size() > 0) batch = nb::cast<int64_t>(shape[0]);
    shapes.append(nb::tuple(shape));
  }
  return nb::make_tuple(layer.name(), tops, shapes, batch);
}

LayerParameter MakeInput(const LayerParameter& from, const nb::handle& tops, int number) {
  LayerParameter input;
  input.set_name(from.name());
  input.set_type("Input");
  *input.mutable_include() = from.include();
  *input.mutable_exclude() = from.exclude();
  if (from.has_phase()) input.set_phase(from.phase());
  if (from.type() == "Input" && from.has_pipeline_param()) {
    *input.mutable_pipeline_param() = from.pipeline_param();
  }
  for (const nb::handle top : tops) {
    input.add_top(nb::cast<std::string>(top[0]));
    BlobShape* const shape = input.mutable_input_param()->add_shape();
    for (const nb::handle size : top[1]) shape->add_dim(nb::cast<int64_t>(size));
  }
  input.mutable_python_param()->set_param_str(std::to_string(number));
  return input;
}

}  // namespace

void ForgetFeeds(NetFile* file) {
  for (int i = 0; i < file->net.layer_size(); ++i) {
    LayerParameter& layer = *file->net.mutable_layer(i);
    if (layer.type() != "Input") continue;
    for (const char* const name : kMessages) {
      const auto* const field = LayerParameter::descriptor()->FindFieldByName(name);
      if (!layer.GetReflection()->HasField(layer, field)) continue;
      layer.GetReflection()->ClearField(&layer, field);
      Where where = file->source.Locate(StrCat("layer[", i, "].", name));
      where.layer = layer.name();
      file->warnings.push_back({ErrorCode::kInvalidArgument, std::move(where),
                                StrCat("'", name, "' has no effect on a layer of type Input")});
    }
  }
}

void FeedNet(const nb::object& data, const NetState& state, bool whole_passes,
             const std::shared_ptr<Guard>& guard, NetFile* file, PythonObjects* objects) {
  nb::list sources;
  std::vector<LayerParameter*> layers;
  for (LayerParameter& layer : *file->net.mutable_layer()) {
    if (!IsSource(layer, state)) continue;
    sources.append(Describe(layer));
    layers.push_back(&layer);
  }
  auto turn = std::make_shared<DataTurn>();
  nb::object object = nb::module_::import_("crema._feed").attr("Feed")(data, sources, turn);
  const auto feed = std::make_shared<Feed>(std::move(object), std::move(turn));
  feed->turn->fed = guard;
  objects->feeds.push_back(feed);
  const auto number = static_cast<int>(objects->feeds.size());
  LayerParameter* first = nullptr;
  for (const nb::handle index : (*feed->object).attr("layers")) {
    LayerParameter& layer = *layers.at(nb::cast<size_t>(index));
    if (layer.has_transform_param()) {
      Log().Write(Severity::kWarning,
                  StrCat("layer \"", layer.name(), "\": its transform_param is not applied to ",
                         "data from Python"));
    }
    if (first == nullptr) {
      first = &layer;
      layer = MakeInput(layer, (*feed->object).attr("tops"), number);
    } else {  // left out, and the others keep their places in messages
      layer.clear_include();
      layer.clear_exclude();
      layer.add_exclude()->set_phase(state.phase());
    }
  }
  const auto samples = nb::cast<int64_t>((*feed->object).attr("samples"));
  if (whole_passes && samples > 0) {
    const auto batch = static_cast<uint32_t>(first->input_param().shape(0).dim(0));
    first->mutable_memory_data_param()->set_batch_size(batch);
  }
}

std::vector<std::string> InputsOf(const NetParameter& net, const NetState& state) {
  std::vector<std::string> tops;
  for (const LayerParameter& layer : net.layer()) {
    const bool is_fed = layer.has_python_param();
    if (layer.type() != "Input" || is_fed || !IsIncluded(layer, state)) continue;
    tops.insert(tops.end(), layer.top().begin(), layer.top().end());
  }
  return tops;
}

void LetInputReadFeeds(LayerType* input) {
  input->param_fields.insert(input->param_fields.end(), kMessages.begin(), kMessages.end());
  input->make = [make = input->make](const LayerParameter& p) {
    std::unique_ptr<const Layer> layer = make(p);
    std::shared_ptr<Feed> feed = FeedOf(p);
    if (feed == nullptr) return layer;
    return std::unique_ptr<const Layer>(
        std::make_unique<const FeedLayer>(std::move(layer), std::move(feed)));
  };
}

std::vector<std::string> FieldsOfUsers(const LayerType& type) {
  std::vector<std::string> fields = type.param_fields;
  if (type.name == "Input") {
    std::erase_if(fields,
                  [](const std::string& f) { return std::ranges::count(kMessages, f) > 0; });
  }
  return fields;
}

void BindFeed(nb::module_& module) {
  nb::class_<DataTurn>(module, "DataTurn")
      .def(
          "enter", [](DataTurn& turn) { turn.guard.Enter(&turn.fed); },
          "Begins to make data, in this thread until `leave`; the object must live as long.")
      .def("leave", [](DataTurn& turn) { turn.guard.Leave(); })
      .def(
          "begin_wait",
          [](DataTurn& turn) { return reinterpret_cast<uintptr_t>(turn.guard.BeginWait()); },
          "Says that this thread waits for data. Raises crema.Error if they wait for it.")
      .def("end_wait", [](DataTurn&, uintptr_t before) {
        Guard::EndWait(reinterpret_cast<const Guard*>(before));
      });
}

}  // namespace crema::python
