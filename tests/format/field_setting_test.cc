#include "format/field_setting.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::ErrorOf;

constexpr const char* kSolver =
    "net: 'net.prototxt'\n"
    "base_lr: 0.01 lr_policy: 'step' stepvalue: 100 stepvalue: 200 max_iter: 10\n"
    "early_stop { metric: 'accuracy' patience: 2 }\n";

constexpr const char* kNet =
    "name: 'n'\n"
    "layer { name: 'data' type: 'Data' top: 'data' include { phase: TRAIN }\n"
    "  data_param { source: 'a' batch_size: 8 } }\n"
    "layer { name: 'data' type: 'Data' top: 'data' include { phase: TEST }\n"
    "  data_param { source: 'b' batch_size: 8 } }\n"
    "layer { name: 'conv.1' type: 'Convolution' bottom: 'data' top: 'conv'\n"
    "  param { lr_mult: 1 } param { lr_mult: 2 }\n"
    "  convolution_param { num_output: 4 kernel_size: 3 kernel_size: 5 } }\n"
    "layer { name: '7' type: 'Clip' bottom: 'conv' top: 'x' clip_param { min: 0 max: 6 } }\n"
    "layer { name: 'a[0]' type: 'ReLU' bottom: 'x' top: 'x' }\n";

std::vector<FieldSetting> Settings(const std::vector<std::string>& texts) {
  std::vector<FieldSetting> settings;
  for (const std::string& text : texts) settings.push_back(ParseFieldSetting(text, "--set"));
  return settings;
}

SolverFile SetInSolver(const std::vector<std::string>& texts) {
  SolverFile file = ParseSolver(kSolver, "s.prototxt");
  SetSolverFields(Settings(texts), &file);
  return file;
}

NetFile SetInNet(const std::vector<std::string>& texts, std::optional<Phase> only = std::nullopt) {
  NetFile file = ParseNet(kNet, "n.prototxt");
  NetSettings settings(Settings(texts));
  settings.Apply(only, &file);
  if (!settings.Problems().empty()) throw Error(settings.Problems());
  return file;
}

struct Change {
  const char* set;
  const char* from;  // text of the file that the setting replaces
  const char* to;
};

// Every setting has the effect of an edited file.
TEST(FieldSetting, SetsFieldsOfTheSolver) {
  const std::vector<Change> changes = {
      {"base_lr=0.1", "base_lr: 0.01", "base_lr: 0.1"},
      {" base_lr = 1e-3 ", "base_lr: 0.01", "base_lr: 0.001"},
      {"lr_policy=poly", "'step'", "'poly'"},
      {"lr_policy=\"a=b, c\"", "'step'", "'a=b, c'"},
      {"lr_policy=", "'step'", "''"},
      {"net=dir/o.prototxt", "'net.prototxt'", "'dir/o.prototxt'"},
      {"max_iter=20", "max_iter: 10", "max_iter: 20"},
      {"momentum=0.9", "max_iter: 10", "max_iter: 10 momentum: 0.9"},
      {"solver_mode=GPU", "max_iter: 10", "max_iter: 10 solver_mode: GPU"},
      {"solver_type=ADAM", "max_iter: 10", "max_iter: 10 type: 'Adam'"},
      {"snapshot_after_train=false", "max_iter: 10", "max_iter: 10 snapshot_after_train: false"},
      {"stepvalue[1]=300", "stepvalue: 200", "stepvalue: 300"},
      {"stepvalue=7", "stepvalue: 100 stepvalue: 200", "stepvalue: 7"},
      {"stepvalue=[1, 2, 3]", "stepvalue: 100 stepvalue: 200", "stepvalue: [1, 2, 3]"},
      {"stepvalue=[]", "stepvalue: 100 stepvalue: 200", ""},
      {"weights=a.caffemodel,b.caffemodel", "max_iter: 10",
       "max_iter: 10 weights: 'a.caffemodel,b.caffemodel'"},
      {"early_stop.patience=5", "patience: 2", "patience: 5"},
      {"early_stop={ patience: 5 }", "metric: 'accuracy' patience: 2", "patience: 5"},
      {"train_state.level=2", "max_iter: 10", "max_iter: 10 train_state { level: 2 }"},
  };
  for (const Change& change : changes) {
    std::string edited = kSolver;
    const size_t at = edited.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.set;
    edited.replace(at, std::string(change.from).size(), change.to);
    SolverFile set;
    EXPECT_EQ(ErrorOf([&] { set = SetInSolver({change.set}); }), "");
    EXPECT_EQ(PrintText(set.solver), PrintText(ParseSolver(edited, "").solver)) << change.set;
  }
}

TEST(FieldSetting, SetsFieldsOfTheNet) {
  const std::vector<Change> changes = {
      {"name=m", "name: 'n'", "name: 'm'"},
      {"net.name=m", "name: 'n'", "name: 'm'"},
      {"layer[conv.1].convolution_param.num_output=64", "num_output: 4", "num_output: 64"},
      {"net.layer[conv.1].convolution_param.num_output=64", "num_output: 4", "num_output: 64"},
      {"layer[2].convolution_param.num_output=64", "num_output: 4", "num_output: 64"},
      {"layer[conv.1].convolution_param.kernel_size[1]=7", "kernel_size: 5", "kernel_size: 7"},
      {"layer[conv.1].param[0].lr_mult=0", "lr_mult: 1", "lr_mult: 0"},
      {"layer[conv.1].param={lr_mult: 0}", "param { lr_mult: 1 } param { lr_mult: 2 }",
       "param { lr_mult: 0 }"},
      {"layer[conv.1].param=[{lr_mult: 3}, {}]", "param { lr_mult: 1 } param { lr_mult: 2 }",
       "param { lr_mult: 3 } param { }"},
      {"layer[conv.1].convolution_param.weight_filler={type: 'xavier'}", "num_output: 4",
       "num_output: 4 weight_filler { type: 'xavier' }"},
      {"layer[data:TRAIN].data_param.batch_size=32", "source: 'a' batch_size: 8",
       "source: 'a' batch_size: 32"},
      {"layer[data:TEST].data_param.source=c,d", "source: 'b'", "source: 'c,d'"},
      // A name counts before an index.
      {"layer[7].clip_param.min=-1", "min: 0", "min: -1"},
      {"layer[a[0]].type=ELU", "'ReLU'", "'ELU'"},
      {"layer[4].name=r", "'a[0]'", "'r'"},
  };
  for (const Change& change : changes) {
    std::string edited = kNet;
    const size_t at = edited.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.set;
    edited.replace(at, std::string(change.from).size(), change.to);
    NetFile set;
    EXPECT_EQ(ErrorOf([&] { set = SetInNet({change.set}); }), "");
    EXPECT_EQ(PrintText(set.net), PrintText(ParseNet(edited, "").net)) << change.set;
    EXPECT_TRUE(set.warnings.empty()) << change.set;
  }
}

struct Mistake {
  const char* set;
  const char* message;  // after the setting
};

TEST(FieldSetting, NamesMistakesInSettingsOfTheSolver) {
  const std::vector<Mistake> mistakes = {
      {"base_lr=abc", "'base_lr' expects a number, got abc"},
      {"base_lr=", "a value is missing: 'base_lr' takes a number"},
      {"base_lr=0.1 momentum: 0.9", "holds more than one value: give --set for each field"},
      {"base_l=1", "unknown field 'base_l' (did you mean 'base_lr'?)"},
      {"max_iter=1.5", "'max_iter' expects an integer from -2147483648 to 2147483647, got 1.5"},
      {"solver_mode=gpu",
       "'solver_mode' has no value gpu (did you mean 'GPU'?); allowed: CPU, GPU"},
      {"early_stop=3", "'early_stop' expects a block in braces: write early_stop { ... }; got '3'"},
      {"early_stop.patence=3", "unknown field 'patence' (did you mean 'patience'?)"},
      {"early_stop={patence: 3}", "unknown field 'patence' (did you mean 'patience'?)"},
      {"base_lr.x=3", "'base_lr' has no fields: it takes a number"},
      {"base_lr[0]=3", "'base_lr' is not repeated: leave out [0]"},
      {"stepvalue[2]=3",
       "'stepvalue' has 2 elements: the last is stepvalue[1]; stepvalue=[A, B] sets all of it"},
      {"test_iter[0]=3", "'test_iter' has no elements: set all of it, test_iter=[A, B]"},
      {"stepvalue[x]=3", "'x' is not an index of 'stepvalue'"},
      {"stepvalue[0]=[3, 4]", "holds more than one value: give --set for each field"},
      {"rand_skip=3",
       "unknown field 'rand_skip': fields of a layer are written as "
       "layer[NAME].data_param.rand_skip"},
      {"lr=0.1", "unknown field 'lr' (did you mean 'base_lr'?)"},
      {"epochs=3", "unknown field 'epochs' (did you mean 'max_epoch'?)"},
      {"layr[x].type=a", "unknown field 'layr' (did you mean 'layer'?)"},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_EQ(ErrorOf([&] { SetInSolver({mistake.set}); }),
              StrCat("--set ", mistake.set, ": ", mistake.message));
  }
  for (const char* text : {"base_lr", "=3", "layer[conv1.x=3", ""}) {
    EXPECT_EQ(ErrorOf([&] { Settings({text}); }),
              StrCat("--set ", text, ": is not FIELD=VALUE, such as base_lr=0.1 or ",
                     "layer[conv1].convolution_param.num_output=64"));
  }
}

TEST(FieldSetting, NamesMistakesInSettingsOfTheNet) {
  const std::vector<Mistake> mistakes = {
      {"layer[conv.2].type=a", "there is no layer 'conv.2' (did you mean 'conv.1'?)"},
      {"layer[pool].type=a", "there is no layer 'pool'; summary lists the layers"},
      {"layer[dat:TRAIN].type=a", "there is no layer 'dat' (did you mean 'data'?)"},
      {"layer[conv.1:TRAIN].type=a",
       "no layer 'conv.1' runs in phase TRAIN only; layer[conv.1] is the one of both phases"},
      {"layer[9].type=a",
       "'layer' has 5 elements: the last is layer[4]; layer={ ... } sets all of it"},
      {"layer.type=a", "'layer' is repeated: choose an element, such as layer[data]"},
      {"layer[conv.1].param.lr_mult=0", "'param' is repeated: choose an element, such as param[0]"},
      {"layer[data:TEST].data_param.batchsize=0",
       "unknown field 'batchsize' (did you mean 'batch_size'?)"},
      {"layer[conv.1].num_output=64",
       "unknown field 'num_output' (did you mean 'convolution_param.num_output'?)"},
      {"layer[conv.1].convolution_param.num_output=many",
       "'num_output' expects an integer from 0 to 4294967295, got many"},
      {"base_lr=1",
       "unknown field 'base_lr' in a net: it is a field of the solver, which this command does "
       "not read"},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_EQ(ErrorOf([&] { SetInNet({mistake.set}); }),
              StrCat("--set ", mistake.set, ": ", mistake.message));
  }
}

TEST(FieldSetting, ReportsTheProblemsOfAllSettings) {
  const auto problems = test::ProblemsOf([] { SetInNet({"layer[x].type=a", "nam=b"}); });
  EXPECT_EQ(problems.size(), 2U);
  EXPECT_EQ(test::ProblemsOf([] { SetInSolver({"x=1", "base_lr=y"}); }).size(), 2U);
}

TEST(FieldSetting, SetsAllLayersOfANameAndWarns) {
  const NetFile file = SetInNet({"layer[data].data_param.batch_size=32"});
  EXPECT_EQ(file.net.layer(0).data_param().batch_size(), 32U);
  EXPECT_EQ(file.net.layer(1).data_param().batch_size(), 32U);
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_EQ(ToString(file.warnings[0]),
            "--set layer[data].data_param.batch_size=32: sets all 2 layers 'data'; to set one of "
            "them, write layer[data:TRAIN], layer[data:TEST] or layer[0]");
}

TEST(FieldSetting, KnowsThePhaseOfANetThatRunsInOne) {
  EXPECT_EQ(SetInNet({"layer[conv.1:TEST].type=a"}, TEST).net.layer(2).type(), "a");
  EXPECT_EQ(ErrorOf([] { SetInNet({"layer[conv.1:TRAIN].type=a"}, TEST); }).find("--set"), 0U);
}

TEST(FieldSetting, SetsALayerThatOnlyOneOfSeveralNetsHas) {
  NetFile first = ParseNet(kNet, "n.prototxt");
  NetFile second = ParseNet("layer { name: 'only' type: 'ReLU' bottom: 'x' top: 'x' }", "m");
  NetSettings settings(Settings({"layer[only].type=ELU", "layer[conv.1].type=C"}));
  settings.Apply(TRAIN, &first);
  settings.Apply(TEST, &second);
  EXPECT_TRUE(settings.Problems().empty());
  EXPECT_EQ(first.net.layer(2).type(), "C");
  EXPECT_EQ(second.net.layer(0).type(), "ELU");
}

TEST(FieldSetting, LaterSettingsWin) {
  EXPECT_EQ(SetInSolver({"max_iter=3", "max_iter=4"}).solver.max_iter(), 4);
}

TEST(FieldSetting, IsThePlaceOfLaterProblems) {
  const SolverFile solver = SetInSolver({"max_iter=3", "max_iter=4", "stepvalue=[1, 2]"});
  EXPECT_EQ(solver.source.Locate("max_iter").file, "--set max_iter=4");
  EXPECT_EQ(solver.source.Locate("stepvalue[1]").file, "--set stepvalue=[1, 2]");
  EXPECT_EQ(solver.source.Locate("base_lr").file, "s.prototxt");
  EXPECT_EQ(solver.source.Locate("base_lr").line, 2);
  const NetFile net = SetInNet({"layer[conv.1].convolution_param.num_output=0"});
  EXPECT_EQ(net.source.Locate("layer[2].convolution_param.num_output").file,
            "--set layer[conv.1].convolution_param.num_output=0");
  EXPECT_EQ(net.source.Locate("layer[2].convolution_param.num_output").line, 0);
  EXPECT_EQ(net.source.Locate("layer[2].convolution_param.kernel_size").line, 8);
}

TEST(FieldSetting, SeparatesSettingsOfNets) {
  const std::vector<FieldSetting> settings =
      Settings({"base_lr=1", "layer[a].type=b", "net=c", "net.debug_info=true", "debug_info=true",
                "name=d", "unknown=1"});
  std::string of_nets;
  for (const FieldSetting& setting : SettingsOfNets(settings)) of_nets += setting.path + " ";
  EXPECT_EQ(of_nets, "layer[a].type net.debug_info name ");
}

TEST(FieldSetting, BatchSizeStandsForThatOfDataLayers) {
  const char* const kTwo =
      "layer { name: 'a' type: 'Data' include { phase: TRAIN } data_param { batch_size: 1 } } "
      "layer { name: 'a' type: 'Data' include { phase: TEST } data_param { batch_size: 2 } } "
      "layer { name: 'b' type: 'HDF5Data' hdf5_data_param { batch_size: 3 } }";
  const auto batches = [&](std::optional<Phase> only, std::optional<Phase> batch_phase) {
    NetFile file = ParseNet(kTwo, "n.prototxt");
    NetSettings settings(std::vector{ParseFieldSetting("batch_size=9", "--set")}, batch_phase);
    settings.Apply(only, &file);
    EXPECT_TRUE(settings.Problems().empty());
    EXPECT_EQ(file.source.Locate("layer[2].hdf5_data_param.batch_size").file, "--set batch_size=9");
    return StrCat(file.net.layer(0).data_param().batch_size(), " ",
                  file.net.layer(1).data_param().batch_size(), " ",
                  file.net.layer(2).hdf5_data_param().batch_size());
  };
  EXPECT_EQ(batches(std::nullopt, std::nullopt), "9 9 9");
  EXPECT_EQ(batches(std::nullopt, TRAIN), "9 2 9");
  EXPECT_EQ(batches(TRAIN, TRAIN), "9 2 9");
  NetSettings nothing(std::vector{ParseFieldSetting("batch_size=9", "--set")});
  NetFile file = ParseNet("layer { name: 'a' type: 'ReLU' }", "n.prototxt");
  nothing.Apply(std::nullopt, &file);
  ASSERT_EQ(nothing.Problems().size(), 1U);
  EXPECT_EQ(nothing.Problems()[0].message, "no data layer of this net has a batch_size");
}

TEST(FieldSetting, TheOldNameOfATypeReplacesTheNewOne) {
  SolverFile file = ParseSolver("net: 'n' base_lr: 1 solver_type: SGD", "s.prototxt");
  SetSolverFields(std::vector{ParseFieldSetting("solver_type=ADAM", "--set")}, &file);
  EXPECT_EQ(file.solver.type(), "Adam");
}

TEST(FieldSetting, ANetWithoutTheLayerHidesNoProblem) {
  NetSettings settings(
      std::vector{ParseFieldSetting("layer[ip].inner_product_param.num_outputs=3", "--set")});
  NetFile train = ParseNet("layer { name: 'ip' type: 'InnerProduct' }", "train.prototxt");
  NetFile test = ParseNet("layer { name: 'other' type: 'ReLU' }", "test.prototxt");
  settings.Apply({}, &train);
  settings.Apply({}, &test);
  ASSERT_EQ(settings.Problems().size(), 1U);
  EXPECT_NE(settings.Problems()[0].message.find("did you mean 'num_output'"), std::string::npos)
      << settings.Problems()[0].message;
}

}  // namespace
}  // namespace crema
