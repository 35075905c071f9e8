// Plugins: loading, their layers, and what is refused.
#include "graph/plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/implementation.h"
#include "graph/plugin_layer.h"
#include "runtime/gpu.h"
#include "runtime/session.h"
#include "support/layer_checker.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;

std::string PluginPath(const std::string& name) {
  return StrCat(CREMA_PLUGINS, "/plugin_", name, ".so");
}

Registry LayersWith(const std::string& name) {
  Registry registry = BuiltinRegistry();
  LoadPlugin(PluginPath(name), &registry);
  return registry;
}

// The error of loading a plugin; its file is where.file.
Problem Refusal(const std::string& path, Registry registry = BuiltinRegistry()) {
  const std::vector<std::string> before = registry.Names();
  try {
    LoadPlugin(path, &registry);
  } catch (const Error& error) {
    EXPECT_EQ(registry.Names(), before);
    return error.problems().front();
  }
  ADD_FAILURE() << path << " was loaded";
  return {};
}

void ExpectRefusal(const std::string& name, const std::string& expected,
                   Registry registry = BuiltinRegistry()) {
  const Problem problem = Refusal(PluginPath(name), std::move(registry));
  EXPECT_NE(problem.message.find(expected), std::string::npos) << problem.message;
  EXPECT_EQ(problem.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(problem.where.file.find("plugin_" + name), std::string::npos) << problem.where.file;
}

void Check(const LayerType& type, const std::vector<LayerSample>& samples) {
  for (const LayerSample& sample : samples) {
    for (const std::string& failure : test::CheckLayerSample(type, sample)) {
      ADD_FAILURE() << type.name << "/" << sample.name << ": " << failure;
    }
  }
}

std::vector<LayerSample> SamplesOfGain() {
  return {{.name = "image", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}}}},
          {.name = "gaussian",
           .prototxt = "plugin_param { param_str: 'filler: gaussian' }",
           .inputs = {{.shape = {4, 6}}}},
          {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}}};
}

TEST(Plugin, AddsItsTypesAndTheirOrigin) {
  const Registry registry = LayersWith("layers");
  const LayerType* type = registry.Find("PluginGain");
  ASSERT_NE(type, nullptr);
  ASSERT_NE(type->plugin, nullptr);
  EXPECT_EQ(type->plugin->name, "layers");
  EXPECT_EQ(type->plugin->version, "2.1");
  EXPECT_EQ(type->plugin->path, PluginPath("layers"));
  EXPECT_EQ(type->plugin->sha256.size(), 64u);
  EXPECT_EQ(registry.Find("PluginLoss")->default_loss_weight, 1);
  EXPECT_EQ(registry.Find("ReLU")->plugin, nullptr);
  ASSERT_EQ(PluginsOf(registry).size(), 1u);
}

TEST(Plugin, LayersPassTheGenericChecker) {
  const Registry registry = LayersWith("layers");
  Check(*registry.Find("PluginGain"), SamplesOfGain());
  Check(*registry.Find("PluginMask"),
        {{.name = "mask", .inputs = {{.shape = {3, 7}, .has_kink = true}}}});
  Check(*registry.Find("PluginLoss"),
        {{.name = "loss", .inputs = {{.shape = {3, 2}}, {.shape = {3, 2}}}}});
  Check(*registry.Find("PluginCounter"),
        {{.name = "counter", .inputs = {}, .gradient = false, .stateful = true}});
}

TEST(Plugin, TheExamplePassesTheGenericChecker) {
  const Registry registry = LayersWith("softsign");
  const LayerType& type = *registry.Find("ScaledSoftsign");
  Check(type, {{.name = "plain", .inputs = {{.shape = {2, 3, 4}}}},
               {.name = "scaled",
                .prototxt = "plugin_param { param_str: 'scale: -2.5' }",
                .inputs = {{.shape = {3, 4}}}}});
  for (const BadSample& sample :
       std::vector<BadSample>{{.prototxt = "plugin_param { param_str: 'scale: x' }",
       .input_shapes = {{2}},
       .expect = "scale is 'x'"},
                              {.prototxt = "plugin_param { param_str: 'scale: 2, slope: 1' }",
                              .input_shapes = {{2}},
                              .expect = "there is no parameter 'slope'"},
                              {.prototxt = "plugin_param { param_str: 'scale' }",
                              .input_shapes = {{2}},
                              .expect = "'scale' is not NAME: VALUE (plugin 'softsign' 1.0"}}) {
    for (const std::string& failure : test::CheckBadSample(type, sample)) ADD_FAILURE() << failure;
  }
}

// The stand-in for a GPU computes on the CPU, and so does this plugin.
TEST(Plugin, CodeForGpusPassesTheGenericChecker) {
  if (GpuCount() > 0) GTEST_SKIP() << "this plugin's code for GPUs computes on the CPU";
  Registry registry = LayersWith("layers");
  for (const char* name : {"PluginGain", "PluginMask"}) {
    if (registry.Find(name)->implementations.size() == 1) {
      registry.AddImplementation(name, PluginGpuImplementation());
    }
  }
  const LayerType& type = *registry.Find("PluginGain");
  ASSERT_EQ(std::ranges::count(type.implementations, DeviceType::kCuda, &Implementation::device),
            1);
  Check(type, SamplesOfGain());
  const auto plan = test::PlanText(
      "layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 3 } } }"
      "layer { name: 'm' type: 'PluginMask' bottom: 'x' top: 'y' }",
      TEST, {.device = {DeviceType::kCuda}, .allow_cpu_layers = true}, registry);
  EXPECT_EQ(plan->layers[1].skipped.front().reason, "the plugin has no code for GPUs");
}

TEST(Plugin, AnOlderOneOfTheSameInterfaceWorks) {
  const Registry registry = LayersWith("older");
  const LayerType& type = *registry.Find("PluginNegate");
  // It has no backward pass in this version of the interface.
  Check(type, {{.name = "older", .inputs = {{.shape = {2, 3}}}, .gradient = false}});
  try {
    const std::unique_ptr<const Layer> layer = type.make(LayerParameter());
    ExecContext context(1);
    layer->Backward({.context = context,
                     .phase = TRAIN,
                     .layer_id = 0,
                     .inputs = {},
                     .outputs = {},
                     .output_grads = {},
                     .input_grads = {},
                     .parameters = {},
                     .parameter_grads = {},
                     .saved = {},
                     .scratch = {},
                     .state = nullptr});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

TEST(Plugin, ANewerOneOfTheSameInterfaceWorks) {
  for (const char* name : {"interface", "newer"}) {
    const Registry registry = LayersWith(name);
    Check(*registry.Find("PluginNegate"), {{.name = name, .inputs = {{.shape = {2, 3}}}}});
  }
}

TEST(Plugin, OfAnotherInterfaceIsRefusedByNameAndVersion) {
  ExpectRefusal("next_abi",
                "plugin 'interface' 1.0 was built for version 2 of the plugin interface, and this "
                "Crema has version 1");
  ExpectRefusal("next_abi", "or use a newer Crema");
  ExpectRefusal("first_abi", "plugin 'interface' 1.0 was built for version 0");
}

TEST(Plugin, ThatIsFaultyIsRefused) {
  ExpectRefusal("no_entry", "it has no function crema_plugin");
  ExpectRefusal("no_name", "does not give its name");
  ExpectRefusal("no_type", "plugin 'interface' 1.0");
  ExpectRefusal("short", "a layer type is too short");
  ExpectRefusal("no_forward", "'PluginNegate' lacks create, destroy, infer or forward");
}

TEST(Plugin, WithATypeOrANameThatExistsIsRefused) {
  ExpectRefusal("relu", "a layer type 'ReLU' exists already (built in)");
  ExpectRefusal("crelu", "a layer type 'CReLU' exists already (built in)");  // when nets are read
  const Registry registry = LayersWith("interface");
  ExpectRefusal("same_type",
                StrCat("plugin 'other' 1.0 (", PluginPath("same_type"),
                       "): a layer type 'PluginNegate' exists already (of plugin 'interface' 1.0"),
                registry);
  ExpectRefusal("other_version", "is loaded already", registry);
}

TEST(Plugin, IsLoadedOnce) {
  Registry registry = LayersWith("layers");
  LoadPlugin(PluginPath("layers"), &registry);
  LoadPlugin(PluginPath("softsign"), &registry);
  EXPECT_EQ(PluginsOf(registry).size(), 2u);
}

TEST(Plugin, AFileThatIsNoneIsRefused) {
  const TempDir temp;
  EXPECT_EQ(Refusal(temp.File("missing.so")).code, ErrorCode::kNotFound);
  EXPECT_EQ(Refusal(temp.Write("text.so", "hello")).message, "is no shared library");
  EXPECT_EQ(Refusal(temp.Write("empty.so", "")).message, "is no shared library");
  EXPECT_NE(Refusal(temp.Write("head.so", "\177ELF" + std::string(200, '\0')))
                .message.find("cannot be loaded"),
            std::string::npos);
}

TEST(Plugin, ATruncatedFileIsRefused) {
  const TempDir temp;
  std::ifstream file(PluginPath("interface"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 4096u);
  for (size_t size = 0; size < whole.size(); size += 499) {
    Registry registry;
    try {
      LoadPlugin(temp.Write(StrCat(size, ".so"), whole.substr(0, size)), &registry);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
  EXPECT_EQ(Refusal(temp.Write("cut.so", whole.substr(0, 4000))).message, "is truncated");
}

// The message of planning and running a net with one layer that makes a mistake.
std::string ErrorOf(const std::string& fault) {
  const Registry registry = LayersWith("layers");
  try {
    const auto plan = test::PlanText(
        StrCat(
            "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n"
            "layer { name: 'f' type: 'PluginFaulty' bottom: 'x' top: 'y'\n"
            "plugin_param { param_str: '",
            fault, "' } }"),
        TEST, {}, registry);
    Session session(plan, Weights::MakeToLoad(*plan, 1), ExecContext(2));
    session.Forward();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Plugin, FaultsOfALayerAreErrorsThatNameIt) {
  EXPECT_EQ(ErrorOf("none"), "");
  for (const auto& [fault, expected] : std::vector<std::pair<std::string, std::string>>{
           {"create", "net.prototxt:3:16: layer \"f\": cannot be made"},
           {"top", "infer gives top 0 no shape"},
           {"axes", "infer gives top 0 too many axes"},
           {"negative", "-1"},
           {"reach", "infer sets reach to 7"},
           {"filler", "a filler: "},
           {"parameter", "-2"},
           {"forward", "cannot run (plugin 'layers' 2.1 ("},
           {"body", "a piece cannot run"},
           {"number", "an exception that is no std::exception"},
           {"memory", "out of memory"}}) {
    const std::string message = ErrorOf(fault);
    EXPECT_NE(message.find(expected), std::string::npos) << fault << ": " << message;
    EXPECT_NE(message.find("layer \"f\""), std::string::npos) << fault << ": " << message;
  }
}

TEST(Plugin, ErrorsHaveTheCodeThatThePluginReturns) {
  const Registry registry = LayersWith("interface");
  LayerParameter param;
  param.mutable_plugin_param()->set_param_str("bad");
  try {
    registry.Find("PluginNegate")->make(param);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.problems().front().where.field, "plugin_param.param_str");
  }
}

TEST(Plugin, EachSessionHasItsState) {
  const Registry registry = LayersWith("layers");
  const auto plan =
      test::PlanText("layer { name: 'c' type: 'PluginCounter' top: 'c' }", TEST, {}, registry);
  const auto weights = Weights::MakeToLoad(*plan, 1);
  Session first(plan, weights, ExecContext(1));
  Session second(plan, weights, ExecContext(1));
  first.Forward();
  first.Forward();
  second.Forward();
  EXPECT_EQ(test::ValuesOf(first.Data("c")), std::vector<float>{2});
  EXPECT_EQ(test::ValuesOf(second.Data("c")), std::vector<float>{1});
}

TEST(Plugin, OfANetIsFoundInItsFolder) {
  const TempDir temp;
  std::filesystem::create_symlink(PluginPath("softsign"), temp.File("s.so"));
  NetFile file = ParseNet("plugin: 's.so'", temp.File("net.prototxt"));
  Registry registry = BuiltinRegistry();
  LoadPlugins(&file, &registry);
  EXPECT_NE(registry.Find("ScaledSoftsign"), nullptr);
  EXPECT_EQ(file.net.plugin(0), temp.File("s.so"));
  file = ParseNet("name: 'n'\nplugin: 'missing.so'", temp.File("net.prototxt"));
  try {
    LoadPlugins(&file, &registry);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(error.problems().front().where.line, 2);
    EXPECT_NE(std::string(error.what()).find("missing.so"), std::string::npos);
  }
}

TEST(Plugin, OfANetThatIsNotLoadedIsNamedInTheError) {
  const std::string text =
      test::PlanError("plugin: 's.so' layer { name: 's' type: 'ScaledSoftsign' top: 'y' }");
  EXPECT_NE(text.find("unknown layer type 'ScaledSoftsign'"), std::string::npos) << text;
  EXPECT_NE(text.find("--plugin=FILE, for s.so"), std::string::npos) << text;
}

TEST(GrowingRegistry, KeepsWhatItReturned) {
  GrowingRegistry registry(BuiltinRegistry());
  const Registry& before = registry.Now();
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) EXPECT_NE(registry.Now().Find("ReLU"), nullptr);
  });
  registry.LoadPlugin(PluginPath("softsign"));
  EXPECT_THROW(registry.LoadPlugin(PluginPath("next_abi")), Error);
  other.join();
  EXPECT_EQ(before.Find("ScaledSoftsign"), nullptr);
  EXPECT_NE(registry.Now().Find("ScaledSoftsign"), nullptr);
}

TEST(GrowingRegistry, TakesPluginsOfSeveralThreads) {
  GrowingRegistry registry(BuiltinRegistry());
  std::vector<std::thread> threads;
  for (const std::string name : {"softsign", "layers", "interface", "softsign"}) {
    threads.emplace_back([&, path = PluginPath(name)] { registry.LoadPlugin(path); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(PluginsOf(registry.Now()).size(), 3U);
}

}  // namespace
}  // namespace crema
