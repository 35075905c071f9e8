// Untrusted input of a server, for libFuzzer and for a test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::test {

// Each returns the message of the RequestError, or an empty text if the bytes are accepted. Any
// other exception is a bug and passes through. This one parses the head of an HTTP request.
std::string TryHttpHead(std::string_view bytes);
// Parses a chunked body.
std::string TryHttpBody(std::string_view bytes);
// Finds the file in a form, preceded by a line with its Content-Type.
std::string TryMultipart(std::string_view bytes);
// Parses the body of an inference request, preceded by the length of its JSON part in two bytes,
// little-endian; 65535: all of it.
std::string TryInfer(std::string_view bytes);

// Returns seed inputs, good and bad, for the target "httphead", "httpbody", "multipart" or "infer".
std::vector<std::string> ServerCorpus(const std::string& target);

}  // namespace crema::test
