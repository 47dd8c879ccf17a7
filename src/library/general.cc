// The functions of the C interface that belong to no object of one kind.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "library/questions.h"
#include "library/structs.h"
#include "library/text.h"

namespace paceline::library {
namespace {

// The longest that a node's goodbyes may take.
constexpr Duration kMostFarewell = std::chrono::seconds(10);

struct Known {
  std::string_view name;
  std::size_t size;
};
constexpr Known kStructs[] = {
    {"paceline_error", sizeof(paceline_error)},
    {"paceline_tensor", sizeof(paceline_tensor)},
    {"paceline_place", sizeof(paceline_place)},
    {"paceline_info", sizeof(paceline_info)},
    {"paceline_verdict", sizeof(paceline_verdict)},
    {"paceline_step", sizeof(paceline_step)},
    {"paceline_link", sizeof(paceline_link)},
    {"paceline_communicator_options", sizeof(paceline_communicator_options)},
    {"paceline_communicator_info", sizeof(paceline_communicator_info)},
    {"paceline_call", sizeof(paceline_call)},
};

}  // namespace

std::size_t struct_size(const char* name) {
  for (const Known& known : kStructs) {
    if (known.name == name) return known.size;
  }
  return 0;
}

}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_close(void* handle, double seconds, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const Duration limit, limit_of(seconds));
    return close_handle(handle, std::min(limit, kMostFarewell));
  });
}

int32_t paceline_text_bytes(const paceline_text* text, const char** bytes, size_t* count, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Text>(text));
    if (bytes != nullptr) *bytes = used->bytes().c_str();
    if (count != nullptr) *count = used->bytes().size();
    return {};
  });
}

int32_t paceline_ask(const char* question, const char* json, paceline_text** answer, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_given(question, "question"));
    PACELINE_RETURN_IF_ERROR(check_given(answer, "answer"));
    PACELINE_ASSIGN_OR_RETURN(std::string text, ask(question, json == nullptr ? "" : json));
    give_text(std::move(text), answer);
    return {};
  });
}

const char* paceline_version(void) { return PACELINE_VERSION; }
size_t paceline_struct_size(const char* name) { return name == nullptr ? 0 : struct_size(name); }
void paceline_after_fork(void) { abandon_objects(); }
