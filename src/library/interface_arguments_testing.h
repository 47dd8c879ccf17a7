// For the fuzzer of the C interface: arguments that are wrong now and then, and the handles that there are. Pointers are NULL or
// right, since a library cannot know which memory a program has.
#pragma once

#include <cmath>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "paceline/paceline.h"

namespace paceline::library::testing {

inline void require(bool holds) {
  if (!holds) std::abort();
}

class Arguments {
 public:
  explicit Arguments(FuzzedDataProvider& data) : data_(data) {}
  ~Arguments() {
    for (void* handle : std::set<void*>(handles_.begin(), handles_.end())) check(paceline_close(handle, 0, error()));
  }

 protected:
  template <typename Handle>
  Handle* any() {
    const int choice = data_.ConsumeIntegralInRange(0, 15);
    if (choice == 0) return nullptr;
    if (choice == 1) return reinterpret_cast<Handle*>(data_.ConsumeIntegral<std::uintptr_t>());
    if (choice == 2 || handles_.empty()) return static_cast<Handle*>(closed_);
    return static_cast<Handle*>(handles_[data_.ConsumeIntegralInRange<std::size_t>(0, handles_.size() - 1)]);
  }
  template <typename Handle>
  void keep(std::int32_t kind, Handle*& made) {  // by reference: the call comes first
    check(kind);
    require((kind == PACELINE_DONE) == (made != nullptr));
    if (made != nullptr) handles_.push_back(made);
  }
  template <typename Struct>
  Struct sized() {
    Struct made{};
    made.size = data_.ConsumeIntegralInRange(0, 15) == 0 ? data_.ConsumeIntegral<std::size_t>() : sizeof made;
    return made;
  }
  // Of a struct that is filled, so one that says it is larger than the library's is not written beyond it.
  template <typename Type>
  Type* null_or(Type& value) {
    return data_.ConsumeIntegralInRange(0, 15) == 0 ? nullptr : &value;
  }
  const char* words() {
    static constexpr const char* kWords[] = {"optimizer",   "sgd",        "learning-rate", "0.1",         "deadline", "1s",
                                             "sync",        "asp",        "wire",          "collective",  "loop3",    "127.0.0.1:0",
                                             "127.0.0.1:1", "plan slice", "options",       "[{\"a\":1}]", "{}",       ""};
    if (data_.ConsumeBool()) return data_.PickValueInArray(kWords);
    text_.push_back(data_.ConsumeRandomLengthString(40));
    return text_.back().c_str();
  }
  double seconds() { return data_.PickValueInArray({0.0, 0.001, -1.0, static_cast<double>(NAN)}); }
  std::int32_t number() {
    return data_.ConsumeBool() ? data_.ConsumeIntegralInRange(-2, 8) : data_.ConsumeIntegral<std::int32_t>();
  }

  paceline_error* error() {
    error_ = {};
    error_.size =
        data_.ConsumeIntegralInRange(0, 31) == 0 ? data_.ConsumeIntegralInRange<std::size_t>(0, sizeof error_) : sizeof error_;
    return data_.ConsumeIntegralInRange(0, 15) == 0 ? nullptr : &error_;
  }
  void check(std::int32_t kind) {
    require(kind >= PACELINE_DONE && kind <= PACELINE_AGAIN);
    if (error_.message[0] != 0) require(error_.kind == kind && error_.code[0] != 0);
  }
  std::uint32_t up_to(std::uint32_t most) { return data_.ConsumeIntegralInRange<std::uint32_t>(0, most); }

  FuzzedDataProvider& data_;
  std::vector<void*> handles_;
  std::deque<std::string> text_;  // whose places stay
  void* closed_ = nullptr;
  paceline_error error_{};
  // As many as any tensor has: 30 * 30 * 2.
  std::vector<float> numbers_ = std::vector<float>(1800, 1.0F);
};

}  // namespace paceline::library::testing
