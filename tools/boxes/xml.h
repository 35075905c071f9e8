// Parses XML to a tree, using Expat.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

struct XmlElement {
  std::string name;
  std::string text;  // between its tags, without that of its children
  int line = 0;      // of its opening tag, from 1
  int column = 0;    //
  std::vector<XmlElement> children;

  // Returns the first child of that name, or null.
  const XmlElement* Find(std::string_view child) const;
};

// Returns the root. Ignores attributes, and everything around the root. Throws kDataLoss with the
// line, naming `file`, for malformed XML or too deep nesting, kUnsupported without Expat. Thread
// safety: any number of threads.
XmlElement ParseXml(std::string_view text, const std::string& file);

}  // namespace crema::tools
