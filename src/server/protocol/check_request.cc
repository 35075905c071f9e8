#include "server/protocol/check_request.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "server/protocol/datatype.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

std::string ShapeText(const std::vector<int64_t>& dims) {
  std::vector<std::string> parts;
  for (const int64_t dim : dims) parts.push_back(std::to_string(dim));
  return StrCat("[", Join(parts, ","), "]");
}

bool Fits(const Shape& shape, const std::vector<int64_t>& dims) {
  if (shape.axes() != static_cast<int>(dims.size())) return false;
  for (int axis = 0; axis < shape.axes(); ++axis) {
    const int64_t wanted = dims[static_cast<size_t>(axis)];
    if (wanted != -1 && wanted != shape[axis]) return false;
  }
  return true;
}

std::vector<std::string> NamesOf(const std::vector<BlobInfo>& blobs) {
  std::vector<std::string> names;
  for (const BlobInfo& blob : blobs) names.push_back(blob.name);
  return names;
}

void OrderInputs(const ModelDescription& model, std::vector<InputTensor>* inputs) {
  const std::vector<std::string> names = NamesOf(model.inputs);
  for (const InputTensor& input : *inputs) {
    if (std::ranges::find(names, input.name) == names.end()) {
      Refuse(Cause::kBadRequest,
             StrCat("the model has no input '", input.name, "'; its inputs: ", Join(names, " ")));
    }
  }
  std::vector<InputTensor> ordered;
  for (const BlobInfo& blob : model.inputs) {
    const auto found = std::ranges::find(*inputs, blob.name, &InputTensor::name);
    if (found == inputs->end()) {
      Refuse(Cause::kBadRequest, StrCat("input '", blob.name, "' is missing"));
    }
    if (!Fits(found->shape, blob.shape)) {
      const std::span<const int64_t> dims = found->shape.dims();
      Refuse(Cause::kBadRequest,
             StrCat("input '", blob.name, "' is ", ShapeText({dims.begin(), dims.end()}),
                    ", but the model takes ", ShapeText(blob.shape)));
    }
    CREMA_CHECK(found->images.empty());  // DecodeImages comes before
    ordered.push_back(std::move(*found));
  }
  *inputs = std::move(ordered);
}

// Turns the elements of an input that takes pixels into bytes; those of images are bytes already.
void MakePixels(const BlobInfo& blob, InferRequest* request) {
  InputTensor& input = request->inputs[0];
  const auto count = static_cast<size_t>(input.shape.count());
  if (!TakesPixels(blob) || input.bytes().size() == count) return;
  const auto pixels = std::make_shared<std::vector<uint8_t>>();
  pixels->reserve(count);
  for (const float value : ToFloats(input.name, InputType::kFp32, input.bytes())) {
    if (!(value >= 0 && value <= 255) || value != std::trunc(value)) {
      Refuse(Cause::kBadRequest,
             StrCat("an element of '", input.name, "' is ", value, ", but the model takes UINT8"));
    }
    pixels->push_back(static_cast<uint8_t>(value));
  }
  input.values.clear();
  input.raw = {reinterpret_cast<const char*>(pixels->data()), pixels->size()};
  request->keep = pixels;
}

void CheckOutputs(const ModelDescription& model, const std::vector<RequestedOutput>& outputs) {
  const std::vector<std::string> names = NamesOf(model.outputs);
  for (const RequestedOutput& output : outputs) {
    if (std::ranges::find(names, output.name) == names.end()) {
      Refuse(Cause::kBadRequest, StrCat("the model has no output '", output.name,
                                        "'; its outputs: ", Join(names, " ")));
    }
  }
}

}  // namespace

int64_t FitRequest(const ModelDescription& model, int64_t max_batch, InferRequest* request) {
  OrderInputs(model, &request->inputs);
  CheckOutputs(model, request->outputs);
  if (!model.inputs.empty()) MakePixels(model.inputs[0], request);
  if (!model.batches) return 1;
  const int64_t samples = request->inputs[0].shape[0];
  for (const InputTensor& input : request->inputs) {
    if (input.shape[0] != samples) {
      Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has ", input.shape[0],
                                        " samples, '", request->inputs[0].name, "' has ", samples));
    }
  }
  if (samples > max_batch) {
    Refuse(Cause::kBadRequest,
           StrCat("a request may have ", max_batch, " samples, this one has ", samples));
  }
  return samples;
}

Shape CheckedShape(const std::string& input, std::span<const int64_t> dims,
                   const RequestLimits& limits) {
  if (dims.size() > limits.axes) {
    Refuse(Cause::kBadRequest,
           StrCat("the shape of '", input, "' has more than ", limits.axes, " axes"));
  }
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) {
      Refuse(Cause::kBadRequest,
             StrCat("the shape of '", input, "' has the dimension ", dim, "; it is 1 at least"));
    }
    // Divides instead of multiplying, to avoid overflow.
    if (dim > limits.elements / count) {
      Refuse(Cause::kTooLarge,
             StrCat("the shape of '", input, "' has more than ", limits.elements, " elements"));
    }
    count *= dim;
  }
  return Shape(dims);
}

void CheckImageCount(int64_t images, const RequestLimits& limits) {
  if (images <= limits.images) return;
  Refuse(Cause::kTooLarge, StrCat("more than ", limits.images, " elements of BYTES"));
}

void ElementBudget::Take(int64_t elements) {
  if (elements > limits_.elements - taken_) {
    Refuse(Cause::kTooLarge, StrCat("more than ", limits_.elements, " elements in one request"));
  }
  taken_ += elements;
}

}  // namespace crema::server
