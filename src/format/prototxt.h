// Nets and solvers as text.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

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

// A net, upgraded to the present format. Throws Error with every problem of the file:
// kInvalidArgument, or what ReadFile throws. `file_name` is for messages.
NetFile ReadNet(const std::string& path);
NetFile ParseNet(const std::string& text, const std::string& file_name);

// A solver, its solver_type upgraded to type. Nets inside of it stay as they are. ReadSolver also
// completes snapshot_prefix: unset, it is the file's path without extension; a folder, the file's
// name without extension in there.
SolverFile ReadSolver(const std::string& path);
SolverFile ParseSolver(const std::string& text, const std::string& file_name);

// Any message in text format, as Caffe's protobuf reads it. Appends every problem to `problems` and
// goes on behind it; what could be read is in `message`. `source` may be null.
void ParseText(const std::string& text, const std::string& file_name,
               google::protobuf::Message* message, SourceMap* source,
               std::vector<Problem>* problems);

// Of a text file where `expected` (with its article: "a weights file") is needed: what it is
// instead and where that belongs: "is a net as text (a prototxt), not a weights file: ...".
std::string DescribeWrongText(const std::string& text, std::string_view expected);

std::string PrintText(const google::protobuf::Message& message);

}  // namespace crema
