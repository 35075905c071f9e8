#include "core/strings.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace crema {

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += separator;
    text += part;
  }
  return text;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view Trim(std::string_view text) {
  const char* kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

namespace {

std::string Normalised(std::string_view word) {
  std::string out;
  for (char c : word) {
    if (c != '_') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Recognizes abbreviations such as "bn" for "batch_norm": the word consists of the candidate's
// initials.
bool IsInitials(std::string_view word, std::string_view candidate) {
  std::string initials;
  bool start = true;
  for (char c : candidate) {
    if (c == '_') {
      start = true;
    } else if (start || std::isupper(static_cast<unsigned char>(c))) {
      initials += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      start = false;
    }
  }
  const std::string plain = Normalised(word);
  return plain.size() >= 2 && plain == initials;
}

bool MatchesAbbreviation(std::string_view word, std::string_view candidate) {
  constexpr std::string_view kSuffix = "_param";
  if (word.ends_with(kSuffix) && candidate.ends_with(kSuffix)) {
    word.remove_suffix(kSuffix.size());
    candidate.remove_suffix(kSuffix.size());
  }
  return IsInitials(word, candidate);
}

}  // namespace

std::string Nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLeast = 2;
  constexpr size_t kLeastBegin = 4;  // many names begin with shorter words
  const std::string plain = Normalised(word);
  const auto longer = std::ranges::find_if(candidates, [&](const std::string& candidate) {
    return candidate != word && Normalised(candidate).starts_with(plain);
  });
  if (plain.size() >= kLeastBegin && longer != candidates.end()) return *longer;
  return Nearest(word, candidates, std::max(kLeast, Normalised(word.substr(0, 200)).size() / 3));
}

std::string Nearest(std::string_view word, std::span<const std::string> candidates,
                    size_t most_edits) {
  const std::string plain = Normalised(word.substr(0, 200));
  std::string best;
  size_t best_distance = most_edits + 1;
  for (const std::string& candidate : candidates) {
    if (candidate == word) continue;
    if (MatchesAbbreviation(word, candidate)) return candidate;
    const std::string other = Normalised(candidate);
    if (other.size() > 2 * plain.size() + 4) continue;
    const size_t distance = EditDistance(plain, other);
    if (distance < best_distance && distance < std::max<size_t>(plain.size(), 1)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, std::span<const std::string> candidates) {
  const std::string nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : " (did you mean '" + nearest + "'?)";
}

}  // namespace crema
