#include "onnx/import_check.h"

#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "format/caffemodel.h"
#include "graph/registry.h"
#include "inference/compare_models.h"
#include "plan/plan.h"
#include "runtime/session.h"
#include "runtime/weights.h"

namespace crema {
namespace {

Session SessionOf(const NetParameter& net, const SourceMap& source, const Registry& registry,
                  const std::string& weights_file) {
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> ignored;
  const auto plan =
      MakePlan(net, source, state, registry, {.backward = false, .optimize = false}, &ignored);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  if (!weights_file.empty()) {
    weights->Load(*plan, ReadCaffemodel(weights_file), weights_file, MissingLayers::kError);
  }
  return Session(plan, weights, ExecContext(1));
}

void SetInputs(const NetParameter& net, bool zeros, Session* session) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() != "Input") continue;
    for (const std::string& top : layer.top()) {
      const TensorView to = session->MutableData(top);
      if (to.empty()) continue;
      const RandomStream random(1, HashName(top));
      std::vector<float> values(static_cast<size_t>(to.count()), 0.0F);
      for (size_t i = 0; i < values.size() && !zeros; ++i) {
        values[i] = static_cast<float>(random.Uniform(i));
      }
      session->Write(to, values.data());
    }
  }
}

// Returns true if the net took random inputs.
bool RunOnRandom(const NetParameter& net, Session* session) {
  try {
    SetInputs(net, false, session);
    session->Forward();
    return true;
  } catch (const Error&) {
    SetInputs(net, true, session);
    session->Forward();
    return false;
  }
}

Tensor ValueOf(Session* session, const std::string& blob) {
  const ConstTensorView value = session->Data(blob);
  Tensor copy(value.shape(), value.dtype());
  session->Read(value, copy.view().raw());
  return copy;
}

}  // namespace

void CheckSameNets(const NetParameter& a, const NetFile& b, const std::string& weights,
                   double tolerance) {
  const Registry registry = BuiltinRegistry();
  Session first = SessionOf(a, {}, registry, "");
  Session second = SessionOf(b.net, b.source, registry, weights);
  SetInputs(a, !RunOnRandom(a, &first), &second);
  second.Forward();
  for (const LayerParameter& layer : a.layer()) {
    for (const std::string& top : layer.top()) {
      if (first.Data(top).empty() || second.Data(top).empty()) continue;
      Difference difference{.blob = top};
      const Tensor x = ValueOf(&first, top);
      const Tensor y = ValueOf(&second, top);
      AddDifference(x.view(), y.view(), &difference);
      if (difference.note.empty() && difference.largest <= tolerance * difference.most) continue;
      Fail(ErrorCode::kInternal,
           StrCat("the net that was written computes another blob '", top, "': ",
                  difference.note.empty()
                      ? StrCat("it differs by ", difference.largest, " of ", difference.most)
                      : difference.note,
                  "; nothing is left behind, please report this"));
    }
  }
}

}  // namespace crema
