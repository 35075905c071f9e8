// The C interface, implemented on top of the C++ one.
#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crema/crema.h"
#include "crema/deploy.h"

using crema::deploy::Detection;
using crema::deploy::Error;
using crema::deploy::Prediction;
using crema::deploy::Tensor;
using crema::deploy::TensorInfo;
using crema::deploy::Type;

struct crema_model {
  crema::deploy::Model model;
};

struct crema_runner {
  crema::deploy::Model model;
  crema::deploy::Runner runner;
  std::vector<Tensor> outputs;                     // those requested since the last run
  std::vector<std::vector<float>> keypoints = {};  // of the last detections
  crema::deploy::Segmentation segmentation = {};   // the last one
};

namespace {

// Returns the length of a prefix of up to `most` bytes that does not split a UTF-8 character.
size_t LengthThatFits(const char* text, size_t most) {
  size_t length = strnlen(text, most + 1);
  if (length <= most) return length;
  --length;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  return length;
}

crema_status Report(crema_status status, const char* message, crema_error* error) {
  if (error == nullptr) return status;
  error->status = status;
  const size_t length = LengthThatFits(message, sizeof(error->message) - 1);
  std::memcpy(error->message, message, length);
  error->message[length] = '\0';
  return status;
}

// Converts exceptions to error codes.
template <typename Body>
crema_status Guarded(crema_error* error, Body&& body) noexcept {
  try {
    body();
    return Report(CREMA_OK, "", error);
  } catch (const Error& e) {
    return Report(static_cast<crema_status>(e.code()), e.what(), error);
  } catch (const std::bad_alloc&) {
    return Report(CREMA_OUT_OF_MEMORY, "out of memory", error);
  } catch (const std::exception& e) {
    return Report(CREMA_INTERNAL, e.what(), error);
  } catch (...) {
    return Report(CREMA_INTERNAL, "an unknown error", error);
  }
}

void Require(bool given, const char* what) {
  if (given) return;
  throw Error(crema::deploy::Code::kInvalidArgument, std::string(what) + " is NULL");
}

crema::deploy::Options OptionsOf(const crema_options* given) {
  crema::deploy::Options options;
  if (given == nullptr) return options;
  if (given->struct_size != sizeof(crema_options)) {
    throw Error(crema::deploy::Code::kInvalidArgument, "struct_size is not sizeof(crema_options)");
  }
  options.threads = given->threads == 0 ? 1 : given->threads;
  options.gpu = given->use_gpu != 0 ? given->gpu : -1;
  if (given->use_gpu != 0 && given->gpu < 0) {
    throw Error(crema::deploy::Code::kInvalidArgument,
                "gpu is " + std::to_string(given->gpu) + ", expected 0 or more");
  }
  return options;
}

crema_tensor ViewOf(const std::string& name, Type type, const std::vector<int64_t>& shape,
                    const void* data) {
  return {name.c_str(), static_cast<crema_type>(type), shape.size(), shape.data(), data};
}

void Describe(const std::vector<TensorInfo>& infos, size_t index, crema_tensor* info) {
  Require(info != nullptr, "info");
  if (index >= infos.size()) {
    throw Error(crema::deploy::Code::kInvalidArgument, "no entry has that index");
  }
  *info = ViewOf(infos[index].name, infos[index].type, infos[index].shape, nullptr);
}

std::vector<Tensor> TensorsOf(const crema_tensor* inputs, size_t count) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    const crema_tensor& input = inputs[i];
    Require(input.name != nullptr, "the name of an input");
    Require(input.shape != nullptr || input.axes == 0, "the shape of an input");
    tensors.push_back({input.name,
                       static_cast<Type>(input.type),
                       {input.shape, input.shape + input.axes},
                       input.data});
  }
  return tensors;
}

}  // namespace

const char* crema_version(void) { return crema::deploy::Version(); }

crema_status crema_load_plugin(const char* path, crema_error* error) {
  return Guarded(error, [&] {
    Require(path != nullptr, "path");
    crema::deploy::LoadPlugin(path);
  });
}

crema_status crema_model_open(const char* path, const crema_options* options, crema_model** model,
                              crema_error* error) {
  return Guarded(error, [&] {
    Require(model != nullptr, "model");
    *model = nullptr;
    Require(path != nullptr, "path");
    *model = new crema_model{crema::deploy::Model::Open(path, OptionsOf(options))};
  });
}

crema_status crema_model_from_caffe(const char* net, const char* weights,
                                    const crema_options* options, crema_model** model,
                                    crema_error* error) {
  return Guarded(error, [&] {
    Require(model != nullptr, "model");
    *model = nullptr;
    Require(net != nullptr, "net");
    Require(weights != nullptr, "weights");
    *model = new crema_model{crema::deploy::Model::FromCaffe(net, weights, OptionsOf(options))};
  });
}

crema_status crema_model_open_cascade(const char* path, const crema_options* options,
                                      crema_model** model, crema_error* error) {
  return Guarded(error, [&] {
    Require(model != nullptr, "model");
    *model = nullptr;
    Require(path != nullptr, "path");
    *model = new crema_model{crema::deploy::Model::OpenCascade(path, OptionsOf(options))};
  });
}

void crema_model_free(crema_model* model) { delete model; }
const char* crema_model_name(const crema_model* model) { return model->model.name().c_str(); }
const char* crema_model_task(const crema_model* model) { return model->model.task().c_str(); }
size_t crema_model_label_count(const crema_model* model) { return model->model.labels().size(); }

const char* crema_model_label(const crema_model* model, size_t index) {
  const std::vector<std::string>& labels = model->model.labels();
  return index < labels.size() ? labels[index].c_str() : nullptr;
}

size_t crema_model_input_count(const crema_model* model) { return model->model.inputs().size(); }
size_t crema_model_output_count(const crema_model* model) { return model->model.outputs().size(); }

crema_status crema_model_input(const crema_model* model, size_t index, crema_tensor* info,
                               crema_error* error) {
  return Guarded(error, [&] {
    Require(model != nullptr, "model");
    Describe(model->model.inputs(), index, info);
  });
}

crema_status crema_model_output(const crema_model* model, size_t index, crema_tensor* info,
                                crema_error* error) {
  return Guarded(error, [&] {
    Require(model != nullptr, "model");
    Describe(model->model.outputs(), index, info);
  });
}

crema_status crema_runner_new(const crema_model* model, crema_runner** runner, crema_error* error) {
  return Guarded(error, [&] {
    Require(runner != nullptr, "runner");
    *runner = nullptr;
    Require(model != nullptr, "model");
    *runner = new crema_runner{model->model, crema::deploy::Runner(model->model), {}};
    // Avoids reallocation, so that pointers stay valid.
    (*runner)->outputs.reserve(model->model.outputs().size());
  });
}

void crema_runner_free(crema_runner* runner) { delete runner; }

crema_status crema_runner_run(crema_runner* runner, const crema_tensor* inputs, size_t count,
                              crema_error* error) {
  return Guarded(error, [&] {
    Require(runner != nullptr, "runner");
    Require(inputs != nullptr || count == 0, "inputs");
    runner->outputs.clear();
    runner->runner.Run(TensorsOf(inputs, count));
  });
}

crema_status crema_runner_output(crema_runner* runner, const char* name, crema_tensor* output,
                                 crema_error* error) {
  return Guarded(error, [&] {
    Require(runner != nullptr, "runner");
    Require(name != nullptr, "name");
    Require(output != nullptr, "output");
    auto found = std::ranges::find(runner->outputs, name, &Tensor::name);
    if (found == runner->outputs.end()) {
      runner->outputs.push_back(runner->runner.Output(name));
      found = runner->outputs.end() - 1;
    }
    *output = ViewOf(found->name, found->type, found->shape, found->data);
  });
}

crema_status crema_runner_classify(crema_runner* runner, const void* image, size_t bytes,
                                   crema_prediction* predictions, size_t most, size_t* count,
                                   crema_error* error) {
  return Guarded(error, [&] {
    Require(runner != nullptr, "runner");
    Require(image != nullptr, "image");
    Require(predictions != nullptr || most == 0, "predictions");
    Require(count != nullptr, "count");
    *count = 0;
    runner->outputs.clear();
    const std::vector<std::string>& labels = runner->model.labels();
    for (const Prediction& best : runner->runner.Classify(image, bytes, most)) {
      const auto index = static_cast<size_t>(best.index);
      predictions[(*count)++] = {best.index, best.score,
                                 index < labels.size() ? labels[index].c_str() : ""};
    }
  });
}

crema_status crema_runner_detect(crema_runner* runner, const void* image, size_t bytes,
                                 double confidence, crema_detection* detections, size_t most,
                                 size_t* count, crema_error* error) {
  return Guarded(error, [&] {
    Require(runner != nullptr, "runner");
    Require(image != nullptr, "image");
    Require(detections != nullptr || most == 0, "detections");
    Require(count != nullptr, "count");
    *count = 0;
    runner->outputs.clear();
    runner->keypoints.clear();
    const std::vector<std::string>& labels = runner->model.labels();
    std::optional<double> least;
    if (confidence != CREMA_DEFAULT_CONFIDENCE) least = confidence;
    const std::vector<Detection> found = runner->runner.Detect(image, bytes, least);
    for (size_t i = 0; i < found.size() && i < most; ++i) {
      const Detection& f = found[i];
      std::vector<float>& points = runner->keypoints.emplace_back();
      for (const auto& [x, y] : f.keypoints) points.insert(points.end(), {x, y});
      const auto index = static_cast<size_t>(f.index);
      detections[i] = {f.index,
                       f.score,
                       index < labels.size() ? labels[index].c_str() : "",
                       {f.left, f.top, f.right, f.bottom},
                       f.keypoints.size(),
                       points.data()};
    }
    *count = found.size();
  });
}

crema_status crema_runner_segment(crema_runner* runner, const void* image, size_t bytes,
                                  const unsigned char** classes, size_t* width, size_t* height,
                                  crema_error* error) {
  return Guarded(error, [&] {
    Require(runner != nullptr, "runner");
    Require(image != nullptr, "image");
    Require(classes != nullptr, "classes");
    Require(width != nullptr, "width");
    Require(height != nullptr, "height");
    *classes = nullptr;
    *width = *height = 0;
    runner->outputs.clear();
    runner->segmentation = runner->runner.Segment(image, bytes);
    *classes = runner->segmentation.classes.data();
    *width = static_cast<size_t>(runner->segmentation.width);
    *height = static_cast<size_t>(runner->segmentation.height);
  });
}
