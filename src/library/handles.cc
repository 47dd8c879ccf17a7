#include "library/handles.h"

#include <atomic>
#include <cmath>
#include <unordered_map>

#include "base/fork.h"

namespace paceline::library {
namespace {

using Number = std::uintptr_t;

// Numbers are odd, so that no pointer is one, and begin with the process, so that the parent's are known as such.
constexpr int kCounterBits = 40;

class Table {
 public:
  explicit Table(std::uint64_t process) : process_(process) {}
  std::uint64_t process() const { return process_; }

  Number add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const Number number = prefix() | (next_++ * 2 + 1);
    objects_.emplace(number, std::move(object));
    return number;
  }

  std::shared_ptr<Object> find(Number number) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(number);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> take(Number number) {
    const std::lock_guard lock(mutex_);
    auto node = objects_.extract(number);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  bool was_given(Number number) {
    const std::lock_guard lock(mutex_);
    return number % 2 == 1 && number > prefix() && number < (prefix() | (next_ * 2 + 1));
  }
  // This process was forked from the one that gave it.
  bool is_a_parents(Number number) const { return number % 2 == 1 && number >> kCounterBits > 0 && number < prefix(); }

 private:
  Number prefix() const { return static_cast<Number>(process_ + 1) << kCounterBits; }

  const std::uint64_t process_;
  std::mutex mutex_;  // what follows
  Number next_ = 1;
  std::unordered_map<Number, std::shared_ptr<Object>> objects_;
};

std::atomic<Table*> current{nullptr};
std::atomic<std::uint64_t> abandoned{0};  // forks that were told and not noticed

// Of this process. Never destroyed: its objects' threads may outlive main(), and a parent's are not the child's to destroy.
Table& table() {
  const std::uint64_t process = process_generation() + abandoned;
  Table* known = current;
  while (known == nullptr || known->process() != process) {
    auto* mine = new Table(process);
    if (current.compare_exchange_strong(known, mine)) return *mine;
    delete mine;
  }
  return *known;
}

Status no_object(const void* handle, const char* wanted) {
  const auto number = reinterpret_cast<Number>(handle);
  if (handle == nullptr) return refusal(kNull, wanted, "the {} is NULL", wanted);
  if (table().was_given(number)) return closed_already(wanted);
  if (table().is_a_parents(number))
    return refusal(kHandle, wanted, "the {} was made before fork(); make another one in this process", wanted);
  return refusal(kHandle, wanted, "the {} is no handle of this library", wanted);
}

}  // namespace

void* add_object(std::shared_ptr<Object> object) { return reinterpret_cast<void*>(table().add(std::move(object))); }

Result<std::shared_ptr<Object>> find_object(const void* handle, const char* wanted) {
  auto object = table().find(reinterpret_cast<Number>(handle));
  if (object == nullptr) return no_object(handle, wanted);
  return object;
}

Status closed_already(const char* wanted) { return refusal(kHandle, wanted, "the {} is closed already", wanted); }

Status close_handle(const void* handle, Duration limit) {
  const std::shared_ptr<Object> object = table().take(reinterpret_cast<Number>(handle));
  if (object == nullptr) return no_object(handle, "handle");
  object->stop();
  const std::unique_lock last(object->users_);
  object->over_ = true;
  object->end(limit);
  return {};
}

void abandon_objects() { ++abandoned; }

Result<Duration> limit_of(double seconds) {
  constexpr double kLongest = 1e9;
  if (std::isnan(seconds) || seconds < 0)
    return refusal("illegal", "seconds", "seconds are {}; legal: 0 and more, or INFINITY", seconds);
  return seconds >= kLongest ? Duration::max() : from_seconds(seconds);
}

}  // namespace paceline::library
