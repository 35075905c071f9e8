#include "server/grpc/convert.h"

#include <set>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "server/protocol/check_request.h"
#include "server/protocol/classification.h"
#include "server/protocol/datatype.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr size_t kMostText = 256;

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

int64_t IntegerOf(const std::string& name, const inference::InferParameter& parameter) {
  int64_t value = 0;
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kInt64Param:
      value = parameter.int64_param();
      break;
    case inference::InferParameter::kUint64Param:
      value = static_cast<int64_t>(parameter.uint64_param());
      break;
    default:
      Refuse(Cause::kBadRequest, StrCat("parameter '", name, "' is not an integer"));
  }
  if (value < 0) Refuse(Cause::kBadRequest, StrCat("parameter '", name, "' is out of range"));
  return value;
}

// Zero and the empty string mean unset.
bool SaysNothing(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kInt64Param:
      return parameter.int64_param() == 0;
    case inference::InferParameter::kUint64Param:
      return parameter.uint64_param() == 0;
    case inference::InferParameter::kStringParam:
      return parameter.string_param().empty();
    default:
      return false;
  }
}

// Throws for unsupported parameters that would change the meaning of the answer.
void RefuseParameters(const Parameters& parameters) {
  for (const auto& [name, parameter] : parameters) {
    const bool is_false =
        parameter.parameter_choice_case() == inference::InferParameter::kBoolParam &&
        !parameter.bool_param();
    if (name.starts_with("shared_memory")) {
      Refuse(Cause::kBadRequest, "shared memory is not supported");
    }
    if (name.starts_with("sequence_") && !is_false && !SaysNothing(parameter)) {
      Refuse(Cause::kBadRequest, "sequences are not supported");
    }
    if (name == "priority" && IntegerOf(name, parameter) != 0) {
      Refuse(Cause::kBadRequest, "priorities are not supported");
    }
  }
}

std::optional<int64_t> Integer(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return std::nullopt;
  return IntegerOf(name, found->second);
}

void RequireSize(const std::string& input, const Shape& shape, int64_t elements) {
  if (elements == shape.count()) return;
  Refuse(Cause::kBadRequest,
         StrCat("input '", input, "' has ", elements, " elements, but its shape ", ToString(shape),
                " takes ", shape.count()));
}

// Reads raw_input_contents.
void TakeRaw(InputType type, const std::string& raw, InputTensor* input) {
  if (type == InputType::kBytes) {
    input->images = SplitBytes(input->name, raw, input->shape.count());
    return;
  }
  const auto size = static_cast<size_t>(SizeOf(type));
  if (raw.size() % size != 0) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input->name, "' is not a whole number of elements"));
  }
  RequireSize(input->name, input->shape, static_cast<int64_t>(raw.size() / size));
  if (type == InputType::kFp32) {
    input->raw = raw;
  } else {
    input->values = ToFloats(input->name, type, raw);
  }
}

template <typename Values>
void TakeNumbers(const Values& values, InputType type, InputTensor* input) {
  RequireSize(input->name, input->shape, values.size());
  input->values.reserve(static_cast<size_t>(values.size()));
  for (const auto value : values) {
    input->values.push_back(ExactFloat(input->name, input->values.size(), value));
  }
  CheckNumbers(input->name, type, input->values);
}

// Reads the field of `contents` that the protocol has for the type.
void TakeContents(InputType type, const inference::InferTensorContents& contents,
                  InputTensor* input) {
  switch (type) {
    case InputType::kFp32: {
      const auto& values = contents.fp32_contents();
      RequireSize(input->name, input->shape, values.size());
      input->raw = {reinterpret_cast<const char*>(values.data()),
                    static_cast<size_t>(values.size()) * sizeof(float)};
      return;
    }
    case InputType::kFp16:
    case InputType::kBf16:
      Refuse(Cause::kBadRequest,
             StrCat("input '", input->name, "' has 16 bits, which needs raw_input_contents"));
    case InputType::kBool:
      return TakeNumbers(contents.bool_contents(), type, input);
    case InputType::kUint8:
    case InputType::kUint16:
    case InputType::kUint32:
      return TakeNumbers(contents.uint_contents(), type, input);
    case InputType::kUint64:
      return TakeNumbers(contents.uint64_contents(), type, input);
    case InputType::kInt8:
    case InputType::kInt16:
    case InputType::kInt32:
      return TakeNumbers(contents.int_contents(), type, input);
    case InputType::kInt64:
      return TakeNumbers(contents.int64_contents(), type, input);
    case InputType::kFp64:
      return TakeNumbers(contents.fp64_contents(), type, input);
    case InputType::kBytes:
      RequireSize(input->name, input->shape, contents.bytes_contents_size());
      input->images = {contents.bytes_contents().begin(), contents.bytes_contents().end()};
  }
}

InputTensor Input(const inference::ModelInferRequest::InferInputTensor& message,
                  const std::string* raw, const RequestLimits& limits) {
  InputTensor input;
  input.name = message.name().substr(0, kMostText);
  const InputType type = ParseInputType(input.name, message.datatype());
  input.shape = CheckedShape(
      input.name, {message.shape().data(), static_cast<size_t>(message.shape_size())}, limits);
  if (type == InputType::kBytes) CheckImageCount(input.shape.count(), limits);
  RefuseParameters(message.parameters());
  if (raw == nullptr) {
    TakeContents(type, message.contents(), &input);
    return input;
  }
  if (message.has_contents()) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input.name, "' has contents beside raw_input_contents"));
  }
  TakeRaw(type, *raw, &input);
  return input;
}

void CheckCounts(const inference::ModelInferRequest& message, const RequestLimits& limits) {
  if (message.inputs_size() == 0) Refuse(Cause::kBadRequest, "there are no inputs");
  if (static_cast<size_t>(message.inputs_size()) > limits.tensors ||
      static_cast<size_t>(message.outputs_size()) > limits.tensors) {
    Refuse(Cause::kTooLarge, StrCat("more than ", limits.tensors, " tensors"));
  }
  if (message.raw_input_contents_size() != 0 &&
      message.raw_input_contents_size() != message.inputs_size()) {
    Refuse(Cause::kBadRequest, StrCat("there are ", message.inputs_size(), " inputs, but ",
                                      message.raw_input_contents_size(), " raw_input_contents"));
  }
  if (message.id().size() > kMostText) Refuse(Cause::kBadRequest, "the id is too long");
}

void AddClasses(const OutputTensor& output, int64_t most, const std::vector<std::string>& labels,
                inference::ModelInferResponse::InferOutputTensor* message, std::string* raw) {
  const Classification classes = BestClasses(output, most, labels);
  message->set_datatype("BYTES");
  for (const int64_t dim : classes.shape.dims()) message->add_shape(dim);
  for (const std::string& text : classes.texts) {
    const auto length = static_cast<uint32_t>(text.size());
    raw->append(reinterpret_cast<const char*>(&length), sizeof(length));
    *raw += text;
  }
}

template <typename Message>
void DescribeTensors(const std::vector<BlobInfo>& blobs, Message* messages) {
  for (const BlobInfo& blob : blobs) {
    auto* message = messages->Add();
    message->set_name(blob.name);
    message->set_datatype(std::string(DatatypeOf(blob.dtype)));
    for (const int64_t dim : blob.shape) message->add_shape(dim);
  }
}

template <typename Message>
void DescribeConfigTensors(const std::vector<BlobInfo>& blobs, bool batches, Message* messages) {
  for (const BlobInfo& blob : blobs) {
    auto* message = messages->Add();
    message->set_name(blob.name);
    message->set_data_type(TakesPixels(blob) ? inference::TYPE_UINT8 : inference::TYPE_FP32);
    for (size_t i = batches ? 1 : 0; i < blob.shape.size(); ++i) message->add_dims(blob.shape[i]);
  }
}

void Set(inference::StatisticDuration* duration, int64_t count, int64_t nanoseconds) {
  duration->set_count(static_cast<uint64_t>(count));
  duration->set_ns(static_cast<uint64_t>(nanoseconds));
}

}  // namespace

InferRequest FromMessage(const inference::ModelInferRequest& message, const RequestLimits& limits) {
  CheckCounts(message, limits);
  RefuseParameters(message.parameters());
  InferRequest request;
  request.id = message.id();
  request.timeout_us = Integer(message.parameters(), "timeout");
  ElementBudget budget(limits);
  std::set<std::string_view> names;
  for (int i = 0; i < message.inputs_size(); ++i) {
    const std::string* raw =
        message.raw_input_contents_size() > 0 ? &message.raw_input_contents(i) : nullptr;
    request.inputs.push_back(Input(message.inputs(i), raw, limits));
    budget.Take(request.inputs.back().shape.count());
    if (!names.insert(message.inputs(i).name()).second) {
      Refuse(Cause::kBadRequest, StrCat("input '", request.inputs.back().name, "' appears twice"));
    }
  }
  names.clear();
  for (const auto& output : message.outputs()) {
    RefuseParameters(output.parameters());
    const int64_t classes = Integer(output.parameters(), "classification").value_or(0);
    request.outputs.push_back({output.name().substr(0, kMostText), true, classes});
    if (!names.insert(output.name()).second) {
      Refuse(Cause::kBadRequest,
             StrCat("output '", request.outputs.back().name, "' appears twice"));
    }
  }
  return request;
}

void ToMessage(const InferRequest& request, const InferReply& reply,
               const std::vector<std::string>& labels, inference::ModelInferResponse* message) {
  message->set_model_name(reply.model);
  message->set_model_version(std::to_string(reply.version));
  message->set_id(request.id);
  for (size_t i = 0; i < reply.outputs.size(); ++i) {
    const OutputTensor& output = reply.outputs[i];
    const int64_t classes = request.outputs.empty() ? 0 : request.outputs[i].classes;
    auto* tensor = message->add_outputs();
    std::string* raw = message->add_raw_output_contents();
    tensor->set_name(output.name);
    if (classes > 0) {
      AddClasses(output, classes, labels, tensor, raw);
      continue;
    }
    tensor->set_datatype("FP32");
    for (const int64_t dim : output.shape.dims()) tensor->add_shape(dim);
    raw->assign(reinterpret_cast<const char*>(output.values.data()),
                output.values.size() * sizeof(float));
  }
}

void DescribeModel(const ModelVersion& model, std::span<const int64_t> versions,
                   inference::ModelMetadataResponse* message) {
  message->set_name(model.model());
  message->set_platform("crema");
  for (const int64_t version : versions) message->add_versions(std::to_string(version));
  DescribeTensors(model.description().inputs, message->mutable_inputs());
  DescribeTensors(model.description().outputs, message->mutable_outputs());
}

void DescribeConfig(const ModelVersion& model, inference::ModelConfig* message) {
  const bool batches = model.description().batches;
  message->set_name(model.model());
  message->set_platform("crema");
  message->set_backend("crema");
  message->set_max_batch_size(batches ? static_cast<int32_t>(model.batching().max_batch) : 0);
  DescribeConfigTensors(model.description().inputs, batches, message->mutable_input());
  DescribeConfigTensors(model.description().outputs, batches, message->mutable_output());
  message->add_instance_group()->set_count(model.batching().instances);
  if (batches) {
    message->mutable_dynamic_batching()->set_max_queue_delay_microseconds(
        static_cast<uint64_t>(model.batching().max_delay_us));
  }
}

void DescribeStatistics(const ModelVersion& model, inference::ModelStatistics* message) {
  const VersionStatistics& s = model.statistics();
  const int64_t good = s.successes;
  message->set_name(model.model());
  message->set_version(std::to_string(model.version()));
  message->set_last_inference(static_cast<uint64_t>(s.last_ms));
  message->set_inference_count(static_cast<uint64_t>(s.samples));
  message->set_execution_count(static_cast<uint64_t>(s.runs));
  inference::InferStatistics* times = message->mutable_inference_stats();
  Set(times->mutable_success(), good, s.total_ns);
  Set(times->mutable_fail(), s.failures, s.failed_ns);
  Set(times->mutable_queue(), good, s.queue_ns);
  Set(times->mutable_compute_input(), good, 0);
  Set(times->mutable_compute_infer(), good, s.compute_ns);
  Set(times->mutable_compute_output(), good, 0);
}

}  // namespace crema::server
