#include "runtime/error_context.h"

#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/sample_error_context.h"

namespace crema {
namespace {

int64_t Rows(const Plan& plan, int value) {
  const Shape& shape = plan.values[static_cast<size_t>(value)].spec.shape;
  return shape.axes() > 0 ? shape[0] : 0;
}

// Uses any source with that batch size: labels and images may come from two of them.
std::string NameOfAnySource(const Session& session, int64_t rows, int64_t index) {
  const std::vector<PlannedLayer>& layers = session.plan().layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSessionState* state = session.state(i);
    if (state == nullptr || !layers[i].inputs.empty() || layers[i].outputs.empty()) continue;
    if (Rows(session.plan(), layers[i].outputs[0]) != rows) continue;
    std::string name = state->SampleName(index);
    if (!name.empty()) return name;
  }
  return {};
}

// Returns the inputs, beginning with the one that the problem names.
std::vector<int> InputsInOrder(const PlannedLayer& layer, const std::string& blob) {
  std::vector<int> first;
  std::vector<int> others;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const auto bottom = static_cast<int>(i);
    const bool meant =
        bottom < layer.layer->param().bottom_size() && layer.layer->param().bottom(bottom) == blob;
    (meant ? first : others).push_back(layer.inputs[i]);
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

std::string NameOf(const Session& session, const PlannedLayer& layer, const Where& where) {
  const std::vector<int> inputs = InputsInOrder(layer, where.blob);
  for (const int input : inputs) {
    std::string name = FindSampleName(session, input, where.sample);
    if (!name.empty()) return name;
  }
  return inputs.empty()
             ? std::string()
             : NameOfAnySource(session, Rows(session.plan(), inputs.front()), where.sample);
}

void Replace(const std::string& from, const std::string& to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at)) {
    text->replace(at, from.size(), to);
    at += to.size();
  }
}

}  // namespace

std::string FindSampleName(const Session& session, int value, int64_t index) {
  const Plan& plan = session.plan();
  std::vector<bool> seen(plan.values.size());
  std::vector<int> to_visit = {value};
  while (!to_visit.empty()) {
    const int at = to_visit.back();
    to_visit.pop_back();
    const int producer = plan.values[static_cast<size_t>(at)].producer;
    if (producer < 0 || seen[static_cast<size_t>(at)]) continue;
    seen[static_cast<size_t>(at)] = true;
    const PlannedLayer& layer = plan.layers[static_cast<size_t>(producer)];
    const LayerSessionState* state = session.state(static_cast<size_t>(producer));
    if (layer.inputs.empty() && state != nullptr) {
      std::string name = state->SampleName(index);
      if (!name.empty()) return name;
    }
    for (const int input : layer.inputs) {
      if (Rows(plan, input) == Rows(plan, at)) to_visit.push_back(input);
    }
  }
  return {};
}

Error AddSampleNames(const Session& session, size_t layer, const Error& error) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    const int64_t sample = problem.where.sample;
    if (sample < 0) continue;
    const std::string name = NameOf(session, session.plan().layers[layer], problem.where);
    if (!name.empty()) {
      Replace(SampleErrorContext(sample), StrCat("sample '", name, "'"), &problem.message);
    }
  }
  return Error(std::move(problems));
}

}  // namespace crema
