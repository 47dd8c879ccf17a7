// A text that the library has made.
#pragma once

#include <string>

#include "library/handles.h"

namespace paceline::library {

class Text final : public Object {
 public:
  static constexpr const char* kType = "text";
  explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
  const char* type() const override { return kType; }
  const std::string& bytes() const { return bytes_; }

 private:
  const std::string bytes_;
};

inline void give_text(std::string bytes, paceline_text** text) { give_handle(std::make_shared<Text>(std::move(bytes)), text); }

}  // namespace paceline::library
