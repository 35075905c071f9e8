// Runs an ONNX file by reading it back.
#include <utility>

#include "crema.pb.h"
#include "onnx/export_check.h"
#include "onnx/import.h"

namespace crema {

OnnxRunner ImportedRunner(const ModelOptions& options, const Registry& registry) {
  return [options, &registry](const std::string& path, std::span<const NamedTensor> inputs,
                              const std::vector<std::string>& wanted) {
    ImportOptions import;
    import.int8 = false;  // the file as it is
    for (const NamedTensor& input : inputs) {
      import.shapes.emplace(std::string(input.name), input.value.shape());
    }
    const ImportedNet imported = ImportOnnx(path, import);
    NetState state;
    state.set_phase(TEST);
    PlanOptions planning = options.plan;
    planning.optimize = false;
    planning.backward = false;
    planning.device = {};
    planning.precision = FP32;
    std::vector<Problem> ignored;
    const auto plan = MakePlan(imported.net, {}, state, registry, planning, &ignored);
    const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 1);
    Session session(plan, weights, ExecContext(options.threads));
    for (const NamedTensor& input : inputs) {
      const TensorView to = session.MutableData(std::string(input.name));
      if (!to.empty()) session.Write(to, input.value.raw());
    }
    session.Forward();
    std::vector<NamedOutput> values;
    for (const std::string& name : wanted) {
      const ConstTensorView value = session.Data(name);
      if (value.empty()) continue;
      Tensor copy(value.shape(), value.dtype());
      session.Read(value, copy.view().raw());
      values.push_back({name, std::move(copy)});
    }
    return values;
  };
}

}  // namespace crema
