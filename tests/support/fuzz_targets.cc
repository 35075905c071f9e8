#include "support/fuzz_targets.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/error.h"
#include "data/records/datum.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "format/solver_state.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/fuzz_limits.h"
#include "support/net.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_HDF5
#include "crema.pb.h"
#include "data/hdf5/hdf5_file.h"
#endif

namespace crema::test {
namespace {

// A file with these bytes, in memory rather than on a disk if there is such a folder.
class ScratchFile {
 public:
  ScratchFile(std::string_view bytes, const std::string& name) : path_(folder_.File(name)) {
    folder_.Write(name, std::string(bytes));
  }
  const std::string& path() const { return path_; }

 private:
  TempDir folder_;
  std::string path_;
};

bool TouchesFiles(const NetParameter& net) {
  static const std::set<std::string> kHarmless = {"Input", "DummyData"};
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
    const LayerType* type = TestRegistry().Find(layer.type());
    if (type == nullptr) return false;
    if (layer.detection_output_param().has_save_output_param()) return true;
    if (layer.infogain_loss_param().has_source()) return true;
    return type->category == "input" && !kHarmless.contains(type->name);
  });
}

bool IsSmall(const Plan& plan) {
  return IsQuick(plan) && plan.ParameterCount() <= kMostRunBytes / 4;
}

void PlanAndRun(const NetFile& file, Phase phase) {
  NetState state;
  state.set_phase(phase);
  std::vector<Problem> warnings;
  const bool backward = phase == TRAIN;
  const auto plan =
      MakePlan(file.net, file.source, state, TestRegistry(), {.backward = backward}, &warnings);
  if (!IsSmall(*plan)) return;
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  session.Forward();
  if (backward) session.Backward();
}

const Plan& SmallPlan() {
  static const std::shared_ptr<const Plan> plan = PlanText(R"(
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 5 dim: 5 } } }
    layer { name: "conv1" type: "Convolution" bottom: "x" top: "c"
      convolution_param { num_output: 3 kernel_size: 3 } }
    layer { name: "ip" type: "InnerProduct" bottom: "c" top: "y"
      inner_product_param { num_output: 4 } })");
  return *plan;
}

void LoadInto(const NetParameter& model, const std::string& path) {
  const std::shared_ptr<Weights> weights = Weights::Make(SmallPlan(), 1);
  weights->Load(SmallPlan(), model, path, MissingLayers::kKeep);
}

#ifdef CREMA_HAVE_HDF5
void ReadAllData(const std::string& path) {
  const Hdf5File data(path);
  for (const std::string& name : data.Names()) {
    ErrorOf([&] {
      const Shape shape = data.ShapeOf(name);
      if (shape.count() > kMostRunBytes / 4) return;
      std::vector<float> values(static_cast<size_t>(shape.count()));
      data.Read(name, DType::kF32, values.data());
    });
  }
}
#endif

}  // namespace

std::string TryPrototxt(std::string_view bytes) {
  return ErrorOf([&] {
    const NetFile file = ParseNet(std::string(bytes), "net.prototxt");
    if (TouchesFiles(file.net)) return;
    const std::string test = ErrorOf([&] { PlanAndRun(file, TEST); });
    PlanAndRun(file, TRAIN);
    if (!test.empty()) Fail(ErrorCode::kInvalidArgument, test);
  });
}

std::string TrySolver(std::string_view bytes) {
  return ErrorOf([&] { ParseSolver(std::string(bytes), "solver.prototxt"); });
}

std::string TryCaffemodel(std::string_view bytes) {
  const ScratchFile file(bytes, "m.caffemodel");
  return ErrorOf([&] { LoadInto(ReadCaffemodel(file.path()), file.path()); });
}

std::string TrySolverState(std::string_view bytes) {
  const ScratchFile file(bytes, "s.solverstate");
  return ErrorOf([&] { ReadSolverState(file.path()); });
}

std::string TryHdf5(std::string_view bytes) {
#ifdef CREMA_HAVE_HDF5
  const ScratchFile model(bytes, "m.caffemodel.h5");
  const ScratchFile state(bytes, "s.solverstate.h5");
  const std::string as_model =
      ErrorOf([&] { LoadInto(ReadCaffemodel(model.path()), model.path()); });
  const std::string as_state = ErrorOf([&] { ReadSolverState(state.path()); });
  ErrorOf([&] { ReadAllData(model.path()); });
  return as_state.empty() ? as_state : as_model;
#else
  static_cast<void>(bytes);
  return "this build has no HDF5";
#endif
}

std::string TryDatum(std::string_view bytes) {
  return ErrorOf([&] {
    for (const ColorMode mode : {ColorMode::kAsStored, ColorMode::kColor, ColorMode::kGray}) {
      DatumReader reader("set", mode);
      const PixelView pixels = reader.Read("key", bytes);
      // Every pixel that is promised can be read.
      const int64_t count = pixels.shape().count();
      volatile double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        sum = sum + (pixels.bytes != nullptr ? pixels.bytes[i] : pixels.floats[i]);
      }
    }
  });
}

}  // namespace crema::test
