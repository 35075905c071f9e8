// State dicts of PyTorch, as a target and whole.
#include "core/strings.h"
#include "format/pickle.h"
#include "format/state_dict.h"
#include "format/torch_file.h"
#include "runtime/state_match.h"
#include "support/fuzz_corpus.h"
#include "support/fuzz_limits.h"
#include "support/fuzz_targets.h"
#include "support/net.h"
#include "support/temp_dir.h"
#include "support/torch_files.h"

namespace crema::test {
namespace {

const Plan& StatePlan() {
  static const std::shared_ptr<const Plan> plan = PlanText(R"(
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 3 } } }
    layer { name: "c" type: "Convolution" bottom: "x" top: "c"
      convolution_param { num_output: 2 kernel_size: 1 } }
    layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" }
    layer { name: "ip" type: "InnerProduct" bottom: "c" top: "y"
      inner_product_param { num_output: 2 } })",
                                                           TEST, {.optimize = false});
  return *plan;
}

void ReadAll(StateDict* file) {
  for (size_t i = 0; i < file->entries().size(); ++i) {
    if (file->entries()[i].shape.count() <= kMostRunBytes / 4) file->Read(i);
  }
}

void MatchAndFill(StateDict* file) {
  const StateMatches matches = MatchState(StatePlan(), *file, {}, "");
  DescribeMatches(StatePlan(), *file, matches);
  const std::string map = PrintStateMap(StatePlan(), *file, matches);
  ErrorOf([&] { ParseStateMap(map, "map"); });
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(StatePlan(), 1);
  ErrorOf([&] { FillFromState(StatePlan(), file, matches, weights.get()); });
}

}  // namespace

std::string TryStateDict(std::string_view bytes) {
  if (bytes.starts_with('\xFF')) {
    return ErrorOf([&] {
      const Pickle pickle = ReadPickle(bytes.substr(1), "pickle");
      FindStateDict(pickle, "", "pickle");
    });
  }
  const TempDir folder;
  const std::string path = folder.Write("m.safetensors", std::string(bytes));
  return ErrorOf([&] {
    const std::unique_ptr<StateDict> file = OpenStateDict(path);
    ReadAll(file.get());
    MatchAndFill(file.get());
  });
}

void AddWholeStateDicts(std::vector<CorpusFile>* files) {
  const std::vector<TorchTensor> tensors = {
      {.name = "module.0.weight", .shape = {2, 2, 1, 1}, .bytes = BytesOf<float>({1, 2, 3, 4})},
      {.name = "module.1.running_mean", .shape = {2}, .bytes = BytesOf<float>({5, 6})},
      {.name = "module.1.running_var", .shape = {2}, .bytes = BytesOf<float>({7, 8})},
      {.name = "module.3.bias", .shape = {2}, .bytes = BytesOf<double>({1, 2}), .type = "Double"}};
  const auto add = [&](const std::string& name, const std::string& bytes) {
    files->push_back({name, "statedict", bytes, ""});
  };
  add("old torch file", OldTorchFile(tensors));
  add("pickle", "\xFF" + StateDictPickle(tensors));
  add("checkpoint pickle", "\xFF" + PickleWriter()
                                        .Raw("}(")
                                        .Text("epoch")
                                        .Integer(3)
                                        .Text("model")
                                        .Raw("}q\x01")
                                        .Text("w")
                                        .Tensor("Half", "0", 8, 2, {2, 2}, {1, 2})
                                        .Raw("s")
                                        .Text("again")
                                        .Raw("h\x01u")
                                        .Stop());
#ifdef CREMA_HAVE_ZIP
  add("torch zip", TorchZip(tensors));
#endif
  const std::string header = R"({"__metadata__":{"format":"pt"},"c.weight":{"dtype":"F16",)"
                             R"("shape":[2,2,1,1],"data_offsets":[0,8]},"c.bias":{"dtype":"F32",)"
                             R"("shape":[2],"data_offsets":[8,16]}})";
  add("safetensors", BytesOf<uint64_t>({header.size()}) + header + BytesOf<uint16_t>({1, 2, 3, 4}) +
                         BytesOf<float>({1, 2}));
}

}  // namespace crema::test
