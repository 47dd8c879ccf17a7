// The objects behind the handles of the C interface. A handle is a number that was never used before, so that one that is closed,
// made up, of another type or of the parent of a fork is recognised and never followed.
//
// Threads: any. A call holds its object by a Use; close() takes the object out of the table, tells it to stop, and waits for the
// calls that are inside.
#pragma once

#include <concepts>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "base/quantity.h"
#include "library/errors.h"

namespace paceline::library {

class Object {
 public:
  virtual ~Object() = default;
  virtual const char* type() const = 0;  // "job", for messages
  // The handle is being closed: whoever waits inside is to return soon. Any thread.
  virtual void stop() {}
  // Nobody is inside any more. What is still to be sent may take so long.
  virtual void end(Duration) {}

 private:
  template <typename Type>
  friend class Use;
  friend Status close_handle(const void* handle, Duration limit);

  std::shared_mutex users_;  // held, shared, by every call
  bool over_ = false;        // guarded by users_: end() has been called, or will be
};

// An object while a call uses it.
template <typename Type>
class Use {
 public:
  explicit Use(std::shared_ptr<Type> object) : object_(std::move(object)), lock_(object_->users_) {}
  // Closed after it was found and before this held it.
  bool over() const { return object_->over_; }
  Type* operator->() const { return object_.get(); }
  Type& operator*() const { return *object_; }
  const std::shared_ptr<Type>& shared() const { return object_; }

 private:
  std::shared_ptr<Type> object_;
  std::shared_lock<std::shared_mutex> lock_;
};

// The object's handle from now on.
void* add_object(std::shared_ptr<Object> object);
// kBadRequest with code "handle" when it is none.
Result<std::shared_ptr<Object>> find_object(const void* handle, const char* wanted);
Status closed_already(const char* wanted);
Status close_handle(const void* handle, Duration limit);
// Forgets all handles, without touching what is behind them: this is the child of a fork.
void abandon_objects();

// `Type::kType` names the type.
template <std::derived_from<Object> Type>
Result<Use<Type>> use(const void* handle) {
  PACELINE_ASSIGN_OR_RETURN(std::shared_ptr<Object> object, find_object(handle, Type::kType));
  auto typed = std::dynamic_pointer_cast<Type>(object);
  if (typed == nullptr) return refusal(kHandle, Type::kType, "the handle is a {}; give a {}", object->type(), Type::kType);
  Use<Type> used(std::move(typed));
  if (used.over()) return closed_already(Type::kType);
  return used;
}

template <typename Handle>
void give_handle(std::shared_ptr<Object> object, Handle** handle) {
  *handle = static_cast<Handle*>(add_object(std::move(object)));
}

// A limit as the interface has it. kBadRequest when it is none.
Result<Duration> limit_of(double seconds);

}  // namespace paceline::library
