#include "server/batching/batch_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/strings.h"

namespace crema::server {
namespace {

bool IsAligned(std::string_view bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0;
}

// Copies `samples` samples from sample `first` on if the output counts samples; else all of it.
OutputTensor CopyOutput(const BlobInfo& blob, const ConstTensorView& view, bool batches,
                        int64_t first, int64_t samples, int64_t total) {
  OutputTensor output;
  output.name = blob.name;
  const std::span<const float> values = view.span<float>();
  if (!batches) {
    output.shape = view.shape();
    output.values.assign(values.begin(), values.end());
    return output;
  }
  CREMA_CHECK(view.shape().axes() > 0 && view.shape()[0] == total);
  output.shape = view.shape().With(0, samples);
  const int64_t each = view.shape().count(1);
  const auto begin = values.begin() + first * each;
  output.values.assign(begin, begin + samples * each);
  return output;
}

}  // namespace

BatchRun::BatchRun(const Executable& model)
    : model_(model.description()),
      executor_(model.MakeExecutor()),
      staging_(model.description().inputs.size()) {}

ConstTensorView BatchRun::Gather(size_t input, std::span<const BatchMember> members,
                                 int64_t samples) {
  const InputTensor& first = members[0].request->inputs[input];
  if (members.size() == 1 && IsAligned(first.bytes())) {
    return {first.bytes().data(), first.shape, DType::kF32};
  }
  const Shape shape = model_.batches ? first.shape.With(0, samples) : first.shape;
  std::vector<float>& staging = staging_[input];
  staging.resize(static_cast<size_t>(shape.count()));
  auto* place = reinterpret_cast<std::byte*>(staging.data());
  for (const BatchMember& member : members) {
    const std::string_view bytes = member.request->inputs[input].bytes();
    std::memcpy(place, bytes.data(), bytes.size());
    place += bytes.size();
  }
  return {staging.data(), shape, DType::kF32};
}

std::vector<std::vector<OutputTensor>> BatchRun::Run(std::span<const BatchMember> members) {
  int64_t total = 0;
  for (const BatchMember& member : members) total += member.samples;
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < model_.inputs.size(); ++i) {
    inputs.push_back({model_.inputs[i].name, Gather(i, members, total)});
  }
  executor_->Run(inputs);

  std::vector<std::vector<OutputTensor>> answers(members.size());
  int64_t first = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    const auto copy = [&](const BlobInfo& blob) {
      answers[m].push_back(CopyOutput(blob, executor_->Output(blob.name), model_.batches, first,
                                      members[m].samples, total));
    };
    if (members[m].request->outputs.empty()) {
      for (const BlobInfo& blob : model_.outputs) copy(blob);
    }
    for (const RequestedOutput& wanted : members[m].request->outputs) {
      copy(*std::ranges::find(model_.outputs, wanted.name, &BlobInfo::name));
    }
    first += members[m].samples;
  }
  return answers;
}

void BatchRun::Warm(int64_t max_batch) {
  const int64_t most = model_.batches ? max_batch : 1;
  for (int64_t samples = 1; samples <= most; samples *= 2) {
    InferRequest request;
    for (const BlobInfo& blob : model_.inputs) {
      std::vector<int64_t> dims = blob.shape;
      if (model_.batches) dims[0] = samples;
      // Any size is allowed, so the first request plans.
      if (std::ranges::find(dims, -1) != dims.end()) return;
      const Shape shape(dims);
      InputTensor input;
      input.name = blob.name;
      input.shape = shape;
      input.values.resize(static_cast<size_t>(shape.count()));
      request.inputs.push_back(std::move(input));
    }
    const BatchMember member{&request, samples};
    Run(std::span(&member, 1));
  }
}

}  // namespace crema::server
