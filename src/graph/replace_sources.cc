#include "graph/replace_sources.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

// The tops of a data layer, as far as its text tells; 0: unknown.
struct Source {
  std::string path;
  int64_t batch = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;
};

Source Describe(const LayerParameter& layer) {
  Source source;
  const TransformationParameter& transform = layer.transform_param();
  if (layer.has_image_data_param()) {
    const ImageDataParameter& p = layer.image_data_param();
    source = {p.source(), p.batch_size(), p.new_height(), p.new_width(), p.is_color() ? 3 : 1};
  } else if (layer.has_window_data_param()) {
    const WindowDataParameter& p = layer.window_data_param();
    source = {p.source(), p.batch_size(), p.crop_size(), p.crop_size(), 3};
  } else if (layer.has_hdf5_data_param()) {
    source = {layer.hdf5_data_param().source(), layer.hdf5_data_param().batch_size(), 0, 0, 3};
  } else {
    source = {layer.data_param().source(), layer.data_param().batch_size(), 0, 0, 3};
  }
  if (transform.has_resize_param()) {
    source.height = transform.resize_param().height();
    source.width = transform.resize_param().width();
  }
  if (transform.crop_size() > 0) source.height = source.width = transform.crop_size();
  if (transform.crop_h() > 0) source.height = transform.crop_h();
  if (transform.crop_w() > 0) source.width = transform.crop_w();
  if (transform.force_gray()) source.channels = 1;
  return source;
}

using Messages = std::vector<std::string>;  // fields of LayerParameter

bool Has(const Messages& messages, std::string_view name) {
  return std::ranges::find(messages, name) != messages.end();
}

bool NameDataSet(const Messages& messages) {
  return std::ranges::any_of(messages, [](const std::string& name) {
    const auto* field = LayerParameter::descriptor()->FindFieldByName(name);
    const auto* message = field == nullptr ? nullptr : field->message_type();
    return message != nullptr && message->FindFieldByName("source") != nullptr &&
           message->FindFieldByName("batch_size") != nullptr;
  });
}

// "ImageData" -> "image_data_param"; sequences share the message of HDF5Data.
std::string MessageOfType(const std::string& type) {
  if (type == "HDF5SequenceData") return "hdf5_data_param";
  std::string name;
  bool was_upper = true;
  for (const char c : type) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !was_upper) name += '_';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
    was_upper = upper;
  }
  return name + "_param";
}

// Returns the messages that a layer reads. A data layer of a type that this build lacks has its own
// message, if the schema has it, and those of the text.
Messages MessagesOf(const Registry& registry, const LayerParameter& layer) {
  if (const LayerType* type = registry.Find(layer.type())) return type->param_fields;
  const std::string own = MessageOfType(layer.type());
  const bool known = LayerParameter::descriptor()->FindFieldByName(own) != nullptr;
  if (!known || !own.ends_with("data_param")) return {};
  Messages messages = {own};
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) messages.push_back(field->name());
  return messages;
}

bool GivesBytes(const LayerParameter& layer) {
  return layer.pipeline_param().output() == PipelineParameter::U8;
}

uint32_t ReadAheadDepth(const LayerParameter& layer, bool reads) {
  const PipelineParameter& pipeline = layer.pipeline_param();
  if (pipeline.has_prefetch()) return pipeline.prefetch();
  return reads ? layer.data_param().prefetch() : 0;
}

Shape ShapeOfTop(const LayerParameter& layer, const Messages& messages, int top,
                 const Source& source) {
  const int64_t batch = std::max<int64_t>(source.batch, 1);
  if (top > 0) return Has(messages, "annotated_data_param") ? Shape{1, 1, batch, 8} : Shape{batch};
  if (source.height > 0 && source.width > 0 && GivesBytes(layer)) {
    return {batch, source.height, source.width, source.channels};
  }
  if (source.height > 0 && source.width > 0) {
    return {batch, source.channels, source.height, source.width};
  }
  Fail(ErrorCode::kInvalidArgument,
       StrCat("the source '", source.path, "' of layer \"", layer.name(),
              "\" does not exist and its text does not say how large '", layer.top(top),
              "' is; give its shape: ", layer.top(top),
              GivesBytes(layer) ? ":N,H,W,C" : ":N,C,H,W"));
}

Shape WithBatch(const Shape& shape, int64_t batch) {
  return batch > 0 && shape.axes() > 0 ? shape.With(0, batch) : shape;
}

void BecomeInput(const SourceShapes& shapes, const Messages& messages, Source source,
                 LayerParameter* layer) {
  // There is one label for each given image.
  const auto first = shapes.given.find(layer->top_size() > 0 ? layer->top(0) : "");
  if (first != shapes.given.end() && first->second.axes() > 0) source.batch = first->second[0];
  LayerParameter input;
  input.set_name(layer->name());
  input.set_type("Input");
  *input.mutable_top() = layer->top();
  *input.mutable_include() = layer->include();
  *input.mutable_exclude() = layer->exclude();
  if (GivesBytes(*layer)) input.mutable_pipeline_param()->set_output(PipelineParameter::U8);
  if (layer->has_phase()) input.set_phase(layer->phase());
  if (layer->has_int8()) *input.mutable_int8() = layer->int8();
  input.mutable_pipeline_param()->set_prefetch(ReadAheadDepth(*layer, true));
  for (int t = 0; t < layer->top_size(); ++t) {
    const auto given = shapes.given.find(layer->top(t));
    const Shape shape = given != shapes.given.end()
                            ? given->second
                            : WithBatch(ShapeOfTop(*layer, messages, t, source), shapes.batch);
    BlobShape* text = input.mutable_input_param()->add_shape();
    for (int64_t size : shape.dims()) text->add_dim(size);
  }
  *layer = std::move(input);
}

void SetBatch(const SourceShapes& shapes, LayerParameter* layer) {
  if (layer->type() == "Input") {
    for (int s = 0; s < layer->input_param().shape_size(); ++s) {
      BlobShape* shape = layer->mutable_input_param()->mutable_shape(s);
      if (shapes.batch > 0 && shape->dim_size() > 0) shape->set_dim(0, shapes.batch);
      if (s >= layer->top_size() || !shapes.given.contains(layer->top(s))) continue;
      shape->clear_dim();
      for (int64_t size : shapes.given.at(layer->top(s)).dims()) shape->add_dim(size);
    }
  } else if (shapes.batch > 0) {
    SetBatchSize(static_cast<uint32_t>(shapes.batch), layer);
  }
}

}  // namespace

bool ReadsDataSet(const LayerType& type) { return NameDataSet(type.param_fields); }

uint32_t ReadAheadDepth(const LayerType& type, const LayerParameter& layer) {
  return Has(type.param_fields, "pipeline_param") ? ReadAheadDepth(layer, ReadsDataSet(type)) : 0;
}

void SetBatchSize(uint32_t batch, LayerParameter* layer) {
  if (layer->has_data_param()) layer->mutable_data_param()->set_batch_size(batch);
  if (layer->has_image_data_param()) layer->mutable_image_data_param()->set_batch_size(batch);
  if (layer->has_hdf5_data_param()) layer->mutable_hdf5_data_param()->set_batch_size(batch);
  if (layer->has_window_data_param()) layer->mutable_window_data_param()->set_batch_size(batch);
  if (layer->has_memory_data_param()) layer->mutable_memory_data_param()->set_batch_size(batch);
}

void ReplaceSources(const SourceShapes& shapes, const Registry& registry, NetParameter* net) {
  std::set<std::string> unused;
  for (const auto& [blob, shape] : shapes.given) unused.insert(blob);
  for (LayerParameter& layer : *net->mutable_layer()) {
    bool given = false;
    for (const std::string& top : layer.top()) {
      given = given || (shapes.given.contains(top) && layer.bottom_size() == 0);
      if (layer.bottom_size() == 0) unused.erase(top);
    }
    const Messages messages = MessagesOf(registry, layer);
    if (!NameDataSet(messages)) {
      SetBatch(shapes, &layer);
      continue;
    }
    const Source source = Describe(layer);
    std::error_code ignored;
    if (given || !std::filesystem::exists(source.path, ignored)) {
      BecomeInput(shapes, messages, source, &layer);
    } else {
      SetBatch(shapes, &layer);
    }
  }
  if (!unused.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a shape is given for '", *unused.begin(), "', but no data layer makes it"));
  }
}

}  // namespace crema
