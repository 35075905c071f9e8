// Crema's side of the races on a GPU (race.py): one net, training or inference, timed pass by pass.
//   gpu_race --model=NET --shape=data:8,3,224,224 [--bounds=label:1000] [--mode=train|infer]
//            [--precision=BF16] [--gpu=0] [--autotune=SECONDS] [--cuda_graphs=0]
// Says on its output what it has made, as JSON; then each line of its input is answered by one:
//   passes COUNT WAIT     runs that many, WAIT 1: waiting for the device after each
//   state                 the memory that it has taken on the GPU, and why it has no CUDA graphs
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/gpu_flag.h"
#include "common/net_flags.h"
#include "common/plan_flags.h"
#include "common/precision_flag.h"
#include "common/tool.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/json.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "solvers/solver.h"

DEFINE_string(model, "", "the net, a prototxt");
DEFINE_string(shape, "", "shapes of its inputs");
DEFINE_string(bounds, "", "inputs that are whole numbers below a bound: label:1000");
DEFINE_string(mode, "train", "train: forward, backward, update by SGD with momentum; or infer");
DEFINE_int32(threads, 0, "of the CPU; 0: one for each processor");

namespace crema::tools {
namespace {

constexpr const char* kUsage = "gpu_race --model=NET --shape=data:8,3,32,32 [--mode=infer]";
constexpr float kRate = 1e-5F;  // so that numbers stay finite whatever is drawn

NetFile ReadNetOfFlags(const Registry& registry) {
  RequireFlag(FLAGS_model, "model");
  NetFile file = ReadNet(FLAGS_model);
  ReplaceSources({.given = ParseShapes(FLAGS_shape)}, registry, &file.net);
  SetPrecisionOfFlag(&file.net);
  return file;
}

RunConfig ConfigOf(const NetFile& net) {
  SolverFile file;
  SolverParameter& solver = file.solver;
  *solver.mutable_net_param() = net.net;
  solver.set_type("SGD");
  solver.set_lr_policy("fixed");
  solver.set_base_lr(kRate);
  solver.set_momentum(0.9F);
  solver.set_weight_decay(0.0005F);
  solver.set_max_iter(1 << 30);
  solver.set_random_seed(1);
  solver.set_snapshot_after_train(false);
  return MakeRunConfig(std::move(file));
}

// Inputs lie in the memory of the device, as PyTorch's do, and are copied within it to where the
// net has them, as a pass may use that memory for others.
class ResidentInputs {
 public:
  explicit ResidentInputs(Session* session) : session_(session) {
    const std::map<std::string, Shape> bounds = ParseShapes(FLAGS_bounds);
    for (const PlannedLayer& layer : session->plan().layers) {
      if (layer.type->name != "Input") continue;
      for (const int v : layer.outputs) {
        const PlannedValue& value = session->plan().values[static_cast<size_t>(v)];
        const auto bound = bounds.find(value.name);
        Draw(value.name, bound == bounds.end() ? 0 : bound->second[0]);
      }
    }
  }

  void Give() {
    for (const auto& [name, kept] : inputs_) {
      const ConstTensorView from = kept.view();
      CopyWithin(session_->context(), session_->MutableData(name).raw(), from.raw(), from.bytes());
    }
  }

 private:
  void Draw(const std::string& name, int64_t bound) {
    const TensorView to = session_->MutableData(name);
    Tensor host(to.shape(), to.dtype());
    const RandomStream stream(1, HashName(name));
    const std::span<float> values = host.view().span<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(bound > 0 ? stream.Below(i, static_cast<uint32_t>(bound))
                                               : stream.Gaussian(i));
    }
    Tensor kept(to.shape(), to.dtype(), session_->context().allocator());
    session_->Write(kept.view(), host.view().raw());
    inputs_.emplace_back(name, std::move(kept));
  }

  Session* session_;
  std::vector<std::pair<std::string, Tensor>> inputs_;
};

class Racer {
 public:
  virtual ~Racer() = default;
  virtual void Pass() = 0;
  virtual Session& session() = 0;
};

class Training final : public Racer {
 public:
  Training(const ComputeDevice& device, const Registry& registry)
      : solver_(ConfigOf(ReadNetOfFlags(registry)), registry,
                {.threads = CheckedThreads(FLAGS_threads),
                 .poll = {},
                 .seed = {},
                 .device = device,
                 .same_batch = true,
                 .plan = PlanOptionsOfFlags()}),
        inputs_(&solver_.session()) {}
  void Pass() override {
    inputs_.Give();
    solver_.QueueIteration(double{kRate});
  }
  Session& session() override { return solver_.session(); }

 private:
  Solver solver_;
  ResidentInputs inputs_;
};

std::shared_ptr<const Plan> PlanForInference(const ComputeDevice& device,
                                             const Registry& registry) {
  const NetFile file = ReadNetOfFlags(registry);
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> warnings;
  PlanOptions options = PlanOptionsOfFlags();
  options.device = device.device;
  options.threads = CheckedThreads(FLAGS_threads);
  options.backward = false;
  return MakePlan(file.net, file.source, state, registry, options, &warnings);
}

class Inference final : public Racer {
 public:
  Inference(const ComputeDevice& device, const Registry& registry)
      : plan_(PlanForInference(device, registry)),
        weights_(Weights::Make(*plan_, 1)),
        session_(plan_, weights_, device.Context(CheckedThreads(FLAGS_threads), 1)),
        inputs_(&session_) {
    session_.FixWeights();
  }
  void Pass() override {
    inputs_.Give();
    session_.QueueForward();
  }
  Session& session() override { return session_; }

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Weights> weights_;
  Session session_;
  ResidentInputs inputs_;
};

void Wait(const Session& session) {
  if (session.context().queue() != nullptr) session.context().queue()->Synchronize();
}

double SecondsOf(Racer* racer, int64_t passes, bool wait) {
  Wait(racer->session());
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < passes; ++i) {
    racer->Pass();
    if (wait) Wait(racer->session());
  }
  Wait(racer->session());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The number of layers that each implementation computes, for tables of times.
std::string ImplementationsOf(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.implementation != nullptr) ++counts[layer.implementation->name];
  }
  std::string text;
  for (const auto& [implementation, count] : counts) {
    text += StrCat(text.empty() ? "" : ", ", JsonString(implementation), ": ", count);
  }
  return text;
}

void Describe(const Plan& plan) {
  int64_t macs = 0;
  int64_t parameters = 0;
  for (const PlannedLayer& layer : plan.layers) macs += layer.info.macs;
  for (const ParameterSlot& slot : plan.parameters) {
    if (!slot.statistic) parameters += slot.shape.count();
  }
  std::printf("{\"macs\": %lld, \"learned\": %lld, \"implementations\": {%s}}\n",
              static_cast<long long>(macs), static_cast<long long>(parameters),
              ImplementationsOf(plan).c_str());
  std::fflush(stdout);
}

// `free`: before anything was made.
void ReportState(const ComputeDevice& device, int64_t free, const Session& session) {
  std::printf("{\"memory_mib\": %lld, \"no_graph\": %s}\n",
              static_cast<long long>((free - device.FreeBytes()) >> 20),
              JsonString(session.WhyNoGraph()).c_str());
  std::fflush(stdout);
}

void Answer(const std::string& line, Racer* racer) {
  std::istringstream words(line);
  std::string verb;
  int64_t passes = 0;
  int wait = 0;
  if (!(words >> verb >> passes >> wait) || verb != "passes" || passes < 1) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", line, "' is not `passes COUNT WAIT`"));
  }
  std::printf("{\"seconds\": %.9g}\n", SecondsOf(racer, passes, wait != 0));
  std::fflush(stdout);
}

int Run() {
  const ComputeDevice device = DeviceOfFlag();
  const int64_t free = device.FreeBytes();
  const Registry registry = BuiltinRegistry();
  if (FLAGS_mode != "train" && FLAGS_mode != "infer") {
    Fail(ErrorCode::kInvalidArgument, StrCat("--mode is '", FLAGS_mode, "'; use train or infer"));
  }
  std::unique_ptr<Racer> racer;
  if (FLAGS_mode == "train") racer = std::make_unique<Training>(device, registry);
  if (FLAGS_mode == "infer") racer = std::make_unique<Inference>(device, registry);
  Describe(racer->session().plan());
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "state") {
      ReportState(device, free, racer->session());
    } else {
      Answer(line, racer.get());
    }
  }
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
