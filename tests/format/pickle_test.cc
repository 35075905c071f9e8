// Pickles that would run something, or take all memory, are refused by name.
#include "format/pickle.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "support/temp_dir.h"
#include "support/torch_files.h"

namespace crema {
namespace {

using test::BytesOf;
using test::PickleWriter;
using test::TempDir;

using Kind = PickledValue::Kind;

// Returns the code of the error; expects that its message has `part`.
ErrorCode ErrorOf(const std::string& bytes, const std::string& part) {
  try {
    ReadPickle(bytes, "m.pth");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << "\nis not in\n"
                                                                       << error.what();
    EXPECT_EQ(std::string(error.what()).find("m.pth: "), 0U) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "was read, without '" << part << "'";
  return ErrorCode::kInternal;
}

void ExpectRefused(const std::string& bytes, const std::string& part) {
  EXPECT_EQ(ErrorOf(bytes, part), ErrorCode::kUnsupported) << part;
}
void ExpectDamaged(const std::string& bytes, const std::string& part) {
  EXPECT_EQ(ErrorOf(bytes, part), ErrorCode::kDataLoss) << part;
}

TEST(Pickle, PlainValues) {
  const std::string bytes = PickleWriter()
                                .Raw("}(")
                                .Text("epoch")
                                .Integer(300)
                                .Text("negative")
                                .Integer(-2)
                                .Text("large")
                                .Integer(int64_t{1} << 40)
                                .Text("rate")
                                .Raw("G" + std::string(8, '\x3F'))
                                .Text("list")
                                .Raw("](NNe\x88\x89\x85u")
                                .Stop();
  const Pickle mixed = ReadPickle(bytes, "m.pth");
  EXPECT_EQ(mixed.values[mixed.root].items.size(), 12U);
  const std::string two = PickleWriter()
                              .Raw("}(")
                              .Text("a")
                              .Integer(-2)
                              .Text("b")
                              .Integer(int64_t{1} << 40)
                              .Raw("u")
                              .Stop();
  const std::string more = two + "more";
  const Pickle pickle = ReadPickle(more, "m.pth");
  EXPECT_EQ(pickle.size, two.size());
  const PickledValue& root = pickle.values[pickle.root];
  ASSERT_EQ(root.kind, Kind::kDict);
  ASSERT_EQ(root.items.size(), 4U);
  EXPECT_EQ(pickle.values[root.items[0]].text, "a");
  EXPECT_EQ(pickle.values[root.items[1]].number, -2);
  EXPECT_EQ(pickle.values[root.items[3]].number, int64_t{1} << 40);
}

TEST(Pickle, OfAllProtocolsThatPythonWrites) {
  // pickle.dumps({"a": [1, (2, None), 3.5]}, protocol) of Python 3.11.
  const std::string two(
      "\x80\x02}q\x00X\x01\x00\x00\x00\x61q\x01]q\x02(K\x01K\x02N\x86q\x03G@"
      "\x0c\x00\x00\x00\x00\x00"
      "\x00"
      "es.",
      37);
  const std::string four(
      "\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01\x61\x94]\x94(K\x01K\x02N\x86\x94G@"
      "\x0c\x00\x00\x00\x00\x00\x00"
      "es.",
      39);
  for (const std::string& bytes : {two, four}) {
    const Pickle pickle = ReadPickle(bytes, "m.pth");
    EXPECT_EQ(pickle.size, bytes.size());
    const PickledValue& list = pickle.values[pickle.values[pickle.root].items[1]];
    ASSERT_EQ(list.kind, Kind::kList);
    ASSERT_EQ(list.items.size(), 3U);
    EXPECT_EQ(pickle.values[list.items[1]].kind, Kind::kTuple);
  }
  ExpectRefused("(dp0\n.", "protocol 0 and 1");
  ExpectRefused("\x80\x09.", "its protocol is 9");
}

TEST(Pickle, CallsOfOtherFunctionsAreRefusedAndNothingRuns) {
  const TempDir temp;
  const std::string mark = temp.File("was_here");
  const auto call = [&](const std::string& module, const std::string& name) {
    return PickleWriter().Global(module, name).Raw("(").Text("touch " + mark).Raw("tR").Stop();
  };
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"os", "system"},
                                                        {"posix", "system"},
                                                        {"builtins", "eval"},
                                                        {"__builtin__", "eval"},
                                                        {"builtins", "getattr"},
                                                        {"builtins", "__import__"},
                                                        {"subprocess", "Popen"},
                                                        {"torch", "load"},
                                                        {"torch.hub", "load"},
                                                        {"torch.jit._pickle", "build_intlist"},
                                                        {"collections", "OrderedDict.popitem"},
                                                        {"collections.OrderedDict", "__class__"},
                                                        {"numpy", "load"},
                                                        {"argparse", "Namespace"}}) {
    ExpectRefused(call(module, name), StrCat("refused at byte 2: it asks for ", module, ".", name));
    // The same by STACK_GLOBAL.
    ExpectRefused(PickleWriter().Text(module).Text(name).Raw("\x93(").Text("x").Raw("tR").Stop(),
                  StrCat("it asks for ", module, ".", name));
  }
  EXPECT_FALSE(std::filesystem::exists(mark));
  ExpectRefused(call("o\x01s", std::string(200, 'x')), "o?s.xxx");
  // Names split elsewhere.
  ExpectRefused(call("torch._utils._rebuild_tensor_v2", ""), "not on the list");
  ExpectRefused(call("", "torch.Size"), "not on the list");
}

TEST(Pickle, OtherOpcodesAreRefusedByName) {
  const auto with = [](const std::string& code) { return PickleWriter().Raw("N" + code).Stop(); };
  ExpectRefused(with("(ios\nsystem\n"), "refused at byte 4: INST");
  ExpectRefused(with("(o"), "OBJ");
  ExpectRefused(with(")\x81"), "NEWOBJ");
  ExpectRefused(with(")}\x92"), "NEWOBJ_EX");
  ExpectRefused(with("\x82\x01"), "EXT1");
  ExpectRefused(with("Pid\n"), "PERSID");
  ExpectRefused(with("\x97"), "NEXT_BUFFER");
  ExpectRefused(with("\x8b\xff\xff\xff\x7f"), "LONG4");
  ExpectRefused(with("I1\n"), "INT ");
  ExpectRefused(with("2"), "DUP");
  ExpectDamaged(with("\xff"), "byte 255 is no opcode");
}

TEST(Pickle, AllowedClassesAreNoFunctionsAndResultsAreNone) {
  ExpectRefused(PickleWriter().Global("torch", "FloatStorage").Raw(")R").Stop(),
                "it calls torch.FloatStorage");
  ExpectRefused(PickleWriter().Global("torch.nn.parameter", "Parameter").Raw(")R").Stop(),
                "only allowed as an argument");
  ExpectDamaged(PickleWriter().Raw("N)R").Stop(), "something that is no function");
  ExpectDamaged(PickleWriter().Global("collections", "OrderedDict").Raw("NR").Stop(),
                "arguments are no tuple");
  // A call of the result of a call.
  ExpectDamaged(PickleWriter().Global("collections", "OrderedDict").Raw(")R)R").Stop(),
                "something that is no function");
  // A NumPy scalar, as checkpoints have it.
  const Pickle scalar = ReadPickle(PickleWriter()
                                       .Global("numpy.core.multiarray", "scalar")
                                       .Raw("(")
                                       .Global("numpy", "dtype")
                                       .Raw("(")
                                       .Text("f8")
                                       .Raw("\x89\x88tR(K\x03")
                                       .Text("<")
                                       .Raw("NNNJ\xff\xff\xff\xffJ")
                                       .Raw(std::string("\xff\xff\xff\xffK\x00tb", 8))
                                       .Global("_codecs", "encode")
                                       .Raw("(")
                                       .Text("abcdefgh")
                                       .Text("latin1")
                                       .Raw("tRtR")
                                       .Stop(),
                                   "m.pth");
  EXPECT_EQ(scalar.values[scalar.root].kind, Kind::kPlain);
  // Attributes of a tensor.
  ExpectRefused(PickleWriter().Tensor("Float", "0", 1, 0, {1}, {1}).Raw("}b").Stop(), "BUILD");
}

TEST(Pickle, TruncatedAnywhere) {
  const std::string whole = test::StateDictPickle({{.name = "weight", .shape = {2, 3}, .bytes = ""},
                                                   {.name = "bias", .shape = {2}, .bytes = ""}});
  EXPECT_EQ(ReadPickle(whole, "m.pth").tensors.size(), 2U);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(ReadPickle(whole.substr(0, size), "m.pth"), Error) << size;
  }
}

TEST(Pickle, StacksMemoAndMarks) {
  const auto with = [](const std::string& code) { return PickleWriter().Raw(code).Stop(); };
  ExpectDamaged(with(""), "empty stack");
  ExpectDamaged(with("R"), "empty stack");
  ExpectDamaged(with("\x87"), "empty stack");
  ExpectDamaged(with("N(s"), "empty stack");
  ExpectDamaged(with("t"), "no MARK");
  ExpectDamaged(with("(N"), "left over");
  ExpectDamaged(with("N("), "empty stack");
  ExpectDamaged(with("(N)"), "left over");
  ExpectDamaged(with("NN"), "left over");
  ExpectDamaged(with("h\x07"), "nothing at 7 of its memo");
  ExpectDamaged(with(std::string("r\xff\xff\xff\xff", 5)), "empty stack");
  ExpectDamaged(with("NNa"), "no list");
  ExpectDamaged(with("NNNs"), "no dict");
  ExpectDamaged(with("}(Nu"), "without a value");
  // A memo index of 2^32 - 1 costs one entry.
  EXPECT_NO_THROW(ReadPickle(with(std::string("Nr\xff\xff\xff\xff", 6)), "m.pth"));
}

TEST(Pickle, BombsStaySmall) {
  // "Billion laughs": each list holds the one before twice. 2^1000 items if it were copied.
  std::string laughs = "]q";
  laughs += '\x01';
  for (int i = 0; i < 1000; ++i)
    laughs +=
        "](h\x01h\x01"
        "eq\x01";
  std::string stack = PickleWriter().Raw(laughs).Stop();
  EXPECT_EQ(ErrorOf(stack, "left over"), ErrorCode::kDataLoss);
  // A dict within itself.
  EXPECT_NO_THROW(ReadPickle(PickleWriter().Raw("}q\x01").Text("x").Raw("h\x01s").Stop(), "m.pth"));
  // Nesting is no recursion.
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "\x85";
  EXPECT_EQ(ReadPickle(PickleWriter().Raw("N" + deep).Stop(), "m.pth").values.size(), 200003U - 1);
  // One list of pairs, made a dict again and again.
  PickleWriter dicts;
  dicts.Raw("](");
  for (int i = 0; i < 1000; ++i) dicts.Raw("NN\x86");
  dicts.Raw("e\x85q\x01");
  for (int i = 0; i < 1000; ++i) dicts.Global("collections", "OrderedDict").Raw("h\x01R");
  ExpectRefused(dicts.Stop(), "copies one list again and again");
}

TEST(Pickle, HugeNumbersAndTexts) {
  const auto tensor = [](const std::string& size) {
    return PickleWriter()
        .Global("torch._utils", "_rebuild_tensor_v2")
        .Raw("(")
        .Storage("Float", "0", 4)
        .Raw("K" + std::string(1, '\0'))
        .Raw(size)
        .Integers({1})
        .Raw("\x89NtR")
        .Stop();
  };
  ExpectDamaged(tensor("\x8a\x09" + std::string(9, '\x7f') + "\x85"), "too large");
  ExpectDamaged(tensor("\x8a\x08" + std::string(8, '\x7f') + "\x85"), "too large");
  ExpectDamaged(tensor("\x8a\x01\xff\x85"), "negative");
  ExpectDamaged(tensor("K\x05\x85"), "outside of its storage");
  ExpectDamaged(tensor("J\xff\xff\xff\x7f\x85"), "outside of its storage");
  ExpectDamaged(tensor("N\x85"), "no number");
  ExpectDamaged(tensor("N"), "no tuple");
  ExpectDamaged(tensor("(" + std::string(66, 'K') + "t"), "more than 32 axes");
  ExpectDamaged(PickleWriter().Raw("X" + BytesOf<uint32_t>({0xFFFFFFFF})).Stop(),
                "ends within a string");
  ExpectDamaged(PickleWriter().Raw("\x8d" + std::string(8, '\xff')).Stop(), "ends within a string");
  ExpectRefused(
      PickleWriter().Raw("X" + BytesOf<uint32_t>({1 << 21}) + std::string(1 << 21, 'x')).Stop(),
      "a string has 2097152 bytes");
}

TEST(Pickle, Tensors) {
  const auto tensor = [](int64_t offset, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& strides) {
    return PickleWriter().Tensor("Half", "key", 12, offset, shape, strides).Stop();
  };
  const std::string bytes = tensor(3, {3, 3}, {1, 3});
  const Pickle pickle = ReadPickle(bytes, "m.pth");
  ASSERT_EQ(pickle.values[pickle.root].kind, Kind::kTensor);
  EXPECT_EQ(pickle.tensors[0].type, ElementType::kF16);
  EXPECT_EQ(pickle.tensors[0].offset, 3U);
  EXPECT_EQ(pickle.tensors[0].strides, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(pickle.storages[0].key, "key");
  EXPECT_NO_THROW(ReadPickle(tensor(11, {}, {}), "m.pth"));
  EXPECT_NO_THROW(ReadPickle(tensor(500, {0, 5}, {5, 1}), "m.pth"));
  ExpectDamaged(tensor(12, {}, {}), "outside of its storage");
  ExpectDamaged(tensor(4, {3, 3}, {3, 1}), "outside of its storage");
  ExpectDamaged(tensor(0, {2}, {int64_t{1} << 40}), "outside of its storage");
  ExpectDamaged(tensor(0, {2, 2}, {1}), "another number of strides");
  ExpectDamaged(tensor(-1, {1}, {1}), "negative");
  ExpectDamaged(tensor(0, {1 << 30, 1 << 30}, {0, 0}), "the shape of a tensor");
  ExpectRefused(tensor(0, {1 << 30}, {0}), "expand");
  ExpectRefused(tensor(0, {3, 4}, {0, 1}), "expand");
  EXPECT_NO_THROW(ReadPickle(tensor(0, {1, 4}, {0, 1}), "m.pth"));
  ExpectRefused(PickleWriter().Tensor("QInt8", "0", 1, 0, {1}, {1}).Stop(), "torch.QInt8Storage");
  ExpectRefused(PickleWriter().Raw("(").Text("module").Text("x").Raw("tQ").Stop(),
                "no storage of a tensor");
  // A view of a storage, as old files have it.
  ExpectRefused(PickleWriter()
                    .Raw("(")
                    .Text("storage")
                    .Global("torch", "FloatStorage")
                    .Text("0")
                    .Text("cpu")
                    .Integer(4)
                    .Raw("(NNNttQ")
                    .Stop(),
                "view of another one");
}

TEST(Pickle, ParametersAndUntypedStorages) {
  PickleWriter parameter;
  parameter.Global("torch._utils", "_rebuild_parameter")
      .Raw("(")
      .Tensor("Float", "0", 2, 0, {2}, {1})
      .Raw("\x88NtR");
  const Pickle one = ReadPickle(parameter.Stop(), "m.pth");
  EXPECT_EQ(one.values[one.root].kind, Kind::kTensor);
  PickleWriter typed;
  typed.Global("torch._tensor", "_rebuild_from_type_v2")
      .Raw("(")
      .Global("torch._utils", "_rebuild_tensor_v3")
      .Global("torch.nn.parameter", "Parameter")
      .Raw("((")
      .Text("storage")
      .Global("torch.storage", "UntypedStorage")
      .Text("0")
      .Text("cpu")
      .Integer(8)
      .Raw("tQ")
      .Integer(0)
      .Integers({4})
      .Integers({1})
      .Raw("\x89N")
      .Global("torch", "bfloat16")
      .Raw("t}tR");
  const Pickle two = ReadPickle(typed.Stop(), "m.pth");
  EXPECT_EQ(two.tensors.at(0).type, ElementType::kBF16);
  ExpectRefused(PickleWriter()
                    .Global("torch._tensor", "_rebuild_from_type_v2")
                    .Raw("(")
                    .Global("collections", "OrderedDict")
                    .Raw("N)NtR")
                    .Stop(),
                "another function than PyTorch's own");
}

}  // namespace
}  // namespace crema
