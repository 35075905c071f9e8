// Reads nets and solvers in text format.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

struct FieldSetting;  // format/field_setting.h

struct NetFile {
  NetParameter net;
  SourceMap source;
  std::vector<Problem> warnings;
};

struct SolverFile {
  SolverParameter solver;
  SourceMap source;
  std::vector<Problem> warnings;
};

// Reads a net, upgraded to the present format. Throws Error with every problem of the file:
// kInvalidArgument, or what ReadFile throws. `file_name` is for messages.
NetFile ReadNet(const std::string& path);
// Also sets fields. Throws kInvalidArgument or kNotFound, too, with the problems of all settings.
NetFile ReadNet(const std::string& path, std::span<const FieldSetting> settings);
NetFile ParseNet(const std::string& text, const std::string& file_name);

// Reads a solver and upgrades its solver_type to type. Does not upgrade nets inside of it.
// ReadSolver also completes snapshot_prefix: if unset or empty, the file's path without extension;
// if a folder, the file's name without extension in it.
SolverFile ReadSolver(const std::string& path);
// Also sets fields of the solver; those of its nets are for MakeRunConfig. Throws like
// SetSolverFields, too.
SolverFile ReadSolver(const std::string& path, std::span<const FieldSetting> settings);
SolverFile ParseSolver(const std::string& text, const std::string& file_name);

// Parses any message in text format, as Caffe's protobuf does. Appends every problem to `problems`
// and continues; `message` holds what could be read. `source` may be null.
void ParseText(const std::string& text, const std::string& file_name,
               google::protobuf::Message* message, SourceMap* source,
               std::vector<Problem>* problems);

// Describes a text file found where `expected` (with its article: "a weights file") is required:
// "is a net as text (a prototxt), not a weights file: ...".
std::string DescribeWrongText(const std::string& text, std::string_view expected);

std::string PrintText(const google::protobuf::Message& message);

}  // namespace crema
