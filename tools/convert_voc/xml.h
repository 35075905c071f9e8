// XML as a tree; read by Expat.
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

  // The first child of that name, or null.
  const XmlElement* Find(std::string_view child) const;
};

// The root. Attributes are passed over, and so is what lies outside of the text. Throws kDataLoss
// with the line, naming `file`, for what is not well-formed or is nested too deeply, kUnsupported
// without Expat. Thread safety: any number of threads.
XmlElement ParseXml(std::string_view text, const std::string& file);

}  // namespace crema::tools
