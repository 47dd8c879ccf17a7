#include <array>
#include <cmath>

#include <fmt/format.h>

#include "paceline/timeline/lanes.h"

namespace paceline::cli {
namespace {

constexpr double kWidth = 480, kLeft = 92, kRight = 472;  // of the picture and of its lanes, in its own units
constexpr double kTop = 40, kTitle = 22, kRow = 26, kBar = 20, kGap = 18;
constexpr double kLeastBar = 0.4;  // what is shorter would not be seen

constexpr const char* kHead =
    R"svg(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {0:.0f}" width="560" font-family="sans-serif" font-size="14"
 role="img" aria-label="When a worker computes and when what it exchanges is on its way: {1}">
<style>
.paper {{ fill: #fff }} text {{ fill: #1c2730 }} .title {{ font-weight: bold }} .note {{ fill: #53606c; font-size: 13px }}
.forward {{ fill: #8fbbe3 }} .backward {{ fill: #eeb48a }} .way {{ fill: #6f8f3f }}
line {{ stroke: #53606c; stroke-dasharray: 3 3 }}
@media (prefers-color-scheme: dark) {{
.paper {{ fill: #0d1117 }} text {{ fill: #e6edf3 }} .note {{ fill: #9aa7b4 }} line {{ stroke: #9aa7b4 }}
.forward {{ fill: #5b93c4 }} .backward {{ fill: #d08a55 }} .way {{ fill: #8bb04f }}
}}
</style>
<rect class="paper" width="480" height="{0:.0f}"/>
)svg";

// For text and for values of attributes.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string words(double x, double y, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, escaped(text));
}

class Scale {
 public:
  explicit Scale(double length) : length_(length) {}
  double at(double microseconds) const { return kLeft + (kRight - kLeft) * microseconds / length_; }
  bool shows(double microseconds) const { return microseconds >= 0 && microseconds < length_; }

  std::string bars(const std::vector<Span>& spans, double from, double y, const char* kind) const {
    std::string all;
    for (const Span& span : spans) {
      const double begin = std::max(span.begin - from, 0.0), end = std::min(span.end - from, length_);
      if (end > begin)
        all += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>\n", kind, at(begin),
                           y, std::max(at(end) - at(begin), kLeastBar), kBar);
    }
    return all;
  }

  // 1, 2 or 5 times a power of ten: at most five of them fit.
  double tick() const {
    const double power = std::pow(10, std::floor(std::log10(length_ / 5)));
    for (const double times : {1, 2, 5})
      if (times * power >= length_ / 5) return times * power;
    return 10 * power;
  }

 private:
  double length_;  // microseconds
};

}  // namespace

std::string drawn(const std::vector<Part>& parts, double length) {
  const Scale scale(length);
  const double height = kTop + static_cast<double>(parts.size()) * (kTitle + 2 * kRow + kGap) + 12;
  std::string names;
  for (const Part& part : parts) names += (names.empty() ? "" : ", ") + part.title;
  std::string svg = fmt::format(fmt::runtime(kHead), height, escaped(names));
  double x = kLeft;
  for (const auto& [kind, name] :
       {std::pair("forward", "forward"), std::pair("backward", "backward"), std::pair("way", "on its way")}) {
    svg += fmt::format("<rect class=\"{}\" x=\"{:.0f}\" y=\"10\" width=\"14\" height=\"12\"/>\n", kind, x);
    svg += words(x + 20, 21, name);
    x += 110;
  }
  double y = kTop;
  for (const Part& part : parts) {
    svg += words(8, y + 14, part.title, " class=\"title\"");
    y += kTitle;
    svg += words(8, y + 15, "computing") + words(8, y + kRow + 15, "on its way");
    svg += scale.bars(part.lanes.forward, part.from, y, "forward") + scale.bars(part.lanes.backward, part.from, y, "backward") +
           scale.bars(part.lanes.on_its_way, part.from, y + kRow, "way");
    for (const auto& [iteration, begun] : part.lanes.begun) {
      if (scale.shows(begun - part.from))
        svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\"/>\n", scale.at(begun - part.from),
                           y - 4, y + 2 * kRow);
    }
    y += 2 * kRow + kGap;
  }
  for (double at = 0; scale.shows(at); at += scale.tick()) {
    const bool fits = scale.at(at) < kWidth - 30;
    svg += words(scale.at(at), y, fmt::format("{:g} ms", at / 1000),
                 fits ? " class=\"note\" text-anchor=\"middle\"" : " class=\"note\" text-anchor=\"end\"");
  }
  return svg + "</svg>\n";
}

}  // namespace paceline::cli
