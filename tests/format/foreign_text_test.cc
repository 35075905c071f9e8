// Files of another kind get one message.
#include "format/foreign_text.h"

#include <gtest/gtest.h>

#include "format/prototxt.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;

constexpr std::pair<const char*, const char*> kForeign[] = {
    {"404: Not Found\n", "f: is the answer of a web server ('404: Not Found'), not a "},
    {"{\n  \"net\": \"x\",\n  \"base_lr\": 0.1\n}\n", "f: is JSON, not a "},
    {"#!/usr/bin/env python3\nimport torch\n\ndef f(x):\n  return x\n", "is a Python program"},
    {"from torch import nn\nprint(nn)\n", "is a Python program"},
    {"---\nlr: 0.1\nname: step\n", "is YAML, not a "},
    {"train:\n  lr: 0.1\n  layers:\n    - type: conv\n      kernel: 3\n", "is YAML"},
    {"name: \"n\"\n<<<<<<< HEAD\nname: \"a\"\n=======\nname: \"b\"\n>>>>>>> other\n",
     "f:2:1: a merge conflict is left here"},
    {"<?xml version=\"1.0\"?>\n<a/>\n", "is XML, not a "},
    {"<?xml version=\"1.0\"?>\n<html/>\n", "is an HTML page, not a "},
};

TEST(ForeignText, NetsAndSolversSayOnceWhatTheFileIs) {
  for (const auto& [text, message] : kForeign) {
    const auto net = [&, text = text] { ParseNet(text, "f"); };
    const auto solver = [&, text = text] { ParseSolver(text, "f"); };
    EXPECT_EQ(ProblemsOf(net).size(), 1U) << text;
    EXPECT_EQ(ProblemsOf(solver).size(), 1U) << text;
    EXPECT_TRUE(Contains(ErrorOf(net), message)) << ErrorOf(net);
    EXPECT_TRUE(Contains(ErrorOf(solver), message)) << ErrorOf(solver);
  }
}

TEST(ForeignText, PrototxtsWithMistakesAreNone) {
  for (const char* text : {"base_lr: x\nlr_policy: step\n", "import: 3", "layer {\n  nam: \"x\"\n}",
                           "layer\n{\n}\nnam: 4", "name: \"n\"\nnam: 404"}) {
    EXPECT_EQ(FindForeignText(text, "a net").message, "") << text;
  }
}

TEST(ForeignText, TheOldNameOfABlockOfTheNewFormIsOneProblem) {
  const auto mixed = [] {
    ParseNet(
        "name: \"n\"\nlayers {\n  name: \"a\" type: \"ReLU\" bottom: \"x\" top: \"x\"\n"
        "  include { phase: TEST }\n}\nlayers {\n  name: \"b\" type: \"TanH\"\n}\n",
        "f");
  };
  EXPECT_EQ(ErrorOf(mixed),
            "f:2:1: 'layers' is Caffe's old form, but the fields in it are those of the new one: "
            "write 'layer'");
}

TEST(ForeignText, ALayerInASolverBelongsInTheNet) {
  EXPECT_TRUE(Contains(ErrorOf([] { ParseSolver("net: \"n\"\nlayer { name: \"a\" }", "f"); }),
                       "f:2:1: unknown field 'layer' (it belongs in the net)"));
}

TEST(ForeignText, ASolverThatNamesItselfAsItsNetIsTold) {
  EXPECT_TRUE(Contains(ErrorOf([] { ParseNet("net: \"f\" base_lr: 1", "f"); }),
                       "Its field 'net' names this file itself"));
}

}  // namespace
}  // namespace crema
